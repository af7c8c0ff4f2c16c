"""What the observer is told first."""

from __future__ import annotations

from emqproxy.config import Config
from emqproxy.proxy.greeting import hello
from emqproxy.records import ObserverSettings


def test_every_setting_of_the_observer_is_told() -> None:
    given = {
        "trace": {"namespace": "prod", "token": "off", "token_key": "k", "renewals_per_attempt": 7},
        "observer": {"journal": "/j", "journal_max_bytes": 9, "admin": "[::1]:9999"},
        "log_level": "debug",
        "mode": "shadow",
        "lateness": {"late": 0.5, "critical": 0.7},
        "sole_path": True,
        "limits": {"locks": 9},
        "upstream": "redis://:secret@redis:6390/2",
    }
    told = hello(Config.model_validate(given), "run", 3, 77)
    first = ("prod", "off", "k", 7, "/j", 9, "debug", "::1", 9999, "shadow")
    assert told.settings == ObserverSettings(*first, 0.5, 0.7, True, 9, 77)
    default = ObserverSettings()
    untold = [field for field in default.__struct_fields__ if getattr(told.settings, field) == getattr(default, field)]
    assert untold == []
    assert (told.run, told.server_address, told.server_port, told.restarts) == ("run", "redis", 6390, 3)
    assert "secret" not in repr(told)


def test_of_a_socket_its_path_is_told_and_no_admin_listener_is_none() -> None:
    told = hello(Config.model_validate({"upstream": "unix:///run/redis.sock", "observer": {"admin": ""}}), "run", 0, 0)
    assert (told.server_address, told.server_port) == ("/run/redis.sock", None)
    assert (told.settings.admin_host, told.settings.admin_port) == ("", 0)

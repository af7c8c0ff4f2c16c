"""Which rules are in force: from the configuration to the judge, and to the connections that are open already."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from emqproxy.config import Config
from emqproxy.proxy.judge import Judge
from emqproxy.proxy.watched import Watched


class Connection(Protocol):
    """One that is open."""

    watched: Watched

    def close(self) -> None: ...


def put_in_force(config: Config, judge: Judge, connections: Iterable[Connection] = ()) -> None:
    """From now on these rules hold. In enforce mode a connection that cannot be followed is closed."""
    judge.use(config.mode, config.rules.model_dump(), config.limits, config.scripts.allow)
    if judge.enforces:
        for connection in list(connections):
            if connection.watched.session.blinded is not None:
                connection.close()

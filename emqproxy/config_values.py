"""How single values of the configuration are read: from TOML, a variable, a flag.

Each raises ValueError, whose words say what to write instead and repeat nothing of what was given.
"""

from __future__ import annotations

import json
import re
from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Field

from emqproxy.addresses import HostPort, Listen, Upstream

_SHADE: Final = "a share of the lock's time to live, above 0 and at most 1, like 0.60"
_LIST: Final = re.compile(r"\s*\[\s*[\"'\]]")
"""How a JSON list of words begins, and no address: `[::1]:6380` is one."""
_SHA: Final = re.compile(r"[0-9a-fA-F]{40}")
SHAS: Final = "a list of scripts' sha1s, 40 hex digits each, or [] for none"
ADMIN: Final = 'HOST:PORT, like 127.0.0.1:9465, or "" for none'


def number(value: object) -> object:
    """A number, and no truth value."""
    if isinstance(value, bool):  # pydantic would read true as 1
        raise ValueError("not a number")
    return value


def listed(value: object) -> object:
    """A list as the environment and a careless file write it: `a, b`, or `["a", "b"]`."""
    if isinstance(value, str):
        if _LIST.match(value):
            try:
                return json.loads(value)
            except (ValueError, RecursionError):
                raise ValueError('no list; write it with commas, a,b, or as JSON, ["a", "b"]') from None
        return [part.strip() for part in value.split(",") if part.strip()]
    return value


def listens(value: object) -> object:
    """Addresses to listen on."""
    value = listed(value)
    if not isinstance(value, list | tuple):
        raise ValueError('not a list; write a list like ["tcp://127.0.0.1:6380"]')
    if not all(isinstance(item, str | Listen) for item in value):
        raise ValueError('not an address; write a list like ["tcp://127.0.0.1:6380"]')
    return tuple(Listen.parse(item) if isinstance(item, str) else item for item in value)


def upstream(value: object) -> object:
    """The upstream's address."""
    if not isinstance(value, str | Upstream):  # pydantic would make one of a table, past all that `parse` asks for
        raise ValueError("not an address; write a URL like redis://127.0.0.1:6379")
    return Upstream.parse(value) if isinstance(value, str) else value


def host_port(value: object) -> object:
    """HOST:PORT; empty for none."""
    if value is not None and not isinstance(value, str | HostPort):
        raise ValueError('not an address; write HOST:PORT, like 0.0.0.0:9464, or "" for none')
    if isinstance(value, str):
        return HostPort.parse(value) if value else None
    return value


def admin(value: object) -> object:
    """As `host_port`, of the observer."""
    try:
        return host_port(value)
    except ValueError:
        raise ValueError(f"not an address; write {ADMIN}") from None


def shas(value: object) -> object:
    """sha1s of scripts, in lower case."""
    value = listed(value)
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise ValueError(f"not a list of sha1s; write {SHAS}")
    for place, item in enumerate(value, 1):
        if not _SHA.fullmatch(item):
            raise ValueError(f"number {place} in it is no sha1; write {SHAS}")
    return tuple(item.lower() for item in value)


Count = Annotated[int, BeforeValidator(number)]
Share = Annotated[float, BeforeValidator(number), Field(gt=0, le=1, description=_SHADE)]
StanceName = Annotated[Literal["observe", "shadow", "enforce"], Field(description="observe, shadow or enforce")]
"""How strictly a rule is held, or all of them."""

"""What the observer is told first: which run this is, where Redis is, and what of the configuration concerns it."""

from __future__ import annotations

import emqproxy
from emqproxy.config import Config
from emqproxy.locks.events import Instant
from emqproxy.records import Hello, ObserverSettings


def hello(config: Config, run: str, restarts: int, began_ns: Instant) -> Hello:
    """The first message to a fresh observer; `restarts`: how many there were before it in this run; `began_ns`: since
    when anything is seen."""
    upstream, admin = config.upstream, config.observer.admin
    settings = ObserverSettings(
        namespace=config.trace.namespace,
        token=config.trace.token,
        token_key=config.trace.token_key.get_secret_value(),
        renewals_per_attempt=config.trace.renewals_per_attempt,
        journal=config.observer.journal,
        journal_max_bytes=config.observer.journal_max_bytes,
        log_level=config.log_level,
        admin_host=admin.host if admin is not None else "",
        admin_port=admin.port if admin is not None else 0,
        mode=config.mode,
        late=config.lateness.late,
        critical=config.lateness.critical,
        sole_path=config.sole_path,
        locks=config.limits.locks,
        began_ns=began_ns,
    )
    tcp = upstream.kind == "tcp"
    address, port = (upstream.host, upstream.port) if tcp else (upstream.path, None)
    return Hello(run, emqproxy.__version__, address, port, restarts, settings)

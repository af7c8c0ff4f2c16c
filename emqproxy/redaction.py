"""A journal without anything that names somebody or something: safe to send with a bug report.

Only what is known to be harmless goes on: times, figures, and words of closed sets. Queues, prefixes (but `emq` and
`bull`), jobs, tokens, workers, clients and runs become pseudonyms: the same name the same pseudonym, under a key that
nobody keeps. Sentences are left out; `replay` makes them again. What is none of these is dropped, whatever it is.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from emqproxy.journal_lines import JournalLine
from emqproxy.locks.evictions import POLICIES
from emqproxy.locks.policy import Action, Rule
from emqproxy.locks.verdicts import Finding, Grade
from emqproxy.observer.journal_replay import Beside, Replay
from emqproxy.replay_facts import FACTS, INTENTS
from emqproxy.scripts.answers import (
    CODE_NAMES,
    ERROR_NAMES,
    JOB_LOCKED,
    NO_PENDING_CHILDREN,
    OBLITERATE_CODES,
    RENEW_REFUSED,
)
from emqproxy.scripts.hands import TARGETS
from emqproxy.session.table import COMMANDS

CAUSES: Final = frozenset(
    (
        "expired_worker_silent", "retaken", "already_moved_by_same_owner", "recovered_not_retaken", "expired_unswept",
        "renew_config", "renew_stopped", "renewal_late", "link_loss", "never_owner", "stale_suffix", "lock_bypass",
        "job_removed", "job_vanished", "lock_vanished_early", "lock_deleted_by", "failover_lost_lock",
        "eviction_suspected", "not_in_active", "server_refused", "double_grant", "script_mismatch", "no_sweeper",
        "hung_processor", "stall_limit", "ghost_job", "slow_redis", "proxy_pause", "maybe_applied_twice",
        "benign_renew_race", "pending_children", "fixed_token", "pickup_failed_dirty", "before_our_start", "unknown",
    )
)  # fmt: skip
"""CONTRACT's closed list."""
OPS: Final = frozenset(
    (
        "add", "acquire", "renew", "finish", "delay", "retry", "wait", "wait_children", "release", "reap", "remove",
        "write", "raw", "lapse", "watch", "conn", "blind", "sweep", "wipe",
    )
)  # fmt: skip
_CODE_NAMES: Final = frozenset(
    (*CODE_NAMES.values(), *OBLITERATE_CODES.values(), *ERROR_NAMES, JOB_LOCKED, NO_PENDING_CHILDREN, RENEW_REFUSED)
)
_WORDS: Final[Mapping[str, frozenset[str]]] = {
    "outcome": frozenset({"ok", "refused", "error", "blocked", "unknown", "told"}),
    "target": frozenset({"completed", "failed", "wait", "opened", "closed"}) | TARGETS,
    "code_name": _CODE_NAMES,
    "effect": frozenset(FACTS) | {"lapsed"},
    "grade": frozenset(grade.value for grade in Grade),
    "finding": frozenset(finding.word for finding in Finding),
    "scope": frozenset({"here", "whole"}),
    "cause": CAUSES,
    "match": frozenset({"catalogue", "learned", "shape"}),
    "action": frozenset(action.value for action in Action),
    "rule": frozenset(rule.value for rule in Rule),
}
"""By field, all that it may say."""
_KEPT_PREFIXES: Final = frozenset({"emq", "bull", "{emq}", "{bull}"})
_SHA: Final = re.compile(r"[0-9a-f]{40}")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", re.ASCII)


class Redactor:
    """One journal's: `key` is random, and forgotten with it. `scripts` are names that everybody knows."""

    def __init__(self, key: bytes, scripts: frozenset[str]) -> None:
        self._begun = hashlib.blake2b(digest_size=8, key=key)
        self._scripts = scripts | {name.decode() for name in COMMANDS}
        self._encoder = msgspec.json.Encoder()
        self.dropped = 0
        """Lines that say something which no release of ours says."""

    def line(self, line: JournalLine) -> bytes | None:
        """The same line, with nothing in it that names anything; None where nothing of it can be told."""
        known = {field: self._known(getattr(line, field), words) for field, words in _WORDS.items()}
        if line.op not in OPS or known["outcome"] is None or known["effect"] is None:
            self.dropped += 1
            return None
        told = replace(
            line,
            **known,
            run=self._name("run", line.run),
            time=line.time if _TIME.fullmatch(line.time) else "1970-01-01T00:00:00.000000Z",
            prefix=self._prefix(line.prefix),
            queue=self._name("queue", line.queue),
            job=self._name("job", line.job),
            token=self._name("token", line.token),
            worker=self._name("token", line.worker),
            script=self._script(line.script),
            sha=line.sha if line.sha is not None and _SHA.fullmatch(line.sha) else None,
            client=self._name("client", line.client),
            client_name=self._name("name", line.client_name),
            because=None,
            replay=self._replay(line.replay),
        )
        return self._encoder.encode(told) + b"\n"

    def _replay(self, rest: Replay) -> Replay:
        return replace(
            rest,
            worker=self._name("token", rest.worker),
            besides=tuple(self._beside(beside) for beside in rest.besides if beside.effect in FACTS),
            memory=tuple(memory for memory in rest.memory if memory.policy in POLICIES),
        )

    def _beside(self, beside: Beside) -> Beside:
        return replace(
            beside,
            prefix=self._prefix(beside.prefix),
            queue=self._name("queue", beside.queue),
            job=self._name("job", beside.job),
            token=self._name("token", beside.token),
            intent=beside.intent if beside.intent in INTENTS else None,
        )

    def _known(self, word: str | None, words: frozenset[str]) -> str | None:
        return word if word in words else None

    def _prefix(self, prefix: str | None) -> str | None:
        return prefix if prefix in _KEPT_PREFIXES else self._name("prefix", prefix)

    def _script(self, script: str | None) -> str | None:
        return script if script in self._scripts else self._name("script", script)

    def _name(self, kind: str, name: str | None) -> str | None:
        if name is None:
            return None
        own = self._begun.copy()
        own.update(f"{kind}\0{name}".encode("utf-8", "surrogatepass"))
        return f"{kind}-{own.hexdigest()}"

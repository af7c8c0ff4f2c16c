"""Script calls for generated conversations: the protocol's own, as the installed library has them, and others."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Sequence
from typing import Final

from emqproxy.scripts.catalogue import Catalogue
from tests.long.vocabulary import Voice
from tests.processes import RedisServer
from tests.scripts import talk
from tests.scripts.roles import _TEXTS, LAYOUTS, NEW, NOW_MS, Speaker, packed
from tests.scripts.talk import PREFIX, Conversation
from tests.session.talk import words

Words = Sequence[bytes | None]
TTL_MS: Final = 600_000
"""Longer than a batch: no lock may lapse between the two servers."""
_ADDED: Final = packed(PREFIX.decode(), "", "resize", NOW_MS, None, None, None, None, None, None)
_LATE: Final = 9_999_999_999_999

ROLES: Final[dict[str, dict[str, object]]] = {
    "addStandardJob": {"packed_arguments": _ADDED, "data": "{}", "packed_options": packed({"attempts": 1})},
    "addDelayedJob": {"packed_arguments": _ADDED, "data": "{}", "packed_options": packed({"attempts": 1, "delay": 5})},
    "addPrioritizedJob": {"packed_arguments": _ADDED, "data": "{}", "packed_options": packed({"priority": 2})},
    "addParentJob": {"packed_arguments": _ADDED, "data": "{}", "packed_options": packed({"attempts": 1})},
    "addLog": {"row": "hello", "job_logs": PREFIX + b"1:logs"},
    "cleanJobsInSet": {"state_set": PREFIX + b"active", "state": "active", "max_timestamp": _LATE, "limit": "0"},
    "removeJob": {"remove_children": "1"},
    "reprocessJob": {"state_set": PREFIX + b"failed", "push_command": "LPUSH", "property": "failedReason"},
    "saveStacktrace": {"stacktrace": "[]", "failed_reason": "no"},
    "updateData": {"data": "{}"},
    "updateProgress": {"progress": "50"},
    "changePriority": {"priority": "3"},
    "obliterate": {"count": 1000, "force": "1"},
}
"""What a client would say where `roles.Speaker` has only a zero to say."""

LUA: Final = (
    "return 1", "return {1, 2, {3, 'x'}, false, 'y'}", "return redis.status_reply('FINE')",
    "return redis.error_reply('MY fault')", "return redis.call('GET', KEYS[1])",
    "redis.setresp(3) return redis.call('HGETALL', KEYS[1])", "return {double = 3.5}", "return {map = {a = 1}}",
    "error('on purpose')", "retur 1", "return redis.pcall('INCR', KEYS[1], 'x')", "return redis.sha1hex(ARGV[1])",
    "return nil", "return redis.call('NOSUCH')", "return redis.call('PUBLISH', KEYS[1], ARGV[1])",
    "return cjson.encode(ARGV)", "return redis.call('SET', KEYS[1], ARGV[1])",
    "#!lua flags=no-writes\nreturn redis.call('SET', KEYS[1], '1')", "return ARGV[1]",
    "return redis.call('EVAL', 'return 1', 0)", "redis.call('SELECT', 1) return redis.call('GET', KEYS[1])",
    "return {push = {1}}", "return redis.call('BLPOP', KEYS[1], 0)", "return KEYS", "return 3.99", "return true",
    "return {ok = 'fine', err = 'bad'}",
)  # fmt: skip
LIBRARY: Final = "#!lua name=%s\nredis.register_function('%s', function(keys, args) return {keys[1], args[1]} end)"


class Scripts:
    """All calls that can be made, by way of a server that is asked once what they look like."""

    def __init__(self, server: RedisServer) -> None:
        conversation = Conversation(server.port, Catalogue())
        speaker = Speaker(conversation, NEW)
        names = sorted({name for name, _ in LAYOUTS} & set(_TEXTS))
        self.texts = {hashlib.sha1(text).hexdigest().encode(): text for text in map(speaker.text, names)}
        """By sha."""
        self._others: list[Words] = [
            speaker.sent(name, job_id=job, **ROLES.get(name, {}))
            for name in names
            for job in "12"
            if name not in _WORKERS
        ]
        conversation.close()

    def load(self) -> bytes:
        """What makes a server know them all."""
        return b"".join(words("SCRIPT", "LOAD", text) for text in self.texts.values())

    def protocol(self, voice: Voice) -> list[bytes]:
        """One call of the protocol, or what it needs: jobs that wait."""
        rnd = voice.rnd
        if rnd.random() < 0.2:
            return self._add(voice)
        sent = rnd.choice(self._others) if rnd.random() < 0.35 else rnd.choice(_CALLS)(voice)
        said = [word.replace(PREFIX, voice.prefix) for word in sent if word is not None]
        chance = rnd.random()
        if chance < 0.04:
            said[:2] = [b"EVAL", self.texts[said[1]]]
        elif chance < 0.07:
            said[1] = said[1].upper()
        elif chance < 0.09:
            said.pop()  # of others, a job's id would come to stand for a lock's time to live
        elif chance < 0.11:
            said[2] = rnd.choice((b"0", b"-1", b"999", b"x", b"01"))
        lead = [voice.say("DEL", voice.prefix + b"stalled-check")] if b"stalled-check" in b" ".join(said) else []
        return [*lead, words(*said)]

    def _add(self, voice: Voice) -> list[bytes]:
        job = voice.job()
        fields = ("name", "n", "data", "{}", "opts", "{}", "timestamp", 1, "delay", 0, "priority", 0)
        return [
            words("HSET", voice.prefix + job.encode(), *fields),
            words("LPUSH", voice.prefix + b"wait", job),
            words("ZADD", voice.prefix + b"marker", 0, "0"),
        ]


_CALLS: Final[tuple[Callable[[Voice], Words], ...]] = (
    lambda voice: talk.pick(voice.token(), TTL_MS),
    lambda voice: talk.pick(voice.token(), TTL_MS),
    lambda voice: talk.pick(voice.token(), TTL_MS),
    lambda voice: talk.renew(voice.job(), voice.token(), TTL_MS),
    lambda voice: talk.renew(voice.job(), voice.token(), voice.rnd.choice((0, "x", TTL_MS))),
    lambda voice: talk.renew_all([voice.job(), voice.job()], [voice.token(), voice.token()], TTL_MS),
    lambda voice: talk.finish(voice.job(), voice.token(), ttl_ms=TTL_MS),
    lambda voice: talk.finish(voice.job(), voice.token(), target="failed", ttl_ms=TTL_MS),
    lambda voice: talk.finish(voice.job(), voice.token(), fetch="1", ttl_ms=TTL_MS),
    lambda voice: talk.finish(voice.job(), "0", ttl_ms=TTL_MS),
    lambda voice: talk.delay(voice.job(), voice.token()),
    lambda voice: talk.retry(voice.job(), voice.token()),
    lambda voice: talk.back(voice.job(), voice.token()),
    lambda voice: talk.to_children(voice.job(), voice.token()),
    lambda voice: talk.release(voice.job(), voice.token()),
    lambda _: talk.sweep(1, TTL_MS),
)
_WORKERS: Final = {
    "moveToActive", "moveToFinished", "moveToDelayed", "retryJob", "moveJobFromActiveToWait", "moveToWaitingChildren",
    "releaseLock", "extendLock", "extendLocks", "moveStalledJobsToWait",
}  # fmt: skip
"""Those that `_CALLS` has."""


def stranger(voice: Voice) -> list[bytes]:
    """Scripts and functions of somebody else: run, loaded, called by their sha, missing, wrong."""
    rnd = voice.rnd
    text = rnd.choice(LUA) if rnd.random() < 0.5 else f"{rnd.choice(LUA)} -- {voice.prefix.decode()}"
    sha = hashlib.sha1(text.encode()).hexdigest()
    own = "-- " in text
    run: list[str | bytes | int] = [1, voice.key("snhl"[rnd.randrange(4)]), voice.value()]
    name = voice.prefix.decode().replace(":", "_")
    match rnd.randrange(12):
        case 0 if own:  # of a text that only this speaker has: another's would be loaded by chance
            return [words("SCRIPT", "LOAD", text), words("SCRIPT", "EXISTS", sha, "f" * 40)]
        case 1 if own:
            return [words("EVALSHA", sha, *run)]
        case 2 if own:
            return [words("SCRIPT", "LOAD", text), words("EVALSHA_RO", sha, *run)]
        case 3:
            return [words(rnd.choice(("EVALSHA", "EVALSHA_RO")), rnd.choice(("f" * 40, "short", "")), *run)]
        case 4:
            return [words("EVAL_RO", text, *run)]
        case 5:
            return [words(rnd.choice(("FCALL", "FCALL_RO")), "none", *run)]
        case 6:
            return [words("FUNCTION", "LOAD", "REPLACE", LIBRARY % (name, name)), words("FCALL", name, *run)]
        case 7:
            return [words(*rnd.choice((("FUNCTION", "DELETE", name), ("FCALL", name, *run), ("SCRIPT", "WHAT"))))]
        case 8:
            return [words("EVAL", text, *run[: rnd.randrange(3)])]
        case _:
            return [words("EVAL", text, *run)]


def chance(seed: object) -> random.Random:
    """Chance that is the same in every run."""
    return random.Random(repr(seed))

"""The same inputs through two real sidecars, one that observes and one that enforces, as a client would send them.

The one in observe mode must give what Redis gives, byte for byte, and leave the same keys. The one that enforces must
give the same where it refused nothing, else the same up to its first word of its own; and CANARY must outlive it. Wipes
are left out there: a wipe is refused only while a lock is known to be held, and nobody has been seen to take CANARY.
"""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import Final, Self

from tests.long.framing_roads import PROTOCOL_ERROR, Found, Road, alike, apart_at, dropped
from tests.processes import EmqProxy
from tests.proxy.wires import sidecar

RULES: Final = '[rules]\nunknown_script = "enforce"\nmass_delete = "enforce"\n'
OURS: Final = b"-EMQPROXY "
_KEPT_BACK: Final = re.compile(rb"reply", re.IGNORECASE)
"""A refusal may be among what CLIENT REPLY keeps back: what follows finds other keys then, and says so."""
_WIPES: Final = re.compile(rb"flush(all|db)|swapdb", re.IGNORECASE)


class Sidecars:
    """Two, each before a server of its own. A context manager.

    The first server is spoken to directly, too: what its own hash seed decides is then the same on both roads.
    """

    def __init__(self, folder: Path) -> None:
        self._stack = contextlib.ExitStack()
        config = folder / "enforce.toml"
        config.write_text(RULES)
        try:
            self.direct, self.enforced = self._road(), self._road()
            self.observing = self._sidecar(self.direct)
            self.enforcing = self._sidecar(self.enforced, "--mode", "enforce", "--config", str(config))
        except BaseException:
            self._stack.close()
            raise

    def _road(self) -> Road:
        road = Road()
        self._stack.callback(road.stop)
        return road

    def _sidecar(self, road: Road, *more: str) -> EmqProxy:
        made: EmqProxy = self._stack.enter_context(sidecar(f"unix://{road.server.socket_path}", *more))
        return made

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def travel(self, data: bytes) -> Found:
        """All roads."""
        found = Found(data)
        self.direct.say(data)
        self.enforced.say(data, self.enforcing.port)
        direct, enforced = self.direct.heard(), self.enforced.heard()
        digest, direct_whole = self.direct.state()
        enforced_digest, whole = self.enforced.state()
        self.direct.say(data, self.observing.port)
        observed = self.direct.heard()
        observed_digest, _ = self.direct.state()
        found.died_directly = not direct_whole
        faults = found.faults
        if not (alike(observed, direct) or _cut_by_reset(observed, direct)):
            faults.append(f"observed: {apart_at(observed, direct)}")
        if observed_digest != digest:
            faults.append("observed: other keys")
        if not whole and not _WIPES.search(data):
            faults.append("a command ran that was to be refused: CANARY is not whole")
        at = enforced.find(OURS)
        found.kind = "enforced: passed" if at < 0 else "enforced: refused or closed"
        if at < 0 and enforced_digest != digest and not _KEPT_BACK.search(data):
            faults.append("enforced, nothing refused: other keys")
        if at >= 0:
            same = alike(enforced[:at], direct[:at]) or dropped(direct, enforced[:at], data)
        else:
            same = alike(enforced, direct) or _cut_by_reset(enforced, direct)
        if not same and not _KEPT_BACK.search(data):
            faults.append(f"enforced: {apart_at(enforced, direct)}")
        return found

    def troubles(self) -> list[str]:
        """What the sidecars say of themselves: a fault, or that they have ended."""
        found = [] if self.observing.running and self.enforcing.running else ["a sidecar has ended"]
        for proxy in (self.observing, self.enforcing):
            found += [str(line) for line in proxy.log if line.get("level") in ("error", "critical")]
        return found


def _cut_by_reset(given: bytes, direct: bytes) -> bool:
    """Over TCP the end of what is said before a close may be lost where more was on its way to who closes."""
    return PROTOCOL_ERROR in direct[-200:] and direct.startswith(given)

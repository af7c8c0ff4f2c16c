"""The same question answered another way: millisecond by millisecond, by a few counters. For tests alone."""

from __future__ import annotations

from typing import Any

from emqproxy.simulation.settings import Setting


def first_stall(setting: Setting, until_ms: int) -> dict[str, Any]:
    """What becomes of the first worker's lock: `lapsed_ms`, `recovered_ms`, `learned_ms`, `renewed`; None where nothing
    of the kind happens by `until_ms`."""
    renewed, lapsed_ms, recovered_ms, learned_ms = [], None, None, None
    left_ms, countdown_ms, marked = setting.lock_duration_ms, setting.renew_ms, False
    for now_ms in range(until_ms + 1):
        if now_ms:
            left_ms -= 1
            countdown_ms -= 1
        if left_ms < 0 and lapsed_ms is None:
            lapsed_ms = now_ms - 1
        stands_still = any(block.at_ms <= now_ms < block.at_ms + block.for_ms for block in setting.blocks)
        if countdown_ms <= 0 and not stands_still and learned_ms is None:
            if lapsed_ms is None:
                renewed.append(now_ms)
                left_ms, marked = setting.lock_duration_ms, False
                countdown_ms = setting.renew_ms
            else:
                learned_ms = now_ms
        since_first_ms = now_ms - setting.first_sweep_ms
        if since_first_ms >= 0 and since_first_ms % setting.stalled_interval_ms == 0 and recovered_ms is None:
            if marked and lapsed_ms is not None:
                recovered_ms = now_ms
            marked = True
    return {"lapsed_ms": lapsed_ms, "recovered_ms": recovered_ms, "learned_ms": learned_ms, "renewed": renewed}

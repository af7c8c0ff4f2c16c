"""What the demo's worker will do: names and times, shared by the worker and by those who tell of it."""

from __future__ import annotations

from typing import Final

PREFIX: Final = "emq"
QUEUE: Final = "demo"
HEALTHY: Final = "healthy"
SLOW: Final = "slow"
STUCK: Final = "stuck"
JOBS: Final = (HEALTHY, SLOW, STUCK)

LOCK_MS: Final = 3000
RENEW_MS: Final = 1000
"""The worker looks twice in this time whether a lock is to be renewed."""
SWEEP_MS: Final = 1000
BLOCK_MS: Final = {SLOW: 2000, STUCK: 3900}
"""0.67 of the lock; and longer than the whole of it."""
WORK_S: Final = {HEALTHY: 1.6, SLOW: 0.4, STUCK: 0.4}
"""What a job awaits besides, so that the worker's own timers can run."""

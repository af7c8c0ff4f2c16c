"""`emqproxy`, and on SIGUSR2 it writes how many asyncio tasks it has to the file that COUNTED_FILE names."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from emqproxy.cli import main


def count(*_: object) -> None:
    """Runs between two instructions of the loop's own thread."""
    path = Path(os.environ["COUNTED_FILE"])
    whole = path.with_suffix(".new")
    whole.write_text(str(len(asyncio.all_tasks(asyncio.get_running_loop()))))
    whole.replace(path)


if __name__ == "__main__":
    signal.signal(signal.SIGUSR2, count)
    sys.exit(main())

"""`python -m emqproxy.observer FD`: the observer's process. FD is the read end of the data plane's pipe.

It gives way to the data plane where there is no processor for both: what waits is told when there is one again.

It lives as long as the pipe: SIGINT, SIGTERM and SIGHUP go to the whole group of a terminal or a container, and the
data plane drains first.
"""

from __future__ import annotations

import os
import signal
import sys


def main(argv: list[str]) -> int:
    """Returns the exit code; 2 for bad usage."""
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, signal.SIG_IGN)
    if len(argv) != 1 or not argv[0].isdigit():
        sys.stderr.write("usage: python -m emqproxy.observer FD (it is started by `emqproxy run`)\n")
        return 2
    fd = int(argv[0])
    try:
        os.set_blocking(fd, True)
    except OSError:
        sys.stderr.write(f"emqproxy.observer: {fd} is no open descriptor\n")
        return 2
    # It takes a second, in which a signal to the whole group must not end us.
    from emqproxy.observer.observe import observe  # noqa: PLC0415

    return observe(fd)


if __name__ == "__main__":
    code = main(sys.argv[1:])
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            pass
    os._exit(code)  # a thread of the SDK may still wait for its collector

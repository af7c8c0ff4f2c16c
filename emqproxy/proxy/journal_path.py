"""Whether a journal could be written where it is wanted: asked before the start, so that nobody learns it too late."""

from __future__ import annotations

import os

from emqproxy.proxy.listeners import CannotStartError


def check_journal(path: str) -> None:
    """Raises CannotStartError where the observer could not write it. Makes nothing: an empty run leaves no file."""
    if path in ("", "-"):
        return
    target = os.path.realpath(path)  # what a dangling link points to would be made
    folder = os.path.dirname(target)
    if os.path.isdir(target):
        why = "it is a directory"
    elif os.path.exists(target):
        why = "" if os.access(target, os.W_OK) else "it may not be written"
    elif not os.path.isdir(folder):
        why = f"there is no directory {folder}"
    else:
        why = "" if os.access(folder, os.W_OK | os.X_OK) else f"nothing may be made in {folder}"
    if why:
        raise CannotStartError(
            f"cannot write the journal {path}: {why}; give --journal a file's path in a directory that may be "
            "written, '-' for standard output, or '' for none"
        )

"""Calls of scripts that are nothing to anybody: most of what passes where queues share a Redis with others."""

from __future__ import annotations

from collections.abc import Container, Sequence

from emqproxy.session.exchange import Word


class Strangers:
    """Whether a script call is a stranger's: an EVALSHA that no lock script and no learned text has, with no word that
    could be a key within the prefixes."""

    def __init__(self, lock_scripts: Container[bytes], learned: Container[bytes], prefixes: tuple[bytes, ...]) -> None:
        """By lower-case sha. `age` must be another number whenever one that was in neither is in one of them."""
        self.age = 0
        self.prefixes = prefixes
        self._lock_scripts, self._learned = lock_scripts, learned

    def __call__(self, words: Sequence[Word]) -> bool:
        if len(words) < 4 or words[0] != b"EVALSHA" or (sha := words[1]) is None:
            return False
        if sha in self._lock_scripts or sha in self._learned:
            return False
        if not sha.islower() and ((sha := sha.lower()) in self._lock_scripts or sha in self._learned):
            return False
        prefixes = self.prefixes
        for word in words[3:]:  # noqa: SIM110  on the data path: a generator takes twice as long
            if word is None or word.startswith(prefixes):
                return False
        return True

"""What may be refused: the rules, how strictly each is held, and the one decision on a call.

A rule is observed, shadowed or enforced, and the mode is the ceiling of all of them: the lesser of the two acts. What a
call is charged with is found elsewhere (by `scripts.defects` in the call itself, by the ledger in what it knows);
`decide` only weighs the charges. Observe mode is the rules under which every call passes, and nothing is said.

Source: CONTRACT, `[rules]`.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple


class Rule(enum.Enum):
    """What a call can be charged with, by its name in the configuration."""

    RAW_LOCK_WRITE = "raw_lock_write"
    """A hand on a lock's key outside the scripts."""
    UNKNOWN_SCRIPT = "unknown_script"
    """A script that nobody knows, on the protocol's keys."""
    ZERO_TOKEN = "zero_token"  # noqa: S105  a rule's name
    """The token "0", or none, against a lock that lives and is another's."""
    ZOMBIE_WRITE = "zombie_write"
    """A write to a job by one who held it, lost it, and another holds it."""
    LAPSED_HOLDER = "lapsed_holder"
    """A renewal, finish or move by one who has lost the job, with a token that Redis would still accept."""
    MALFORMED_CALL = "malformed_call"
    """A known script whose keys and arguments do not hold together."""
    BAD_DURATION = "bad_duration"
    """A pickup whose lock's time to live is missing, zero, or beyond the limits."""
    MASS_DELETE = "mass_delete"
    """All locks of a queue or a database, while some are held."""

    __hash__ = object.__hash__  # looked up for every charge


class Stance(enum.IntEnum):
    """How strictly a rule is held; of two, the lesser acts."""

    OBSERVE = 0
    SHADOW = 1
    """What would be refused is told, and passes."""
    ENFORCE = 2


DEFAULTS: Final[Mapping[Rule, Stance]] = {
    Rule.RAW_LOCK_WRITE: Stance.ENFORCE,
    Rule.UNKNOWN_SCRIPT: Stance.SHADOW,
    Rule.ZERO_TOKEN: Stance.ENFORCE,
    Rule.ZOMBIE_WRITE: Stance.ENFORCE,
    Rule.LAPSED_HOLDER: Stance.ENFORCE,
    Rule.MALFORMED_CALL: Stance.ENFORCE,
    Rule.BAD_DURATION: Stance.ENFORCE,
    Rule.MASS_DELETE: Stance.SHADOW,
}
"""Of the configuration: what each rule is where nobody says otherwise."""


class Action(enum.Enum):
    """What became of a call, as it stands in the journal and on spans."""

    PASSED = "passed"
    WOULD_BLOCK = "would_block"
    """It passed; in enforce mode it would not have."""
    BLOCKED = "blocked"

    __hash__ = object.__hash__


class Charge(NamedTuple):
    """A rule that a call breaks, and in words what is wrong: they end the error that its client gets."""

    rule: Rule
    words: str


class Decision(NamedTuple):
    """What becomes of a call, and why; no charge where it passes."""

    action: Action
    charge: Charge | None = None


PASS: Final = Decision(Action.PASSED)


class Rules:
    """How strictly each rule is held under a mode."""

    __slots__ = ("_in_force", "mode")

    def __init__(self, mode: Stance = Stance.OBSERVE, rules: Mapping[Rule, Stance] = DEFAULTS) -> None:
        """A rule that `rules` does not name is held as DEFAULTS says."""
        self.mode = mode
        self._in_force = {rule: min(mode, rules.get(rule, DEFAULTS[rule])) for rule in Rule}

    def stance(self, rule: Rule) -> Stance:
        """How strictly it is held now: the lesser of rule and mode."""
        return self._in_force[rule]


def decide(charges: Iterable[Charge], rules: Rules) -> Decision:
    """What becomes of a call with these charges: the strictest rule acts, the first of several that are alike."""
    worst, strictest = None, Stance.OBSERVE
    for charge in charges:
        stance = rules.stance(charge.rule)
        if stance > strictest:
            worst, strictest = charge, stance
    if worst is None:
        return PASS
    return Decision(Action.BLOCKED if strictest is Stance.ENFORCE else Action.WOULD_BLOCK, worst)

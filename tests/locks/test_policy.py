"""The decision on a call: of rule and mode the lesser acts, of several charges the strictest; nothing else counts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emqproxy.config import Config
from emqproxy.locks.policy import DEFAULTS, PASS, Action, Charge, Decision, Rule, Rules, Stance, decide
from emqproxy.proxy.judge import STANCES

stances = st.sampled_from(Stance)
charges = st.lists(st.builds(Charge, st.sampled_from(Rule), st.text()), max_size=4)
rule_sets = st.dictionaries(st.sampled_from(Rule), stances)
ACTIONS = {Stance.OBSERVE: Action.PASSED, Stance.SHADOW: Action.WOULD_BLOCK, Stance.ENFORCE: Action.BLOCKED}


@pytest.mark.parametrize("mode", Stance)
@pytest.mark.parametrize("rule", Stance)
def test_of_rule_and_mode_the_lesser_acts(mode: Stance, rule: Stance) -> None:
    charge = Charge(Rule.ZERO_TOKEN, "words")
    lesser = min(mode, rule)
    rules = Rules(mode, {Rule.ZERO_TOKEN: rule})
    assert rules.stance(Rule.ZERO_TOKEN) is lesser
    wanted = PASS if lesser is Stance.OBSERVE else Decision(ACTIONS[lesser], charge)
    assert decide([charge], rules) == wanted


@given(charges, stances, rule_sets)
def test_the_strictest_charge_acts_and_of_equals_the_first(
    found: list[Charge], mode: Stance, stance_of: dict[Rule, Stance]
) -> None:
    rules = Rules(mode, stance_of)
    decision = decide(found, rules)
    strictest = max((rules.stance(charge.rule) for charge in found), default=Stance.OBSERVE)
    assert decision.action is ACTIONS[strictest]
    if strictest is Stance.OBSERVE:
        assert decision == PASS
    else:
        assert decision.charge is next(charge for charge in found if rules.stance(charge.rule) is strictest)


@given(charges, rule_sets, stances)
def test_a_lower_mode_never_does_more(found: list[Charge], stance_of: dict[Rule, Stance], mode: Stance) -> None:
    order = list(ACTIONS.values())
    done = [order.index(decide(found, Rules(lower, stance_of)).action) for lower in Stance]
    assert done == sorted(done)
    assert done[0] == 0, "observe mode says nothing"
    assert done[1] <= 1, "shadow mode refuses nothing"
    assert order.index(decide(found, Rules(mode, stance_of)).action) <= mode


def test_nothing_is_charged_nothing_is_refused() -> None:
    assert decide([], Rules(Stance.ENFORCE)) == PASS
    assert Rules().mode is Stance.OBSERVE


def test_the_defaults_are_the_configurations() -> None:
    """What a rule is where nobody says otherwise stands in two places, for `locks` knows no configuration."""
    table = Config.model_validate({}).rules.model_dump()
    assert {rule.value: stance for rule, stance in DEFAULTS.items()} == {
        name: STANCES[stance] for name, stance in table.items()
    }
    assert {rule for rule in DEFAULTS if DEFAULTS[rule] is Stance.SHADOW} == {Rule.UNKNOWN_SCRIPT, Rule.MASS_DELETE}

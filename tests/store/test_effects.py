"""The registry of effects: what is written together with the progress of a run."""

from typing import ClassVar

import pytest

import holdfast.store.batch  # noqa: F401  its import registers the effects
from holdfast.core import commands
from holdfast.store.effects import Commit, Effect, Phase, applies, registered
from holdfast.store.runs.operations import Advanced
from holdfast.store.waits.operations import OpenWait


def test_every_effect_can_be_applied():
    kinds = [kind for kind in Effect.__subclasses__() if kind.__module__.startswith("holdfast.")]

    assert kinds
    assert {kind for kind in kinds if kind not in registered()} == set()


def test_no_effect_has_the_name_of_a_command():
    names = {name for name in vars(commands) if name[0].isupper()}

    assert {kind.__name__ for kind in registered()} & names == set()


@pytest.mark.parametrize("kind", sorted(registered(), key=str))
def test_an_effect_answers_a_field_of_the_answer_of_a_commit(kind):
    assert kind.answers is None or kind.answers in Advanced.__struct_fields__


def test_an_effect_is_applied_by_one_function():
    with pytest.raises(AssertionError, match="OpenWait is applied by two functions"):
        applies(OpenWait)(lambda tx, commit, effects: None)


class FirstRow(Effect):
    """A row of the run."""

    number: int


class SecondRow(Effect):
    """A row of the run that is registered later."""

    number: int


class LastRow(Effect):
    """A row that is locked after all others."""

    phase: ClassVar[Phase] = Phase.BUDGETS


def test_kinds_are_applied_by_phase_and_all_effects_of_a_kind_together():
    applied = []
    applies(LastRow)(lambda tx, commit, effects: applied.append("last"))
    applies(FirstRow)(lambda tx, commit, effects: applied.append(effects))
    applies(SecondRow)(lambda tx, commit, effects: applied.append(effects))
    effects = [LastRow(), SecondRow(1), FirstRow(1), SecondRow(2)]

    Commit("r1", 1, effects, calls_body=False).apply(None, Advanced(now=7))

    assert applied == [[FirstRow(1)], [SecondRow(1), SecondRow(2)], "last"]

"""What an execution knows of the budgets of its run, on a SQLite file."""

import pytest

from holdfast import Engine, step, workflow
from holdfast.budgets import spend
from holdfast.engine.execution.budget_guard import BudgetGuard
from holdfast.engine.execution.state import RunState
from holdfast.errors import UnknownDimension
from holdfast.testing import internals


@step
async def guarded_charge(amount: int) -> int:
    spend(tokens=amount)
    return amount


@workflow
async def guarded_shop(amount: int) -> int:
    return await guarded_charge(amount)


@pytest.fixture
def guard(tmp_path):
    """A guard of a run that draws on a budget of ten tokens."""
    with Engine(tmp_path / "g.db") as engine:
        engine.budgets.set("team", limits={"tokens": 10})
        run = engine.start(guarded_shop, 3, budget="team")
        assert run.result(timeout=20) == 3
        parts = internals(engine)
        record = parts.store.runs.get(run.id)
        yield BudgetGuard(RunState(record, parts.store.now), parts.worker)


def test_dimensions_are_learnt_when_one_is_unknown(guard):
    guard.check_dimensions({"tokens": 1})

    assert guard.counted_dimensions() == {"tokens"}
    with pytest.raises(UnknownDimension):
        guard.check_dimensions({"money": 1})


def test_it_knows_when_there_seems_to_be_no_room(guard):
    guard.learn_lines()

    assert not guard.seems_short({"tokens": micros(7)})
    assert guard.seems_short({"tokens": micros(8)})


def test_compensations_spend_freely(guard):
    assert not guard.spends_freely(is_compensation=False)
    assert guard.spends_freely(is_compensation=True)

    guard.state.cancelling = True

    assert guard.spends_freely(is_compensation=False)


def test_a_budget_that_is_not_passed_is_no_breach(guard):
    guard.find_breach()

    assert guard.breach is None


def micros(tokens: int) -> int:
    return tokens * 1_000_000

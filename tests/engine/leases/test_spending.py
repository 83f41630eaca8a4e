"""Workers that spend from the budgets of their tasks, and tasks without room in them."""

from __future__ import annotations

from decimal import Decimal

import pytest

from holdfast.errors import BudgetExceeded, LeaseLost, UnknownDimension
from tests.engine.waiting import one_lease as one


def used(engine, name):
    lines = engine.budgets.get(name).dimensions
    return {dimension: line.used for dimension, line in lines.items()}


def test_a_worker_spends_from_all_budgets_of_its_run(idle, holder):
    idle.budgets.set("team", {"tokens": 10})
    run = idle.start("render", 1, budget=["team", {"tokens": 8}])
    lease = one(holder)

    assert lease.spend({"tokens": 5}, key="call-1").counted
    assert not lease.spend({"tokens": 5}, key="call-1").counted
    assert lease.spend({"tokens": "0.5"}).counted
    lease.complete()

    assert used(idle, "team") == {"tokens": Decimal("5.5")}
    assert used(idle, f"tree:{run.id}") == {"tokens": Decimal("5.5")}
    assert idle.budgets.usage(run.id).run == {"tokens": Decimal("5.5")}
    assert [event.kind for event in run.history()].count("budget_spent") == 3


def test_nothing_is_spent_if_one_budget_has_no_room(idle, holder):
    idle.budgets.set("team", {"tokens": 3}, on_breach="fail")
    run = idle.start("render", 1, budget=["team", {"tokens": 8}])
    lease = one(holder)

    with pytest.raises(BudgetExceeded, match="team"):
        lease.spend({"tokens": 5}, key="call-1")

    assert used(idle, "team") == used(idle, f"tree:{run.id}") == {"tokens": 0}
    assert lease.spend({"tokens": 2}, key="call-1").counted
    assert lease.complete().status == "completed"


def test_a_run_without_room_gives_its_lease_back_until_there_is_room(idle, holder):
    idle.budgets.set("team", {"tokens": 3})
    run = idle.start("render", 1, budget="team")
    lease = one(holder)

    with pytest.raises(BudgetExceeded):
        lease.spend({"tokens": 5})

    assert run.status == "blocked"
    assert "no room in the budget team" in run.why().reason
    with pytest.raises(LeaseLost):
        lease.complete()
    idle.budgets.raise_limits("team", {"tokens": 2})
    lease = one(holder)
    assert lease.spend({"tokens": 5}).counted
    assert lease.complete().status == "completed"


def test_a_run_is_asked_to_stop_if_its_budget_says_so(idle, holder):
    idle.budgets.set("team", {"tokens": 3}, on_breach="cancel")
    run = idle.start("render", 1, budget="team")
    lease = one(holder)

    with pytest.raises(BudgetExceeded):
        lease.spend({"tokens": 5})

    assert "team" in lease.cancel_reason
    lease.cancel()
    assert run.status == "cancelled"


def test_spending_is_fenced_by_the_lease(idle, holder):
    idle.budgets.set("team", {"tokens": 10})
    run = idle.start("render", 1, budget="team")
    lease = one(holder)
    idle.tasks.revoke(run.id)

    with pytest.raises(LeaseLost):
        lease.spend({"tokens": 1})

    assert used(idle, "team") == {"tokens": 0}


def test_a_dimension_that_no_budget_counts_is_refused(idle, holder):
    idle.budgets.set("team", {"tokens": 10})
    idle.start("render", 1, budget="team")
    lease = one(holder)

    with pytest.raises(UnknownDimension):
        lease.spend({"money": 1})


def test_a_task_whose_budget_is_used_up_is_not_leased(idle, holder):
    idle.budgets.set("team", {"tokens": 3})
    idle.budgets.spend("team", {"tokens": 3})
    poor = idle.start("render", 1, budget="team")
    rich = idle.start("render", 2)

    assert [lease.run_id for lease in holder.claim(1)] == [rich.id]

    assert poor.status == "blocked"
    assert "no room in the budget team" in poor.why().reason
    assert holder.claim() == []
    idle.budgets.raise_limits("team", {"tokens": 1})
    assert one(holder).complete().status == "completed"


def test_a_task_whose_budget_is_used_up_fails_if_its_budget_says_so(idle, holder):
    idle.budgets.set("team", {"tokens": 3}, on_breach="fail")
    idle.budgets.spend("team", {"tokens": 3})
    run = idle.start("render", 1, budget="team")

    assert holder.claim() == []
    assert run.status == "failed"
    assert run.record.error.type == "BudgetExceeded"


def test_a_task_whose_budget_is_used_up_is_leased_to_be_cancelled_if_its_budget_says_so(
    idle, holder
):
    idle.budgets.set("team", {"tokens": 3}, on_breach="cancel")
    idle.budgets.spend("team", {"tokens": 3})
    run = idle.start("render", 1, budget="team")

    lease = one(holder)

    assert "team" in lease.cancel_reason
    assert "team" in lease.run.cancel_reason
    lease.cancel()
    assert run.status == "cancelled"


def test_a_blocked_task_is_leased_after_the_reset_of_its_budget(idle, holder, clock):
    idle.budgets.set("team", {"tokens": 3}, reset="1h")
    idle.budgets.spend("team", {"tokens": 3})
    idle.start("render", 1, budget="team")
    assert holder.claim() == []

    clock.advance(3_601_000_000)

    assert one(holder).spend({"tokens": 3}).counted

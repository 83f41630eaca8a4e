"""The decisions that the page on porting explains are the behaviour of the engine."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from holdfast import Engine, Graph
from holdfast.agents import FlowTool
from holdfast.errors import (
    BadFlowWait,
    BadGraph,
    BadOption,
    BudgetExceeded,
    ResultTimeout,
    RunFinished,
    StoreUnavailable,
)


@pytest.fixture
def engine(tmp_path):
    with Engine(tmp_path / "porting.db", work=False) as engine:
        yield engine


def leased(engine, **options):
    """Start a task, and return its lease and its holder."""
    engine.start("port", **options)
    holder = engine.tasks.worker("w", workflows=["port"])
    (lease,) = holder.claim()
    return lease, holder


def test_bytes_are_base64_text(engine):
    engine.start("port", b"\x00\xff")
    with engine.tasks.worker("w", workflows=["port"]) as holder:
        assert holder.claim()[0].input == "AP8="


def test_a_priority_out_of_range_is_refused(engine):
    with pytest.raises(BadOption, match="-1000 to 1000"):
        engine.start("port", priority=9000)


def test_a_transient_failure_is_final_without_a_policy(engine):
    lease, _ = leased(engine)

    assert lease.fail("transient", "no").status == "failed"


def test_progress_without_a_value_is_refused(engine):
    lease, _ = leased(engine)

    with pytest.raises(BadOption):
        lease.progress()


def test_a_second_cancel_says_that_the_run_has_ended(engine):
    run = engine.start("port")
    run.cancel()

    with pytest.raises(RunFinished) as refused:
        run.cancel()
    assert refused.value.facts["status"] == "cancelled"


def test_a_suspended_task_is_leased_once_more_to_be_cancelled_or_ends_by_force(engine):
    lease, holder = leased(engine, id="one")
    lease.suspend("paid")
    engine.cancel("one", "ordered twice")
    (again,) = holder.claim()

    assert again.cancel_reason == "ordered twice"
    again.cancel()
    lease, _ = leased(engine, id="two")
    lease.suspend("paid")
    assert engine.run("two").cancel(force=True) == "cancelled"


def test_a_tail_that_times_out_raises(engine):
    run = engine.start("port")

    with pytest.raises(ResultTimeout):
        list(engine.streams.tail(run.id, timeout="1ms"))


def test_set_changes_a_budget_and_zero_allows_nothing(engine):
    engine.budgets.set("team", {"tokens": 100, "calls": None})
    engine.budgets.set("team", {"tokens": 0})

    assert engine.budgets.spend("team", {"calls": 10**6}).counted
    with pytest.raises(BudgetExceeded):
        engine.budgets.spend("team", {"tokens": 1})


def test_an_empty_graph_is_refused(engine):
    with pytest.raises(BadGraph, match="no members"):
        engine.graphs.start(Graph("empty"))


def test_times_are_datetimes_in_utc(engine):
    lease, _ = leased(engine)
    flow = engine.flows.create("c", "g", owner="o")

    assert [lease.renew().tzinfo, flow.updated_at.tzinfo] == [UTC, UTC]


def test_an_observation_creates_its_step_and_a_timer_in_the_past_is_refused(engine):
    flow = engine.flows.create("c", "g", owner="o", start=True)

    assert engine.flows.observe(flow.id, "job", "ask", "succeeded").run_id == "job"
    with pytest.raises(BadFlowWait):
        engine.flows.wait(flow.id, until=datetime.now(UTC) - timedelta(hours=1))


@pytest.mark.parametrize(
    ("action", "argument", "known"),
    [
        ("start", "controller_id", "controller"),
        ("wait", "wait_condition", "wait"),
        ("finish", "final_state", "patch"),
    ],
)
def test_the_tool_names_the_arguments_that_it_knows(engine, action, argument, known):
    tool = FlowTool(engine, agent="a", session="s")
    flow = tool({"action": "start", "controller": "c", "goal": "g"})["flow"]

    answer = tool({"action": action, "flow_id": flow["id"], argument: "x"})

    assert answer["ok"] is False
    assert f"{known}" in answer["error"].split("known=")[1]


def test_a_missing_folder_is_an_error(tmp_path):
    with pytest.raises(StoreUnavailable, match="no folder"):
        Engine(tmp_path / "missing" / "x.db", work=False).runs().first()

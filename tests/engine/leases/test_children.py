"""Children that workers of leased tasks start and wait for."""

from __future__ import annotations

import pytest

from holdfast.errors import BadOption, LeaseLost, RunExists
from tests.bpmn.models import flows, process_of
from tests.engine.waiting import one_lease as one


@pytest.fixture
def pages(idle):
    with idle.tasks.worker("page-1", workflows=["page"]) as leases:
        yield leases


def test_a_worker_waits_for_its_children_and_its_successor_sees_their_results(idle, holder, pages):
    run = idle.start("render", 1)
    lease = one(holder)
    children = [lease.start("page", number) for number in range(2)]
    assert lease.wait_children().status == "waiting"

    assert (run.status, holder.claim()) == ("waiting", [])
    assert "2 are open" in run.why().reason
    first, second = pages.claim(2)
    first.complete("one")
    assert (run.status, holder.claim()) == ("waiting", [])
    second.complete("two")

    lease = one(holder)
    assert [child.id for child in lease.children()] == [child.id for child in children]
    assert [(child.status, child.result) for child in lease.children()] == [
        ("completed", "one"),
        ("completed", "two"),
    ]
    lease.complete()
    assert [idle.run(child.id).record.parent_id for child in children] == [run.id, run.id]


def test_a_child_may_be_an_instance_of_a_deployed_model(idle, holder):
    for task in ("pack", "ship"):
        nodes = f'<startEvent id="begin"/><userTask id="{task}"/>'
        idle.models.deploy(process_of(nodes + flows(f"begin {task}"), "leased_order"))
    idle.start("render", 1)

    child = one(holder).start("leased_order")

    record = idle.run(child.id).record
    assert (record.workflow, record.version, record.status) == ("leased_order", "2", "pending")


def test_a_failed_child_ends_the_wait_at_once(idle, holder, pages):
    idle.start("render", 1)
    lease = one(holder)
    lease.start("page", 1)
    lease.start("page", 2)
    lease.wait_children()
    first, second = pages.claim(2)

    first.fail("permanent", "no ink")

    lease = one(holder)
    assert [child.status for child in lease.children()] == ["failed", "running"]
    assert lease.children()[0].error.message == "no ink"
    assert lease.wait_children().status == "waiting"
    assert holder.claim() == []
    second.complete()
    assert one(holder).complete().status == "completed"


def test_the_open_children_of_a_task_are_cancelled_with_it(idle, holder, pages):
    idle.start("render", 1)
    lease = one(holder)
    queued = lease.start("page", 1)
    left = lease.start("page", 2, on_parent_end="leave")

    lease.complete()

    assert (queued.status, left.status) == ("cancelled", "pending")


def test_a_wait_for_children_has_a_timeout(idle, holder, clock):
    run = idle.start("render", 1)
    lease = one(holder)
    child = lease.start("page", 1)
    assert lease.wait_children(timeout="1h").until is not None

    clock.advance(3_601_000_000)

    lease = one(holder)
    assert [one_child.status for one_child in lease.children()] == ["pending"]
    lease.complete()
    assert (run.status, child.status) == ("completed", "cancelled")


def test_a_child_that_ended_before_the_wait_does_not_block_it(idle, holder, pages):
    idle.start("render", 1)
    lease = one(holder)
    lease.start("page", 1)
    one(pages).complete(7)

    assert lease.wait_children().status == "pending"

    assert one(holder).children()[0].result == 7


def test_a_child_with_an_id_is_started_once(idle, holder):
    idle.start("other", id="stranger")
    run = idle.start("render", 1)
    lease = one(holder)

    children = {lease.start("page", 1, id="page-1").id for _ in range(2)}
    idle.tasks.revoke(run.id)
    lease = one(holder)
    children.add(lease.start("page", 1, id="page-1").id)

    assert children == {"page-1"}
    assert len(lease.children()) == 1
    with pytest.raises(RunExists):
        lease.start("other", id="stranger")
    lease.complete()


def test_a_wait_without_children_and_a_start_without_a_lease_are_refused(idle, holder):
    run = idle.start("render", 1)
    lease = one(holder)
    with pytest.raises(BadOption):
        lease.wait_children()
    with pytest.raises(BadOption):
        lease.start("page", on_parent_end="stay")
    idle.tasks.revoke(run.id)

    with pytest.raises(LeaseLost):
        lease.start("page", 1)

    assert len(list(idle.runs())) == 1


def test_a_cancelled_task_that_waits_for_children_is_leased_to_be_stopped(idle, holder):
    run = idle.start("render", 1)
    lease = one(holder)
    child = lease.start("page", 1)
    lease.wait_children()

    run.cancel("too late")

    lease = one(holder)
    assert lease.cancel_reason == "too late"
    lease.cancel()
    assert (run.status, child.status) == ("cancelled", "cancelled")


def test_children_draw_on_the_budgets_of_their_parent(idle, holder, pages):
    run = idle.start("render", 1, budget={"tokens": 5})
    lease = one(holder)
    lease.start("page", 1)

    one(pages).spend({"tokens": 4})

    assert idle.budgets.get(f"tree:{run.id}").dimensions["tokens"].used == 4
    lease.complete()

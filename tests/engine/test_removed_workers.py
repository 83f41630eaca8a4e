"""Workers that an operator declares dead."""

from __future__ import annotations

import pytest

from holdfast import Engine
from holdfast.errors import LeaseLost, NamespaceBound, WorkerNotFound
from holdfast.testing import internals
from tests.engine.waiting import one_lease as one


def test_a_removed_worker_loses_its_leases_at_once_and_cannot_write(idle):
    run = idle.start("render", 1)
    with idle.tasks.worker("render-1", workflows=["render"]) as holder:
        lease = one(holder)

        (removed,) = idle.workers.remove("render-1")

        assert (removed.worker, removed.runs) == ("render-1", [run.id])
        with pytest.raises(LeaseLost, match="revoked, or expired"):
            lease.complete(1)
        with pytest.raises(LeaseLost):
            lease.renew()
        assert run.status == "pending"
        assert [event.kind for event in run.history()] == ["lease_lost"]


def test_a_removed_worker_that_lives_continues_with_a_new_session(idle):
    run = idle.start("render", 1)
    with idle.tasks.worker("render-1", workflows=["render"]) as holder:
        stale = one(holder)
        session = holder.session_id
        idle.workers.remove(session)

        lease = one(holder)

        assert holder.session_id != session
        assert lease.complete(2).status == "completed"
        with pytest.raises(LeaseLost):
            stale.complete(3)
    assert run.result() == 2


def test_all_sessions_of_a_name_are_removed(idle):
    first = idle.tasks.worker("twin", workflows=["render"])
    second = idle.tasks.worker("twin", workflows=["render"])

    removed = idle.workers.remove("twin")

    assert {view.session for view in removed} == {first.session_id, second.session_id}
    assert idle.workers.list() == []
    with pytest.raises(WorkerNotFound):
        idle.workers.remove("twin")


def test_an_expired_lease_is_not_listed_as_live(idle):
    idle.start("render", 1)
    holder = idle.tasks.worker("render-1", workflows=["render"], ttl="30s")
    one(holder)

    internals(idle).clock.advance(31_000_000)

    assert [view.state for view in idle.workers.list()] == ["gone"]


def test_a_bound_engine_does_not_remove_a_worker_that_serves_all_namespaces(database, idle):
    worker = Engine(database, name="everywhere", clock=internals(idle).clock)
    worker.work()
    with Engine(database, namespace="other", work=False) as bound, pytest.raises(NamespaceBound):
        bound.workers.remove("everywhere")
    worker.close()

"""A crash at a commit of a holder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

import pytest

from holdfast import Engine
from holdfast.connect.open_store import open_store
from holdfast.service.tasks.lease_state import RunEnded
from holdfast.testing.clock import VirtualClock
from tests.engine.waiting import one_lease as one


class Crash(BaseException):
    """The process dies here."""


class Mortal:
    """A store whose process dies before or after the commit that it was told to."""

    def __init__(self, store: Any, side: str) -> None:
        self._store, self.side, self.armed = store, side, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def apply(self, batch: Sequence[Any]) -> list[Any]:
        if self.armed and self.side == "before":
            raise Crash
        answers: list[Any] = self._store.apply(batch)
        if self.armed:
            raise Crash
        return answers


CALLS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "complete": (lambda lease: lease.complete({"a": 1}), "completed"),
    "retry": (lambda lease: lease.fail("transient", "x"), "pending"),
    "fail": (lambda lease: lease.fail("permanent", "x"), "failed"),
    "lost": (lambda lease: lease.fail("infrastructure", "x"), "pending"),
    "cancel": (lambda lease: lease.cancel(), "cancelled"),
    "delay": (lambda lease: lease.delay("1h"), "pending"),
    "suspend": (lambda lease: lease.suspend("go"), "waiting"),
}


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("call", CALLS)
def test_a_crash_at_the_commit_leaves_all_of_it_or_nothing_and_the_call_can_be_repeated(
    database, call, side
):
    act, status = CALLS[call]
    clock = VirtualClock()
    whole = Engine(database, clock=clock)
    run = whole.start("render", 1, policy={"retries": 2, "delay": "1h"})
    store = Mortal(open_store(database, clock=clock), side)
    lease = one(
        Engine(database, clock=clock, store=store).tasks.worker(workflows=["render"], ttl="1d")
    )
    store.armed = True
    with pytest.raises(Crash):
        act(lease)
    store._store.close()

    assert whole.database.check() == []
    assert run.status == ("running" if side == "before" else status)
    answer = act(whole.tasks.lease(lease.proof))
    assert run.status == status
    assert answer == act(whole.tasks.lease(lease.proof))
    assert whole.database.check() == []
    whole.close()


def test_a_crash_at_a_claim_costs_only_time(database, clock):
    whole = Engine(database, clock=clock)
    whole.start("render", 1)
    for side in ("before", "after"):
        store = Mortal(open_store(database, clock=clock), side)
        leases = Engine(database, clock=clock, store=store).tasks.worker(
            workflows=["render"], ttl="10s"
        )
        store.armed = True
        with pytest.raises(Crash):
            leases.claim()
        store._store.close()
        clock.advance("11s")
    with whole.tasks.worker(workflows=["render"]) as leases:
        assert one(leases).complete() == RunEnded("completed")
    assert whole.database.check() == []
    whole.close()


@pytest.mark.parametrize(("limit", "status"), [(1, "stuck"), (2, "pending")])
def test_the_crash_limit_of_the_engine_applies_to_its_leases(database, clock, limit, status):
    with closing(Engine(database, clock=clock, crash_limit=limit)) as engine:
        run = engine.start("render", 1)
        lost = engine.tasks.worker("render-1", workflows=["render"], ttl="1s")
        one(lost)
        clock.advance("2s")

        with engine.tasks.worker("render-2", workflows=["encode"]) as other:
            other.claim()

        assert run.status == status

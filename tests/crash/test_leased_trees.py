"""A leased task that spends, starts children and waits for them, killed before and after each of
its commits."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import Engine
from holdfast.connect.open_store import open_store
from holdfast.testing.clock import VirtualClock
from tests.crash.test_tasks import Crash, Mortal, lend  # noqa: F401


def work(engine: Engine) -> None:
    """Claim once, and do the next thing for each task that was leased."""
    leases = engine.tasks.worker("mortal", workflows=["book", "page"], ttl="10s")
    for lease in leases.claim(10):
        if lease.run.workflow == "page":
            lease.spend({"tokens": 2}, key="ink")
            lease.complete(lease.input)
        elif [child.status for child in lease.children()] == ["completed", "completed"]:
            lease.complete([child.result for child in lease.children()])
        else:
            lease.spend({"tokens": 1}, key="plan")
            for number in (1, 2):
                lease.start("page", number, id=f"{lease.run_id}.page-{number}")
            lease.wait_children(timeout="1d")
    leases.close()


def live(
    whole: Engine, database: str, clock: VirtualClock, n: int, side: str
) -> tuple[bool, dict[str, Any]]:
    """Let it be done by a process that dies at its n-th commit, and then by others."""
    run = whole.start("book", id="book", budget={"tokens": 5})
    store = open_store(database, clock=clock)
    mortal, died = Engine(database, clock=clock, store=Mortal(store, n, side)), False
    for _ in range(10):
        try:
            work(mortal)
        except Crash:
            died, mortal = True, whole
            clock.advance("11s")
        assert whole.database.check() == []
        if run.record.finished_at is not None:
            break
    done = {
        "result": run.result(timeout="60s"),
        "runs": sorted(view.id for view in whole.runs()),
        "spent": whole.budgets.get("tree:book").dimensions["tokens"].used,
        "own": whole.budgets.usage("book").run,
    }
    store.close()
    return died, done


@pytest.mark.parametrize("side", ["before", "after"])
def test_a_crash_loses_no_child_and_spends_nothing_twice(lend, side):  # noqa: F811
    n, died = 0, True
    while died:
        n += 1
        with lend() as database:
            clock = VirtualClock()
            whole = Engine(database, clock=clock)
            died, done = live(whole, database, clock, n, side)
            whole.close()

        assert done == {
            "result": [1, 2],
            "runs": ["book", "book.page-1", "book.page-2"],
            "spent": 5,
            "own": {"tokens": 1},
        }
    assert n > 8

"""Claims of tasks whose budgets are used up, removed workers and changed tags: killed before and
after each commit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdfast import Engine
from holdfast.connect.open_store import open_store
from holdfast.testing.clock import VirtualClock
from tests.crash.test_tasks import Crash, Mortal, lend  # noqa: F401

Script = Callable[[Engine, VirtualClock], Any]


def outcomes(lend, setup: Script, act: Script, read: Script, side: str) -> list[Any]:  # noqa: F811
    """Let a process that dies at its n-th commit do *act*, for each n, and another one repeat it.
    Return what *read* returns each time, the last time without a crash."""
    seen = []
    died = True
    while died:
        with lend() as database:
            clock = VirtualClock()
            whole = Engine(database, clock=clock)
            setup(whole, clock)
            store = open_store(database, clock=clock)
            mortal = Engine(database, clock=clock, store=Mortal(store, len(seen) + 1, side))
            died = False
            try:
                act(mortal, clock)
            except Crash:
                died = True
            assert whole.database.check() == []
            if died:
                clock.advance("11s")
                act(whole, clock)
            assert whole.database.check() == []
            seen.append(read(whole, clock))
            store.close()
            whole.close()
    return seen


def use_up(on_breach: str) -> Script:
    def setup(engine: Engine, clock: VirtualClock) -> None:
        engine.budgets.set("team", {"tokens": 2}, on_breach=on_breach)
        engine.budgets.spend("team", {"tokens": 2})
        engine.start("render", id="poor", budget="team")
        engine.start("render", id="free")

    return setup


def claim_all(engine: Engine, clock: VirtualClock) -> None:
    """Claim until there is nothing to claim; complete what can be completed."""
    holder = engine.tasks.worker("mortal", workflows=["render"], ttl="10s")
    while leases := holder.claim(10):
        for lease in leases:
            if lease.cancel_reason is not None:
                lease.cancel()
            else:
                lease.complete(1)
    holder.close()


def states(engine: Engine, clock: VirtualClock) -> dict[str, Any]:
    poor = engine.run("poor")
    before = poor.status.value
    engine.budgets.raise_limits("team", {"tokens": 10})
    claim_all(engine, clock)
    return {
        "before": before,
        "after": poor.status.value,
        "free": engine.run("free").status.value,
        "used": engine.budgets.get("team").dimensions["tokens"].used,
        "ends": [event.kind for event in poor.history() if event.kind.startswith("run_")],
    }


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize(
    ("on_breach", "before", "after"),
    [
        ("wait", "blocked", "completed"),
        ("fail", "failed", "failed"),
        ("cancel", "cancelled", "cancelled"),
    ],
)
def test_a_claim_without_room_decides_once(lend, on_breach, before, after, side):  # noqa: F811
    seen = outcomes(lend, use_up(on_breach), claim_all, states, side)

    assert len(seen) > 3
    assert [state for state in seen if state != seen[-1]] == []
    assert seen[-1] == {
        "before": before,
        "after": after,
        "free": "completed",
        "used": 2,
        "ends": [f"run_{after}"],
    }


@pytest.mark.parametrize("side", ["before", "after"])
def test_a_worker_is_removed_whole_or_not_at_all(lend, side):  # noqa: F811
    def setup(engine: Engine, clock: VirtualClock) -> None:
        for number in range(3):
            engine.start("render", id=f"r{number}")
        assert len(engine.tasks.worker("lost", workflows=["render"], ttl="1h").claim(3)) == 3

    def remove(engine: Engine, clock: VirtualClock) -> None:
        for worker in engine.workers.list():
            if worker.worker == "lost":
                engine.workers.remove("lost")

    def read(engine: Engine, clock: VirtualClock) -> dict[str, Any]:
        held = [worker.worker for worker in engine.workers.list()]
        claim_all(engine, clock)
        return {
            "workers": held,
            "statuses": [engine.run(f"r{number}").status.value for number in range(3)],
            "generations": [engine.run(f"r{number}").record.generation for number in range(3)],
        }

    seen = outcomes(lend, setup, remove, read, side)

    assert len(seen) > 1
    assert [state for state in seen if state != seen[-1]] == []
    assert seen[-1] == {"workers": [], "statuses": ["completed"] * 3, "generations": [3] * 3}


@pytest.mark.parametrize("side", ["before", "after"])
def test_tags_change_together(lend, side):  # noqa: F811
    def setup(engine: Engine, clock: VirtualClock) -> None:
        engine.start("render", id="r", tags={"colour": "red", "size": "s"})

    def change(engine: Engine, clock: VirtualClock) -> None:
        engine.run("r").set_tags({"colour": "blue", "size": None, "shape": "round"})

    def read(engine: Engine, clock: VirtualClock) -> Any:
        listed = [
            [run.id for run in engine.runs(tags={"colour": each})] for each in ("red", "blue")
        ]
        return engine.run("r").record.tags, listed

    seen = outcomes(lend, setup, change, read, side)

    assert len(seen) == 2
    assert seen == [({"colour": "blue", "shape": "round"}, [[], ["r"]])] * 2

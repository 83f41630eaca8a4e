"""Leased work, killed before and after each of its commits: it goes on elsewhere, and nothing is
lost or written by halves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest

from holdfast import Engine, Graph
from holdfast.connect.open_store import open_store
from holdfast.testing.clock import VirtualClock
from holdfast.waits import all_of

Lend = Callable[[], AbstractContextManager[str]]


@pytest.fixture(params=["sqlite", "postgres"])
def lend(request, tmp_path) -> Lend:
    """What lends empty databases."""
    if request.param == "postgres":
        found: Lend = request.getfixturevalue("postgres_server").lend
        return found
    numbers = iter(range(1000))

    @contextmanager
    def file() -> Iterator[str]:
        yield str(tmp_path / f"{next(numbers)}.db")

    return file


class Crash(BaseException):
    """The process dies here."""


class Mortal:
    """A store whose process dies before or after its n-th commit."""

    def __init__(self, store: Any, n: int, side: str) -> None:
        self._store, self._left, self._side = store, n, side

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def apply(self, batch: Sequence[Any]) -> list[Any]:
        self._left -= 1
        if self._left == 0 and self._side == "before":
            raise Crash
        answers: list[Any] = self._store.apply(batch)
        if self._left == 0:
            raise Crash
        return answers


def work(engine: Engine) -> None:
    """Claim once, and do the next thing: show something and wait for two signals, wait in vain, be
    done."""
    leases = engine.tasks.worker("mortal", workflows=["render"], ttl="10s")
    for lease in leases.claim():
        if lease.waited is None:
            lease.progress(10, "begun")
            lease.renew()
            lease.emit("a", "b", place=0)
            lease.emit({"state": "waits"}, mode="summary")
            lease.suspend(
                all_of(lease.create_wait("ok", expires="9d"), "go"),
                timeout="1d",
                on_timeout="fail",
                resume_delay="90m",  # longer than the next call of answer()
            )
        elif lease.waited.how == "signals":
            lease.emit("c")
            lease.suspend("never", timeout="1h")
        else:
            lease.complete([signal.name for signal in lease.signals])
    leases.close()


def answer(engine: Engine, run_id: str, clock: VirtualClock) -> None:
    """Do what others do meanwhile: send what the run waits for, once; and let time pass."""
    for wait in engine.waits.list(run_id):
        if wait.id is not None and wait.state == "open":
            engine.waits.deliver(wait.id, engine.waits.token(wait.id), payload=1, key="ok")
    engine.signal(run_id, "go", 2, key="go")
    clock.advance("1h")


def live(
    whole: Engine, database: str, clock: VirtualClock, n: int, side: str
) -> tuple[bool, dict[str, Any]]:
    """Let it be done by one who dies at the n-th commit, and then by others; return whether it
    died, and what was done."""
    run = whole.start("render", 1, policy={"retries": 1})
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
        answer(whole, run.id, clock)
    history = [event.kind for event in run.history()]
    done = {
        "status": run.status,
        "result": run.result(timeout="60s"),
        "progress": whole.streams.progress(run.id).percent,
        "waits": history.count("wait_satisfied"),
        "timeouts": history.count("wait_timed_out"),
        "summary": whole.streams.summary(run.id),
        # One stream over both suspensions, unless a holder died and another began a new one.
        "streams": {stream.reason for stream in whole.streams.list(run.id)}
        <= {"completed", "taken over"},
    }
    store.close()
    return died, done


ACTIONS = ("continue", "fail", "cancel", "expire", "escalate")
"""What can become of a task that waits in vain."""


def work_in_vain(engine: Engine) -> None:
    """Claim what can be claimed: let it wait for what never comes, as it says itself, or say what
    came of that."""
    leases = engine.tasks.worker("mortal", workflows=["overdue"], ttl="10s")
    for lease in leases.claim(10):
        if lease.waited is None:
            lease.suspend("never", timeout="1h", on_timeout=lease.input)
        else:
            lease.complete(lease.waited.how)
    leases.close()


def live_in_vain(
    whole: Engine, database: str, clock: VirtualClock, n: int, side: str
) -> tuple[bool, dict[str, Any]]:
    """Let five tasks wait in vain, and one see to them who dies at the n-th commit, and then
    others; return whether it died, and what they came to."""
    runs = {action: whole.start("overdue", action) for action in ACTIONS}
    work_in_vain(whole)
    clock.advance("1h")
    store = open_store(database, clock=clock)
    mortal, died = Engine(database, clock=clock, store=Mortal(store, n, side)), False
    for _ in range(10):
        try:
            work_in_vain(mortal)
        except Crash:
            died, mortal = True, whole
            clock.advance("11s")
        if all(run.record.finished_at is not None for run in runs.values()):
            break
        for wait in whole.waits.list(escalated=True):
            whole.waits.release(wait.run_id, by="ann")
    assert whole.database.check() == []
    store.close()
    return died, {action: _came_to(run) for action, run in runs.items()}


def _came_to(run: Any) -> tuple[Any, ...]:
    record, kinds = run.record, [event.kind for event in run.history()]
    waits = tuple(sorted(kind for kind in kinds if kind.startswith("wait_")))
    timed_out = None if record.error is None else "WaitTimeout" in str(record.error)
    return record.status, record.result, timed_out, waits


def at_every_commit(
    live: Callable[..., tuple[bool, Any]], lend: Lend, side: str
) -> tuple[Any, int]:
    """Let it die at each commit in turn, see that the same comes of it as undisturbed, and say
    what, and how often it died."""
    clock, undisturbed, n = VirtualClock(), None, 0
    with lend() as database:
        whole = Engine(database, clock=clock)
        while True:
            died, done = live(whole, database, clock, n, side)
            undisturbed = undisturbed or done
            assert done == undisturbed
            if n and not died:
                break
            n += 1
        whole.close()
    return done, n


def work_on_members(engine: Engine) -> None:
    """Claim what can be claimed: complete it, let it fail, or let an operator end it."""
    leases = engine.tasks.worker("mortal", workflows=["member"], ttl="10s")
    for lease in leases.claim(10):
        if lease.input == "by hand":
            engine.tasks.override(lease.run_id, "done by hand", result="by hand")
        elif lease.input == "fails":
            lease.fail("permanent", "no paint")
        else:
            lease.complete(lease.input)
    leases.close()


def live_in_a_graph(
    whole: Engine, database: str, clock: VirtualClock, n: int, side: str
) -> tuple[bool, dict[str, str]]:
    """Let leases alone do the members of a graph, one of whose holders dies at the n-th commit;
    return whether it died, and how the members ended."""
    graph = Graph()
    first = graph.add("member", "first", name="first")
    by_hand = graph.add("member", "by hand", name="by-hand").after(first)
    fails = graph.add("member", "fails", name="fails").after(by_hand)
    graph.add("member", by_hand.result, name="second")
    graph.add("member", "never", name="skipped").after(fails)
    run = whole.graphs.start(graph)
    store = open_store(database, clock=clock)
    mortal, died = Engine(database, clock=clock, store=Mortal(store, n, side)), False
    for _ in range(10):
        try:
            work_on_members(mortal)
        except Crash:
            died, mortal = True, whole
            clock.advance("11s")
        assert whole.database.check() == []
        if run.status not in ("running", "cancelling"):
            break
    store.close()
    return died, {member.name: member.state.value for member in run.show().members}


@pytest.mark.parametrize("side", ["before", "after"])
def test_a_graph_of_leases_alone_survives_a_crash_at_every_commit(lend: Lend, side: str) -> None:
    done, n = at_every_commit(live_in_a_graph, lend, side)
    assert done == {
        "first": "completed",
        "by-hand": "completed",
        "fails": "failed",
        "second": "completed",
        "skipped": "skipped",
    }
    assert n > 7


@pytest.mark.parametrize("side", ["before", "after"])
def test_what_becomes_of_a_wait_in_vain_survives_a_crash_at_every_commit(
    lend: Lend, side: str
) -> None:
    done, n = at_every_commit(live_in_vain, lend, side)
    assert {action: came[:3] for action, came in done.items()} == {
        "continue": ("completed", "timeout", None),
        "fail": ("failed", None, True),
        "cancel": ("cancelled", None, True),
        "expire": ("expired", None, True),
        "escalate": ("completed", "release", None),
    }
    assert done["escalate"][3] == ("wait_escalated", "wait_opened", "wait_released")
    assert n > 7


@pytest.mark.parametrize("side", ["before", "after"])
def test_leased_work_survives_a_crash_at_every_commit(lend: Lend, side: str) -> None:
    done, n = at_every_commit(live, lend, side)
    assert (done["status"], done["waits"], done["timeouts"], done["summary"]) == (
        "completed",
        1,
        1,
        {"state": "waits"},
    )
    assert done["streams"]
    assert n > 12

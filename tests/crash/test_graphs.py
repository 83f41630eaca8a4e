"""Graphs and crashes: whoever dies before or after whichever commit, each member is started once, and the graph ends the same."""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import closing, suppress

import pytest

import holdfast
from holdfast import Engine, Fail, Graph, step, wait_signal, workflow
from holdfast.connect.store import open_store
from holdfast.errors import EngineClosed, GraphFinished, MemberExists, RunFinished
from holdfast.store import contract as c
from holdfast.testing import Lab
from holdfast.testing.boundaries import AFTER, BEFORE, ZOMBIE, Boundaries, Crash, Plan, has_effect
from holdfast.testing.clock import VirtualClock
from holdfast.testing.harness import hasty_store
from holdfast.testing.ledger import Ledger
from tests.crash.test_processes import Workers, until
from tests.crash.test_schedules import databases

mended = [False]


@step
async def weigh(number: int) -> int:
    return number


@workflow(name="crash_graph_add")
async def add(x: int, y: int = 1) -> int:
    return await weigh(x) + y


@workflow(name="crash_graph_listen")
async def listen() -> str:
    return await wait_signal("go", type=str)


@workflow(name="crash_graph_fickle")
async def fickle(name: str) -> str:
    if not mended[0]:
        raise Fail("not yet")
    return name


@workflow(name="crash_graph_planner")
async def planner() -> int:
    more = Graph()
    first = more.add(add, 1, name="grown")
    more.add(add, first.result, name="grown-more").after(more.member("planner"))
    return len(await holdfast.grow(more))


OURS = (c.StageGraphs, c.ExtendGraph, c.SettleGraphs, c.CancelGraph, c.ReplayMember)
WORKFLOWS = [add, listen, fickle, planner]
Act = Callable[[Lab], object]


def start(lab: Lab) -> None:
    graph = Graph("all there is")
    top = graph.add(add, 1, name="top")
    left, right = graph.add(add, top.result, name="left"), graph.add(add, top.result, 5, name="right")
    graph.add(add, left.result, right.result, name="bottom")
    held, slow = graph.add(listen, name="held"), graph.add(listen, name="slow")
    graph.add(listen, name="never").after("bad")
    graph.add(add, 1, name="one").after(held, slow, "never", need="any", rest="cancel")
    graph.add(fickle, "bad", name="bad")
    graph.add(planner, name="planner")
    lab.engine.graphs.start(graph, id="g")


def go(lab: Lab) -> None:
    with suppress(RunFinished):
        lab.engine.signal("g::held", "go", "on", key="go")


def extend(lab: Lab) -> None:
    more = Graph()
    more.add(add, 7, name="outside").after(more.member("one"), more.member("held"))
    with suppress(MemberExists):
        lab.engine.graphs.extend("g", more)


def hold(lab: Lab) -> None:
    graph = Graph()
    graph.add(listen, name="x")
    graph.add(add, 1, name="y").after("x")
    graph.add(listen, name="z", delay="1h")
    lab.engine.graphs.start(graph, id="g")


def mend(lab: Lab) -> None:
    """Do it again, unless that was done."""
    mended[0] = True
    if lab.engine._parts.store.member("g::never").state == "skipped":
        lab.engine.graphs.replay("g", "never")


def answer(lab: Lab) -> None:
    with suppress(RunFinished):
        lab.engine.signal("g::never", "go", "at last", key="go")


def cancel(policy: str) -> Act:
    def act(lab: Lab) -> None:
        with suppress(GraphFinished):
            lab.engine.graphs.cancel("g", policy)

    return act


def release(lab: Lab) -> None:
    with suppress(RunFinished):
        lab.engine.signal("g::x", "go", "on", key="go")


SCRIPTS: dict[str, list[Act]] = {
    "all there is": [start, extend, go, mend, answer],
    "cancel all": [hold, cancel("all")],
    "cancel pending": [hold, cancel("pending"), release],
    "cancel the graph": [hold, cancel("graph"), release],
}


class Stage:
    """A database, and engines on it, one after another."""

    def __init__(self, database: str, script: list[Act], plans: list[Plan]) -> None:
        self.database, self.script, self.plans = database, script, plans
        self.clock, self.ledger, self.done = VirtualClock(), Ledger(), 0
        self.zombies: list[Lab] = []

    def play(self) -> dict[str, object]:
        """Return how the graph and its members ended."""
        mended[0] = False
        try:
            for number, plan in enumerate([*self.plans, None]):
                if self._live(number, plan):
                    break
        finally:
            for zombie in self.zombies:
                zombie.close()
        with closing(open_store(self.database, clock=self.clock)) as store:
            assert store.check() == []
            whole = store.whole_graph("g")
            assert whole is not None
            starts = [event.member for event in store.graph_events("g") if event.kind == "member_started"]
            assert len(starts) == len(set(starts))
            runs = {run.id: (run.status.value, run.result) for run in store.runs(c.Filter(limit=1000))}
            return {"": whole.graph.status.value, **{name: member.state.value for name, member in whole.members.items()}} | runs

    def _live(self, number: int, plan: Plan | None) -> bool:
        open_it = open_store if self.database.startswith("postgresql:") else hasty_store
        store = Boundaries(open_it(self.database, clock=self.clock), self.ledger, plan, engine=number)
        try:
            lab = Lab(self.database, clock=self.clock, store=store, workflows=WORKFLOWS)
        except EngineClosed:
            assert store.dead
            self._notice()
            return False
        with suppress(Crash, EngineClosed):
            lab.settle()
            while self.done < len(self.script) and not (store.dead or store.lost):
                self.script[self.done](lab)
                lab.settle()
                self.done += not (store.dead or store.lost)
        if store.dead:
            lab.abandon()
            self._notice()
        elif store.lost:
            self.zombies.append(lab)
        else:
            lab.close()
        return not (store.dead or store.lost)

    def _notice(self) -> None:
        """End the sessions of the dead at once: how soon others notice by themselves is tested elsewhere."""
        with closing(open_store(self.database, clock=self.clock)) as store:
            store.apply([c.EndSession(session.id, crashed=True) for session in store.sessions()])


@pytest.mark.parametrize("name", SCRIPTS)
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
@pytest.mark.timeout(300)
def test_a_graph_ends_the_same_wherever_whoever_dies(kind, name, request, tmp_path):
    with databases(kind, request, tmp_path) as fresh:
        undisturbed = Stage(fresh(), SCRIPTS[name], [])
        expected = undisturbed.play()
        commits = list(enumerate(undisturbed.ledger.commits, start=1))
        boundaries = [
            number
            for number, commit in commits
            if has_effect(commit.batch, commit.answers) and (kind == "sqlite" or any(isinstance(op, OURS) for op in commit.batch))
        ]
        assert boundaries
        plans = [Plan(boundaries[0], BEFORE), *(Plan(number, AFTER) for number in boundaries)]  # before one is after another
        plans += [Plan(number, ZOMBIE) for number in boundaries] if kind == "sqlite" else []
        for plan in plans:
            assert Stage(fresh(), SCRIPTS[name], [plan]).play() == expected, str(plan)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs signals of POSIX")
def test_graphs_end_when_real_workers_are_killed(kind, request, tmp_path):
    with databases(kind, request, tmp_path) as fresh:
        workers = Workers(tmp_path)
        workers.database = fresh()
        with closing(Engine(workers.database, workflows=[])) as engine:
            try:
                _kill_and_look(workers, engine)
            finally:
                for worker in list(workers.running):
                    workers.kill(worker)


def _kill_and_look(workers: Workers, engine: Engine) -> None:
    def chain(number: int) -> Graph:
        graph = Graph(f"chain {number}")
        last = graph.add("five_steps", number, name="0")
        for place in range(1, 4):
            last = graph.add("five_steps", last.result, name=str(place))
        return graph

    for _ in range(2):
        workers.start(crash_limit=50)
    runs = engine.graphs.start_many([chain(number) for number in range(10)])
    for round_ in range(1, 3):
        until(lambda wanted=round_: sum(run.status == "completed" for run in engine.runs(limit=1000)) >= 9 * wanted, seconds=60)
        workers.kill(workers.running[0])
        workers.start(crash_limit=50)
    for number, run in enumerate(runs):
        wanted = number
        for _ in range(4):
            wanted = 5 * wanted + 10
        assert run.result(timeout=60) == {"3": wanted}
    assert engine.check() == []

"""Very many runs and members at once: no transaction writes more than a part, so that other writers
get their turn."""

from __future__ import annotations

from contextlib import closing

import msgspec
import pytest

import holdfast
from holdfast import Fail, Graph, step, workflow
from holdfast.connect.open_store import open_store
from holdfast.core.runs import NewRun, Route
from holdfast.core.sessions import Lane, Session
from holdfast.core.status import Status
from holdfast.engine.execution import commits
from holdfast.engine.execution.pending import children
from holdfast.engine.runtime import graph_stages
from holdfast.errors import (
    GraphBusy,
    GraphExists,
    GraphFailed,
    LaneDraining,
    RunCancelled,
    RunExists,
    RunFailed,
    StageGone,
    StartIncomplete,
)
from holdfast.service import fork as fork_service
from holdfast.service import graphs
from holdfast.service import replay as replay_service
from holdfast.service import starts as start_service
from holdfast.store import transitions
from holdfast.store.graphs.operations import (
    AddMembers,
    ReplayMember,
    ResolvedGraphs,
    SweepStages,
    WriteStagePart,
)
from holdfast.store.lanes.operations import SetLane
from holdfast.store.postgres import batch as postgres_writing
from holdfast.store.runs.operations import (
    Advance,
    EndSession,
    Heartbeat,
    ImportRun,
    OpenSession,
    ReplayRun,
    ReplayRuns,
    StageEvents,
    StartRuns,
)
from holdfast.store.store import Store
from holdfast.store.transitions import advancing, sessions, stopping
from holdfast.store.transitions.graphs import pruning, sweeping, work
from holdfast.testing import internals
from tests.engine.databases import execute
from tests.engine.waiting import wait_until


@workflow(name="very_many_leaf")
async def leaf(number: int) -> int:
    return number


@workflow(name="very_many_mapped")
async def mapped(count: int) -> int:
    return sum(await holdfast.map(leaf, range(count)))


@workflow(name="very_many_gathered")
async def gathered(count: int) -> int:
    return sum(await holdfast.gather(*(leaf(number) for number in range(count))))


@workflow(name="very_many_left_behind")
async def left_behind(count: int) -> int:
    for _ in range(count):
        await holdfast.start(hear_late, 1, delay="1h")
    return count


@workflow(name="very_many_family")
async def family(count: int) -> None:
    await holdfast.map(hear_late, range(count), lane="paused")


@workflow(name="very_many_hear_late")
async def hear_late(number: int) -> None:
    await holdfast.wait_signal("go")


@workflow(name="very_many_listener")
async def listener(count: int) -> int:
    return sum([await holdfast.wait_signal("number") for _ in range(count)])


@workflow(name="very_many_fragile_map")
async def fragile_map(count: int) -> int:
    return sum(await holdfast.map(fragile, range(count), min_success=count))


mended = []


@workflow(name="very_many_fragile")
async def fragile(number: int) -> int:
    if not mended:
        raise Fail("not yet")
    return number


@workflow(name="very_many_steps")
async def many_steps(count: int) -> int:
    numbers = await holdfast.gather(*(weigh(number) for number in range(count)))
    return await add_up(numbers)


@step
async def weigh(number: int) -> int:
    return number


@step
async def add_up(numbers: list) -> int:
    return sum(numbers)


@workflow(name="very_many_planner")
async def planner(count: int) -> int:
    return len(await holdfast.graphs.extend(added(count)))


@workflow(name="very_many_planner_of_several")
async def planner_of_several(count: int) -> list[int]:
    several = [
        added(2, "first"),
        added(count, "many"),
        *(added(1, f"last{number}") for number in range(count)),
    ]
    return [len(names) for names in await holdfast.gather(*map(holdfast.graphs.extend, several))]


def added(count: int, name: str = "x") -> Graph:
    more = Graph()
    members = [
        more.add(leaf, number, name=f"{name}{number}").after(more.member("root"))
        for number in range(count)
    ]
    more.add(total, name=f"{name}-total").after(*members, into="numbers")
    return more


@workflow(name="very_many_hear")
async def hear() -> None:
    await holdfast.wait_signal("go")


@workflow(name="very_many_total")
async def total(numbers: dict) -> int:
    return sum(numbers.values())


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(start_service, "PART", 4)
    monkeypatch.setattr(graph_stages, "PART", 10)
    monkeypatch.setattr(children, "PORTION", 3)
    monkeypatch.setattr(commits, "PORTION", 3)
    monkeypatch.setattr(replay_service, "PORTION", 3)
    monkeypatch.setattr(stopping, "PORTION", 4)
    monkeypatch.setattr(advancing, "PORTION", 4)
    monkeypatch.setattr(sessions, "PORTION", 3)
    monkeypatch.setattr(work, "PORTION", 4)
    monkeypatch.setattr(work, "LINKS", 5)
    monkeypatch.setattr(sweeping, "PORTION", 4)
    monkeypatch.setattr(pruning, "ROWS", 5)


@pytest.fixture
def sizes(engine, monkeypatch):
    """How many runs, members and rows each transaction wrote."""
    found = []
    apply = internals(engine).store.apply

    def counted(batch):
        for op in batch:
            if isinstance(op, StartRuns):
                found.append(len(op.runs))
            elif isinstance(op, Advance):
                found.append(len(op.children()))
                found.append(sum(len(growth.patch.members) for growth in op.of(AddMembers)))
            elif isinstance(op, WriteStagePart):
                found.append(len(op.members))
        answers = apply(batch)
        found.extend(len(answer.born) for answer in answers if isinstance(answer, ResolvedGraphs))
        return answers

    monkeypatch.setattr(internals(engine).store, "apply", counted)
    return found


@pytest.fixture
def events(engine, monkeypatch):
    """How many events each transaction wrote for one run."""
    found = []
    apply = internals(engine).store.apply

    def counted(batch):
        found.extend(len(op.events) for op in batch if isinstance(op, Advance))
        return apply(batch)

    monkeypatch.setattr(internals(engine).store, "apply", counted)
    return found


def fan(count: int) -> Graph:
    graph = Graph("fan")
    root = graph.add(leaf, 0, name="root")
    members = [graph.add(leaf, number, name=f"m{number}").after(root) for number in range(count)]
    graph.add(total, name="total").after(*members, into="numbers")
    return graph


def test_a_graph_is_written_and_started_in_parts_and_is_there_as_a_whole(engine, sizes):
    run = engine.graphs.start(fan(20), id="g")

    assert len(run.show().members) == 22
    assert run.result(timeout=60) == {"total": sum(range(20))}
    assert max(sizes) <= 10
    assert engine.graphs.start(fan(20), id="g").result() == {"total": sum(range(20))}
    with pytest.raises(GraphExists):
        engine.graphs.start(fan(21), id="g")
    assert engine.database.check() == []


def test_a_graph_grows_by_very_many_members(engine):
    graph = fan(2)
    graph.add(hear, name="open")
    run = engine.graphs.start(graph, id="g")
    more = Graph()
    members = [
        more.add(leaf, number, name=f"x{number}").after(more.member("root")) for number in range(20)
    ]
    more.add(total, name="more").after(*members, into="numbers")

    assert run.extend(more, revision=1) == 2
    # Members are started in parts: the run of this one may not exist yet.
    wait_until(engine, lambda: internals(engine).store.runs.get("g::open") is not None)
    engine.signal("g::open", "go")
    assert run.result(timeout=60) == {"total": 1, "more": sum(range(20)), "open": None}
    assert engine.database.check() == []


def planned(count: int, flow=planner) -> Graph:
    graph = Graph("planned")
    graph.add(leaf, 0, name="root")
    graph.add(flow, count, name="planner").after("root")
    return graph


def test_a_member_adds_very_many_members_to_its_own_graph_in_parts(engine, sizes):
    run = engine.graphs.start(planned(20), id="g")

    assert run.result(timeout=60) == {"planner": 21, "x-total": sum(range(20))}
    assert max(sizes) <= 10
    assert engine.database.check() == []


def test_a_member_adds_to_its_graph_several_times_in_one_turn(engine, sizes):
    run = engine.graphs.start(planned(12, planner_of_several), id="g")

    results = run.result(timeout=60)

    assert results["planner"] == [3, 13, *[2] * 12]
    assert results["many-total"] == sum(range(12))
    assert max(sizes) <= 10
    assert engine.database.check() == []


def test_members_are_checked_once_more_when_the_graph_is_changed_while_they_are_written(
    engine, monkeypatch
):
    store, changes = internals(engine).store, []
    apply = store.apply

    def change_once(batch):
        if not changes and any(isinstance(op, WriteStagePart) for op in batch):
            desk = internals(engine).graphs
            patch, _ = desk._patch(added(1, "other"), "g")
            op = AddMembers(graph_id="g", namespace="default", patch=patch, compose=desk._compose)
            changes.append(apply([op]))
        return apply(batch)

    monkeypatch.setattr(store, "apply", change_once)
    run = engine.graphs.start(planned(20), id="g")

    assert run.result(timeout=60) == {"planner": 21, "x-total": sum(range(20)), "other-total": 0}
    assert len(changes) == 1
    assert engine.database.check() == []


def test_a_member_fails_that_adds_very_many_members_of_which_one_is_there(engine):
    graph = planned(20)
    graph.add(leaf, 0, name="x7")

    with pytest.raises(GraphFailed):
        engine.graphs.start(graph, id="g").result(timeout=60)

    assert engine.run("g::planner").record.status is Status.FAILED
    assert b"MemberExists" in engine.run("g::planner").record.error
    assert "graph_stage" not in internals(engine).store.installation.rows()


def test_a_member_gives_up_what_its_last_holder_has_written_when_the_code_wants_something_else(
    engine,
):
    stage_id = graph_stages.own_stage_id("g", "g::planner", "of other code")
    members = [("g", member) for member in members_of(engine, fan(2)) if member.name == "root"]
    left = [msgspec.structs.replace(member, name="x1") for _, member in members]
    internals(engine).store.apply(
        [
            WriteStagePart(
                stage_id=stage_id,
                namespace="default",
                members=[("g", member) for member in left],
                written=0,
            )
        ]
    )

    assert engine.graphs.start(planned(20), id="g").result(timeout=60) == {
        "planner": 21,
        "x-total": sum(range(20)),
    }
    assert engine.database.check() == []


def test_what_is_refused_in_the_end_leaves_nothing_behind(engine):
    engine.lanes.set("closed", draining=True)
    graph = Graph()
    for number in range(20):
        graph.add(leaf, number, name=f"m{number}", lane="closed")

    with pytest.raises(LaneDraining):
        engine.graphs.start(graph, id="g")

    assert (
        internals(engine).store.installation.rows().keys()
        & {"graph", "graph_member", "graph_stage"}
        == set()
    )


def test_what_a_dead_process_has_begun_is_deleted_for_whoever_comes_next(engine, database):
    store = internals(engine).store
    op = WriteStagePart(
        stage_id="g::dead",
        namespace="default",
        members=[("g", member) for member in members_of(engine, fan(2))],
        written=0,
    )
    store.apply([op])
    with pytest.raises(GraphBusy):
        engine.graphs.start(fan(20), id="g")

    execute(database, "UPDATE holdfast.graph_stage SET due_at = 1")

    assert engine.graphs.start(fan(20), id="g").result(timeout=60) == {"total": sum(range(20))}
    assert engine.database.check() == []


def members_of(engine, graph):
    return internals(engine).graphs._patch(graph, "g")[0].members


def test_a_replay_puts_very_many_runs_back_to_work_in_parts(engine, monkeypatch):
    monkeypatch.setattr(graphs, "ROOTS", 3)
    graph = Graph()
    members = [graph.add(fragile, number, name=f"m{number}") for number in range(10)]
    graph.add(total, name="total").after(*members, into="numbers")
    mended.clear()
    run = engine.graphs.start(graph, id="g")
    with pytest.raises(GraphFailed):
        run.result(timeout=60)
    parts = []
    apply = internals(engine).store.apply

    def counted(batch):
        parts.extend(len(op.replays) for op in batch if isinstance(op, ReplayMember))
        return apply(batch)

    monkeypatch.setattr(internals(engine).store, "apply", counted)
    mended.append(True)
    run.replay("total")

    assert run.result(timeout=60) == {"total": sum(range(10))}
    assert parts == [3, 3, 3, 1]


def test_a_large_graph_is_pruned_in_portions_and_can_be_started_again(engine):
    engine.graphs.start(fan(20), id="g").result(timeout=60)
    assert engine.graphs.prune("0s") == 1

    assert (
        internals(engine).store.installation.rows().keys()
        & {"graph", "graph_member", "graph_stage", "graph_edge", "graph_event"}
        == set()
    )
    assert engine.retention.prune("0s") == 22
    assert engine.graphs.start(fan(20), id="g").result(timeout=60) == {"total": sum(range(20))}


def test_start_many_starts_parts_that_are_whole(engine, sizes):
    runs = engine.start_many(leaf, range(10))

    assert [run.result(timeout=60) for run in runs] == list(range(10))
    assert [size for size in sizes if size] == [4, 4, 2]


def test_start_many_says_what_was_started_when_a_part_is_refused(engine, monkeypatch):
    store, parts = internals(engine).store, []
    apply = store.apply

    def drain_after_the_first_part(batch):
        parts.extend(op for op in batch if isinstance(op, StartRuns))
        if len(parts) == 2 and any(isinstance(op, StartRuns) for op in batch):
            monkeypatch.setattr(store, "apply", apply)
            apply(
                [SetLane(Lane(name="default", draining=True))]
            )  # by another process: this one is about to commit
        return apply(batch)

    with pytest.raises(LaneDraining):
        engine.lanes.set("closed", draining=True)
        engine.start_many(leaf, range(10), lane="closed")
    monkeypatch.setattr(store, "apply", drain_after_the_first_part)
    with pytest.raises(StartIncomplete) as caught:
        engine.start_many(leaf, range(10))

    assert isinstance(caught.value.__cause__, LaneDraining)
    assert caught.value.facts["started"] == len(caught.value.run_ids) == 4
    assert caught.value.facts["left"] == 6
    assert [engine.run(run_id).result(timeout=60) for run_id in caught.value.run_ids] == [
        0,
        1,
        2,
        3,
    ]


def test_a_map_starts_its_children_in_portions(engine, sizes):
    assert engine.start(mapped, 10).result(timeout=60) == sum(range(10))
    assert max(sizes) == 3
    assert engine.database.check() == []


def test_children_that_are_started_in_one_turn_and_their_ends_are_committed_in_portions(
    engine, sizes, events
):
    run = engine.start(gathered, 20)

    assert run.result(timeout=60) == sum(range(20))
    assert max(sizes) == 3
    assert (
        max(events) <= 3 + 1 + 1
    )  # what was gathered when the portion was full, the next outcome, and the end of the run
    kinds = [event.kind for event in run.history()]
    assert kinds.count("child_started") == kinds.count("child_ended") == 20
    assert engine.database.check() == []


def test_the_end_of_a_parent_stops_its_children_in_portions(engine, monkeypatch):
    stopped = watch_stops(monkeypatch)

    run = engine.start(left_behind, 20)

    assert run.result(timeout=60) == 20
    assert internals(engine).store.runs.counts() == {"completed": 1, "cancelled": 20}
    assert max(stopped) <= 4
    assert engine.database.check() == []


@pytest.mark.parametrize("force", [False, True])
def test_a_tree_is_cancelled_in_portions(engine, monkeypatch, force):
    engine.lanes.set("paused", paused=True)
    store = internals(engine).store
    parent = engine.start(family, 20)
    wait_until(engine, lambda: len(store.runs.open_children(parent.id, 100)) == 20)
    stopped = watch_stops(monkeypatch)

    engine.cancel(parent.id, force=force)

    assert store.runs.open_children(parent.id, 100) == []
    with pytest.raises(RunCancelled):
        parent.result(timeout=60)
    assert max(stopped) <= 4
    assert engine.database.check() == []


def test_a_run_reads_very_many_signals_and_records_them_in_portions(engine, events):
    engine.lanes.set("later", paused=True)
    run = engine.start(listener, 20, lane="later")
    for number in range(20):
        run.signal("number", number)
    engine.lanes.resume("later")

    assert run.result(timeout=60) == sum(range(20))
    assert max(events) <= 3 + 1 + 1


def test_a_long_history_is_forked_in_portions(engine, monkeypatch):
    monkeypatch.setattr(fork_service, "PART", 4)
    run = engine.start(many_steps, 20)
    run.result(timeout=60)
    written = []
    apply = internals(engine).store.apply

    def counted(batch):
        written.extend(len(op.events) for op in batch if isinstance(op, ImportRun | StageEvents))
        return apply(batch)

    monkeypatch.setattr(internals(engine).store, "apply", counted)
    fork = engine.fork(run.id, from_step="add_up")

    assert fork.result(timeout=60) == sum(range(20))
    assert written == [4, 4, 4, 4, 4, 1]
    kinds = [event.kind for event in fork.history()]
    assert kinds == ["step_completed"] * 20 + ["run_forked", "step_completed", "run_completed"]
    assert "graph_stage" not in internals(engine).store.installation.rows()
    assert engine.database.check() == []


def test_few_events_with_large_values_are_forked_in_portions(engine, monkeypatch):
    monkeypatch.setattr(fork_service, "BYTES", 3)
    run = engine.start(many_steps, 12)
    run.result(timeout=60)

    fork = engine.fork(run.id, from_step="add_up")

    assert fork.result(timeout=60) == sum(range(12))
    assert engine.database.check() == []


def test_a_fork_that_is_refused_leaves_nothing_behind(engine, monkeypatch):
    monkeypatch.setattr(fork_service, "PART", 4)
    run = engine.start(many_steps, 20)
    run.result(timeout=60)
    apply = internals(engine).store.apply

    def give_up_at_the_end(batch):
        for op in batch:
            if isinstance(op, ImportRun):
                apply([SweepStages(op.staged.stage_id, give_up=True)])
        return apply(batch)

    monkeypatch.setattr(internals(engine).store, "apply", give_up_at_the_end)
    with pytest.raises(StageGone):
        engine.fork(run.id, from_step="add_up", id="fork")

    assert "graph_stage" not in internals(engine).store.installation.rows()
    assert internals(engine).store.runs.counts() == {"completed": 1}
    assert engine.database.check() == []


def test_a_fork_with_an_id_is_made_once(engine, monkeypatch):
    monkeypatch.setattr(fork_service, "PART", 4)
    run = engine.start(many_steps, 20)
    run.result(timeout=60)
    fork = engine.fork(run.id, from_step="add_up", id="fork")

    assert engine.fork(run.id, from_step="add_up", id="fork").id == fork.id == "fork"
    assert fork.result(timeout=60) == sum(range(20))
    assert engine.fork(run.id, from_step="add_up", id="fork").id == "fork"
    for source, from_step in ((run.id, None), (fork.id, "add_up")):
        with pytest.raises(RunExists):
            engine.fork(source, from_step=from_step, id="fork")
    with pytest.raises(RunExists):
        engine.fork(run.id, from_step="add_up", id=run.id)
    assert internals(engine).store.runs.counts() == {"completed": 2}


def test_very_many_children_are_replayed_in_portions_before_their_parent(engine, monkeypatch):
    mended.clear()
    run = engine.start(fragile_map, 10)
    with pytest.raises(RunFailed):
        run.result(timeout=60)
    parts = []
    apply = internals(engine).store.apply

    def counted(batch):
        parts.extend(len(op.replays) for op in batch if isinstance(op, ReplayRuns))
        return apply(batch)

    monkeypatch.setattr(internals(engine).store, "apply", counted)
    mended.append(True)
    engine.replay(run.id)

    assert run.result(timeout=60) == sum(range(10))
    assert parts == [3, 3, 3, 1]
    assert engine.database.check() == []


@pytest.fixture
def statements(monkeypatch):
    """How many statements each replay takes."""
    found = []

    def counting(apply):
        def counted(tx, op):
            counter = StatementCounter(tx)
            answer = apply(counter, op)
            found.append(counter.statements)
            return answer

        return counted

    for applied in (transitions.APPLY, postgres_writing._APPLY):
        for kind in (ReplayRuns, ReplayRun):
            monkeypatch.setitem(applied, kind, counting(applied[kind]))
    return found


class StatementCounter:
    """A transaction that counts its calls."""

    def __init__(self, tx):
        self._tx = tx
        self.statements = 0

    def __getattr__(self, name):
        self.statements += name in ("rows", "change", "many")
        return getattr(self._tx, name)


@pytest.mark.parametrize("portion", [8, 100])
def test_a_portion_is_replayed_with_few_statements(engine, monkeypatch, statements, portion):
    monkeypatch.setattr(replay_service, "PORTION", portion)
    mended.clear()
    run = engine.start(fragile_map, 16)
    with pytest.raises(RunFailed):
        run.result(timeout=60)

    mended.append(True)
    engine.replay(run.id)

    assert run.result(timeout=60) == sum(range(16))
    assert statements
    assert max(statements) <= 16
    assert engine.database.check() == []


def test_a_session_that_held_very_many_runs_is_ended_in_portions(database):
    with closing(open_store(database)) as store:
        _end_in_portions(store)


def _end_in_portions(store: Store) -> None:
    session = Session(
        id="gone",
        worker="w",
        host="elsewhere",
        pid=1,
        slot=-1,
        started_at=1,
        beat_at=1,
        expires_at=10**16,
        serves=b"{}",
    )
    runs = [
        NewRun(
            id=f"r{number}",
            route=Route("default", "far", "1", "default", ()),
            input=b"[]",
            session_id="gone",
        )
        for number in range(10)
    ]
    store.apply([OpenSession(session), StartRuns(runs)])

    ends, portions = "gone", []
    while ends is not None:
        (freed,) = store.apply([EndSession(ends, crashed=True)])
        assert store.check() == []
        assert store.apply([Heartbeat("gone", 10**9)]) == [False]
        portions.append(len(freed))
        ends = freed.rest

    assert portions == [3, 3, 3, 1]
    assert [session.id for session in store.runs.sessions() if session.id.startswith("gone")] == []
    assert {store.runs.get(run.id).status for run in runs} == {Status.PENDING}
    assert {store.runs.get(run.id).generation for run in runs} == {2}


def watch_stops(monkeypatch) -> list[int]:
    """Return how many runs each transaction asks to stop."""
    stopped: list[int] = []
    cancel_children = stopping.cancel_children

    def counted(tx, run_id, reason, below=None, **details):
        room = details.pop("room", stopping.PORTION)
        left = cancel_children(tx, run_id, reason, below, room=room, **details)
        stopped.append(room - left)
        return left

    monkeypatch.setattr(stopping, "cancel_children", counted)
    monkeypatch.setattr(advancing, "cancel_children", counted)
    return stopped


def test_a_damaged_member_is_named_and_holds_up_its_own_graph_only(engine, database):
    runs = {}
    for name in ("sick", "well"):
        graph = fan(2)
        graph.add(hear, name="open")
        graph.add(leaf, 1, name="late").after("open")
        runs[name] = engine.graphs.start(graph, id=name)
        wait_until(
            engine, lambda name=name: internals(engine).store.runs.get(f"{name}::open") is not None
        )
    execute(
        database,
        "UPDATE holdfast.graph_group SET state = 'odd' WHERE run_id = :late",
        late="sick::late",
    )

    for name in runs:
        engine.signal(f"{name}::open", "go")

    assert runs["well"].result(timeout=60) == {"total": 1, "late": 1}
    assert any("sick::late" in line for line in engine.database.check())
    assert "damaged" in engine.why("sick::late").reason
    execute(
        database,
        "UPDATE holdfast.graph_group SET state = 'open' WHERE run_id = :late",
        late="sick::late",
    )
    assert runs["sick"].result(timeout=60) == {"total": 1, "late": 1}

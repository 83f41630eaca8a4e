"""Starting, listing, replaying, forking, exporting, pruning; lanes and workers."""

from __future__ import annotations

import asyncio
import threading
from contextlib import closing
from datetime import timedelta

import pytest

import holdfast
from holdfast import AsyncEngine, Engine, step, wait_signal, workflow
from holdfast.errors import (
    BadOption,
    BadUrl,
    EngineClosed,
    IllegalMove,
    ResultTimeout,
    RunExists,
    RunFailed,
    RunNotFinished,
    RunNotFound,
    StepNotFound,
    StoreHalfCopied,
    StoreInUse,
    StoreSealed,
    UnknownWorkflow,
)
from holdfast.service import copy as copy_service
from holdfast.service import export as export_service
from holdfast.testing import internals
from tests.engine.databases import connect, execute
from tests.engine.waiting import unseal, wait_for, wait_until

broken = threading.Event()
calls: list[str] = []


@pytest.fixture(autouse=True)
def _calm():
    broken.clear()
    calls.clear()


@step
async def one(n: int) -> int:
    calls.append("one")
    return n + 1


@step
async def two(n: int) -> int:
    calls.append("two")
    if broken.is_set():
        raise ValueError("broken")
    return n * 10


@workflow
async def sums(n: int) -> int:
    return await two(await one(n))


@workflow
async def waits() -> object:
    return await wait_signal("go")


def test_the_same_id_and_input_is_the_same_run(engine):
    first, again = engine.start(sums, 1, id="mine"), engine.start(sums, 1, id="mine")
    assert first.id == again.id == "mine"
    assert first.result(timeout=20) == 20
    assert calls == ["one", "two"]
    with pytest.raises(RunExists):
        engine.start(sums, 2, id="mine")


def test_the_same_key_and_input_is_the_same_run(engine):
    first, again = engine.start(sums, 1, key="order-7"), engine.start(sums, 1, key="order-7")
    assert first.id == again.id
    assert first.record.key == "order-7"
    with pytest.raises(RunExists, match="order-7"):
        engine.start(sums, 2, key="order-7")
    assert engine.start(sums, 2, key="order-7", namespace="other").id != first.id


def test_a_process_that_does_not_work_can_start_runs(database, engine):
    client = Engine(database)
    run = client.start(sums, 4)
    by_name = client.start("sums", 5)
    assert engine.run(run.id).result(timeout=20) == 50
    assert by_name.result(timeout=20) == 60
    client.close()
    with pytest.raises(EngineClosed):
        client.start(sums, 1)


def test_a_run_can_be_started_in_the_callers_own_transaction(database, engine):
    execute(database, "CREATE TABLE orders (run TEXT)")
    db = connect(database)
    lost = engine.start(sums, 1, connection=db)
    db.rollback()
    kept = engine.start(sums, 2, connection=db)
    db.execute(f"INSERT INTO orders VALUES ('{kept.id}')")
    db.commit()
    db.close()

    assert kept.result(timeout=20) == 30
    with pytest.raises(RunNotFound):
        engine.run(lost.id)


def test_many_in_one_call(engine):
    runs = engine.start_many(sums, range(100), tags={"batch": "a"})
    assert [run.result(timeout=30) for run in runs] == [(n + 1) * 10 for n in range(100)]
    assert len(engine.runs(tags={"batch": "a"}).page(limit=200)) == 100
    assert engine.start_many(sums, []) == []


def test_priority_delay_and_deadline_are_kept(engine):
    record = engine.start(sums, 1, priority=5, delay="1d", deadline="2d").record
    assert record.priority == 5 and record.status == "pending"
    assert abs(record.deadline - record.wake_at - timedelta(days=1)) < timedelta(seconds=1)


def test_bad_options_are_refused(engine):
    for options in (
        {"priority": "high"},
        {"id": ""},
        {"tags": 3},
        {"tags": {"a": None}},
        {"key": "x" * 300},
    ):
        with pytest.raises(BadOption):
            engine.start(sums, 1, **options)
    with pytest.raises(holdfast.HoldfastError):
        engine.start(sums, 1, delay="soon")
    with pytest.raises(UnknownWorkflow):
        engine.start(len, 1)
    with pytest.raises(BadOption):
        list(engine.runs(status="happy"))
    assert list(engine.runs()) == []


def test_a_query_without_any_status_is_refused_and_selects_no_runs(idle):
    run = idle.start(sums, 1)

    with pytest.raises(BadOption, match="at least one status"):
        idle.runs(status=[]).cancel()

    assert run.status == "pending"


def test_runs_are_listed_from_new_to_old_in_pages(engine):
    ids = [run.id for run in engine.start_many(sums, range(25))]
    first = engine.runs().page(limit=10)
    second = engine.runs().page(limit=10, after=first[-1].id)
    assert [run.id for run in first + second] == ids[::-1][:20]
    by_cursor = engine.runs().page(limit=10, after=first.next)
    assert [run.id for run in by_cursor] == [run.id for run in second]
    assert engine.runs().page(after=second.next).next is None
    assert list(engine.runs(workflow="nothing")) == []


def test_the_newest_run_is_the_last_created_whatever_the_ids(idle, clock):
    for run_id in ("zeta", "alpha", "mid"):
        idle.start(sums, 1, id=run_id)
        clock.advance("1s")
    generated = idle.start(sums, 1).id

    assert [run.id for run in idle.runs()] == [generated, "mid", "alpha", "zeta"]
    assert idle.runs().first().id == generated


def test_a_page_after_a_run_that_does_not_exist_is_refused(idle):
    idle.start(sums, 1, id="r1")

    with pytest.raises(RunNotFound, match="cursor"):
        idle.runs().page(after="r2")


def test_an_id_that_looks_like_a_cursor_is_the_id_of_its_run(idle, clock):
    for run_id in ("first", "17:x", "last"):
        idle.start(sums, 1, id=run_id)
        clock.advance("1s")

    assert [run.id for run in idle.runs().page(after="17:x")] == ["first"]


def test_runs_are_found_and_counted_by_everything_that_a_start_names(idle):
    idle.start(sums, 1, id="plain")
    idle.start(sums, 1, id="order-1", key="k", lane="narrow", share="ann", tags={"a": "b"})

    for filters in (
        {"key": "k"},
        {"lane": "narrow"},
        {"share": "ann"},
        {"tags": {"a": "b"}},
        {"id_prefix": "order-"},
    ):
        assert [run.id for run in idle.runs(**filters)] == ["order-1"], filters
        assert idle.runs(**filters).count() == 1, filters
    assert idle.runs(version="none").count() == 0
    assert idle.runs(live=True).count() == 2
    idle.cancel("plain", force=True)
    assert [run.id for run in idle.runs(live=True)] == ["order-1"]
    with pytest.raises(BadOption, match="either live or status"):
        idle.runs(live=True, status="failed").count()


def test_a_filter_takes_several_workflows_versions_and_lanes(idle):
    for name, lane, version in (("a", "x", "1"), ("b", "y", "2"), ("c", "z", "3")):
        idle.start(name, id=name, lane=lane, version=version)

    for filters in (
        {"workflow": ["a", "c"]},
        {"version": ("1", "3")},
        {"lane": {"x", "z"}},
        {"lane": ["x", "y", "z"], "workflow": ["a", "c"], "status": ["pending", "failed"]},
    ):
        assert [run.id for run in idle.runs(**filters)] == ["c", "a"], filters
        assert idle.runs(**filters).count() == 2, filters
    query = idle.runs(lane=(lane for lane in "xz"))
    assert [run.id for run in query] == [run.id for run in query] == ["c", "a"]
    for name in ("workflow", "version", "lane"):
        for wrong in ([], ["a", 7], {"a": 1}.values(), [f"n{number}" for number in range(1001)]):
            with pytest.raises(BadOption, match=name):
                idle.runs(**{name: wrong}).cancel()
    assert idle.runs(live=True).count() == 3
    assert idle.runs(workflow=["a", "b"]).cancel(force=True).changed == 2
    assert [run.id for run in idle.runs(live=True)] == ["c"]


def test_tags_change_after_the_start_and_after_the_end(idle):
    run = idle.start(sums, 1, id="r1", tags={"draft": "yes", "customer": "7"})

    assert run.set_tags({"draft": None, "customer": "8", "team": "a"}) == {
        "customer": "8",
        "team": "a",
    }

    assert idle.run("r1").record.tags == {"customer": "8", "team": "a"}
    assert [found.id for found in idle.runs(tags={"team": "a", "customer": "8"})] == ["r1"]
    assert idle.runs(tags={"customer": "7"}).count() == 0
    run.cancel(force=True)
    assert run.set_tags({"team": None}) == {"customer": "8"}
    for wrong in (None, 7, {"": "x"}, {"a": 1.5}):
        with pytest.raises(BadOption):
            run.set_tags(wrong)


def test_a_history_is_read_in_pages(engine):
    run = engine.start(sums, 1)
    run.result(timeout=20)
    engine.replay(run.id, from_step="two")
    run.result(timeout=20)
    whole = run.history()

    pages = []
    after = 0
    while page := run.history(after=after, limit=2):
        assert len(page) <= 2
        pages += page
        after = page[-1].seq

    assert pages == whole
    assert any(event.void for event in pages)


def test_replay_does_what_failed_again(engine):
    broken.set()
    run = engine.start(sums, 1)
    with pytest.raises(RunFailed):
        run.result(timeout=20)
    broken.clear()
    engine.replay(run.id)
    assert run.result(timeout=20) == 20
    assert calls == ["one", "two", "two"]
    with pytest.raises(StepNotFound):
        engine.replay(run.id, from_step="nowhere")


def test_replay_from_a_step(engine):
    run = engine.start(sums, 1)
    run.result(timeout=20)
    engine.replay(run.id, from_step="two")
    assert run.result(timeout=20) == 20
    assert calls == ["one", "two", "two"]
    waiting = engine.start(waits)
    with pytest.raises(RunNotFinished):
        engine.replay(waiting.id)
    with pytest.raises(IllegalMove):
        engine.resume(waiting.id)
    waiting.cancel(force=True)


def test_fork_goes_its_own_way_from_a_step(engine):
    run = engine.start(sums, 1)
    run.result(timeout=20)
    fork = engine.fork(run.id, from_step="two")
    assert fork.result(timeout=20) == 20
    assert calls == ["one", "two", "two"]
    assert fork.record.forked_from == run.id
    anew = engine.fork(run.id)
    assert anew.result(timeout=20) == 20
    assert calls[3:] == ["one", "two"]


def test_export_makes_a_file_that_opens_elsewhere(engine, tmp_path):
    @workflow
    async def parent() -> list:
        return await holdfast.map(sums, [1, 2])

    run = engine.start(parent, tags={"a": "b"})
    run.result(timeout=20)
    assert engine.database.export(run.id, tmp_path / "one.db") == 3
    other = Engine(tmp_path / "one.db")
    assert other.run(run.id).result(timeout=60) == [20, 30]
    assert [event.kind for event in other.run(run.id).history()] == [
        event.kind for event in run.history()
    ]
    assert other.database.check() == []
    with pytest.raises(RunExists):
        engine.database.export(run.id, tmp_path / "one.db")
    other.close()


@workflow
async def exported_parent() -> list:
    return [await exported_child(), await one(1)]


@workflow
async def exported_child() -> str:
    return await wait_signal("go")


def test_a_run_that_has_not_ended_continues_in_one_database_only(engine, tmp_path):
    run = engine.start(exported_parent)
    wait_for(engine, run, "waiting")
    wait_until(engine, lambda: internals(engine).store.children.all(run.id)[0].status == "waiting")
    copy = tmp_path / "copy.db"

    assert engine.database.export(run.id, copy) == 2

    with closing(Engine(copy)) as reader:
        assert [event.kind for event in reader.run(run.id).history()] == [
            event.kind for event in run.history()
        ]
        child = next(listed_run for listed_run in reader.runs() if listed_run.id != run.id)
        for call in (
            lambda: reader.start(sums, 1),
            lambda: reader.signal(child.id, "go", "twice"),
            lambda: reader.cancel(run.id),
        ):
            with pytest.raises(StoreSealed, match="copied_from="):
                call()
    with (
        pytest.raises(StoreSealed, match="holdfast db unseal"),
        Engine(copy, workflows=[exported_parent, exported_child]),
    ):
        pass
    engine.signal(child.id, "go", "once")
    assert run.result(timeout=20) == ["once", 2]
    unseal(copy)
    with Engine(copy, workflows=[exported_parent, exported_child]) as elsewhere:
        elsewhere.signal(child.id, "go", "there")
        assert elsewhere.run(run.id).result(timeout=20) == ["there", 2]
        assert elsewhere.database.check() == []


def test_an_export_shows_a_tree_as_it_stood_at_one_instant(engine, tmp_path, monkeypatch):
    run = engine.start(exported_parent)
    wait_until(
        engine,
        lambda: (
            [each_child.status for each_child in internals(engine).store.children.all(run.id)]
            == ["waiting"]
        ),
    )
    (child,) = internals(engine).store.children.all(run.id)
    monkeypatch.setattr(export_service, "RUNS", 1)
    copied = []

    def end_meanwhile(count):
        """End the child, and with it the parent, when the parent has been copied and the child has
        not."""
        copied.append(count)
        if len(copied) == 1:
            engine.signal(child.id, "go", "here")
            run.result(timeout=20)

    assert engine.database.export(run.id, tmp_path / "copy.db", progress=end_meanwhile) == 2

    unseal(tmp_path / "copy.db")
    with Engine(tmp_path / "copy.db", workflows=[exported_parent, exported_child]) as elsewhere:
        assert elsewhere.run(child.id).status in ("waiting", "pending")
        elsewhere.signal(child.id, "go", "there")
        assert elsewhere.run(run.id).result(timeout=20) == ["there", 2]
        assert elsewhere.database.check() == []


def test_a_run_that_has_not_ended_is_not_exported_to_a_database_with_other_runs(engine, tmp_path):
    copy = tmp_path / "copy.db"
    done = engine.start(sums, 1)
    done.result(timeout=20)
    engine.database.export(done.id, copy)
    run = engine.start(exported_child)

    with pytest.raises(RunNotFinished, match="export it to a new database"):
        engine.database.export(run.id, copy)

    engine.cancel(run.id)
    wait_until(engine, lambda: run.status == "cancelled")
    assert engine.database.export(run.id, copy) == 1
    with Engine(copy, workflows=[sums]) as elsewhere:
        assert elsewhere.start(sums, 2).result(timeout=20) == 30


def test_nothing_that_has_not_ended_is_exported_to_a_database_at_which_somebody_works(
    engine, tmp_path, monkeypatch
):
    run = engine.start(exported_child)
    wait_for(engine, run, "waiting")
    monkeypatch.setattr(copy_service, "PATIENCE", 0.0)

    with Engine(tmp_path / "copy.db", workflows=[exported_child]) as elsewhere:
        with pytest.raises(StoreInUse, match="stop that worker"):
            engine.database.export(run.id, tmp_path / "copy.db")
        assert list(elsewhere.runs()) == []

    assert engine.database.export(run.id, tmp_path / "copy.db") == 1


def test_an_export_that_dies_leaves_no_copy_that_could_continue(engine, tmp_path):
    run = engine.start(exported_child)
    wait_for(engine, run, "waiting")

    def die(count):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        engine.database.export(run.id, tmp_path / "copy.db", progress=die)

    with pytest.raises(StoreHalfCopied):
        Engine(tmp_path / "copy.db")


def test_prune_deletes_old_finished_trees_in_batches(database, clock):
    with Engine(database, clock=clock) as engine:
        for run in engine.start_many(sums, range(30)):
            run.result(timeout=20)
        waiting = engine.start(waits)
        clock.advance("31d")
        fresh = engine.start(sums, 1)
        fresh.result(timeout=20)
        batches: list[int] = []
        assert engine.retention.prune("30d", batch=10, progress=batches.append) == 30
        assert batches == [10, 10, 10, 0]
        assert {run.id for run in engine.runs()} == {waiting.id, fresh.id}
        with pytest.raises(BadOption):
            engine.retention.prune("30d", status=["running"])


def test_a_result_may_take_too_long(engine):
    run = engine.start(waits)
    with pytest.raises(ResultTimeout):
        run.result(timeout="10ms")
    run.signal("go", 1)
    assert run.result(timeout=20) == 1


def test_a_lane_limits_how_many_work_at_once(engine):
    at_once, most = [], []
    guard = threading.Lock()

    @step
    def busy() -> None:
        with guard:
            at_once.append(1)
            most.append(len(at_once))
        threading.Event().wait(0.005)
        with guard:
            at_once.pop()

    @workflow(lane="narrow")
    async def flow() -> None:
        await busy.aio()

    engine.lanes.set("narrow", concurrency=2)
    wait_until(engine, lambda: any(lane.name == "narrow" for lane in engine.lanes.list()))
    for run in [engine.start(flow) for _ in range(10)]:
        run.result(timeout=30)
    assert max(most) <= 2


def test_a_paused_lane_waits_until_it_is_resumed(engine):
    @workflow(lane="quiet")
    async def flow() -> int:
        return 1

    engine.lanes.set("quiet", paused=True)
    run = engine.start(flow)
    with pytest.raises(ResultTimeout):
        run.result(timeout="50ms")
    engine.lanes.set("quiet", paused=False)
    assert run.result(timeout=20) == 1


def test_a_worker_leaves_alone_what_it_cannot_serve(database):
    @workflow
    async def other() -> int:
        return 1

    @workflow(capabilities=["gpu"])
    async def heavy() -> int:
        return 2

    @workflow(name="pinned", version="2", serves=["2"])
    async def pinned() -> int:
        return 3

    client = Engine(database)
    unknown, needy = client.start(other), client.start(heavy)
    old = client.start(pinned, version="1")
    with Engine(database, workflows=[heavy, pinned, sums]) as engine:
        assert engine.start(sums, 1).result(timeout=20) == 20
        assert {engine.run(run.id).status.value for run in (unknown, needy, old)} == {"pending"}
    with Engine(database, workflows=[heavy, other], capabilities=["gpu"]) as engine:
        assert engine.run(unknown.id).result(timeout=20) == 1
        assert engine.run(needy.id).result(timeout=20) == 2
    client.close()


def test_only_the_lanes_that_a_worker_serves(database):
    with Engine(database, lanes=["a"]) as engine:
        mine, other = engine.start(sums, 1, lane="a"), engine.start(sums, 2, lane="b")
        assert mine.result(timeout=20) == 20
        assert other.status == "pending"


def test_closing_hands_back_what_is_at_work(database):
    began, go_on = threading.Event(), threading.Event()

    @step
    def first() -> int:
        began.set()
        go_on.wait(20)
        return 1

    @workflow
    async def flow() -> int:
        return await first.aio() + await one(1)

    engine = Engine(database)
    engine.work()
    run_id = engine.start(flow).id
    assert began.wait(20)
    closer = threading.Thread(target=engine.close)
    closer.start()
    go_on.set()
    closer.join(20)
    with Engine(database, workflows=[flow]) as other:
        assert other.run(run_id).result(timeout=20) == 3
        assert [event.step for event in other.run(run_id).history()] == ["first", "one", None]


def test_the_asynchronous_engine_does_the_same(database):
    async def main() -> None:
        async with AsyncEngine(database) as engine:
            runs = await asyncio.gather(*(engine.start(sums, n) for n in range(50)))
            assert [await run.result(timeout=20) for run in runs] == [
                (n + 1) * 10 for n in range(50)
            ]
            waiting = await engine.start(waits)
            assert await waiting.signal("go", 5)
            assert await waiting.result() == 5
            fork = await engine.fork(runs[0].id, from_step="two")
            assert await fork.result() == 10
            assert (await (await engine.start(waits, delay="1d")).cancel()) == "cancelled"
            assert len(await engine.start_many(sums, [1, 2])) == 2
            assert await engine.database.check() == []

    asyncio.run(main())


def test_urls_that_make_no_sense_are_refused(tmp_path):
    for url in ("", " ", "sqlite://", "mysql://here/there"):
        with pytest.raises(BadUrl):
            Engine(url)
    with pytest.raises(holdfast.HoldfastError):
        Engine(tmp_path / "no" / "such" / "folder.db")
    with pytest.raises(TypeError, match="colour"):
        Engine(tmp_path / "a.db", colour="red")


def test_a_workflow_does_not_start_runs_behind_its_own_back(engine):
    @workflow
    async def sneaky() -> None:
        engine.start(sums, 1)

    with pytest.raises(RunFailed, match=r"holdfast\.start"):
        engine.start(sneaky).result(timeout=20)


def test_a_step_may_start_and_wait_for_other_runs_unless_that_blocks_the_engine(engine):
    @step
    def plain() -> int:
        return engine.start(sums, 1).result(timeout=20)

    @step
    async def blocks() -> int:
        return engine.start(sums, 1).result(timeout=20)

    @workflow
    async def flow() -> list:
        with pytest.raises(holdfast.errors.StepFailed, match="plain def"):
            await blocks()
        return [await plain.aio()]

    assert engine.start(flow).result(timeout=20) == [20]


def test_many_blocking_workflows_share_the_threads_there_are(database):
    at_once: list[int] = []
    most: list[int] = []

    @workflow
    def blocking(n: int) -> int:
        at_once.append(n)
        most.append(len(at_once))
        holdfast.sync.sleep("5ms")
        at_once.remove(n)
        return n

    client = Engine(database)
    ids = [client.start(blocking, n).id for n in range(30)]
    with Engine(database, threads=5, poll="1h", workflows=[blocking]) as engine:
        assert [engine.run(run_id).result(timeout=20) for run_id in ids] == list(range(30))
    assert max(most) <= 5
    client.close()


def test_an_unforeseen_fault_makes_a_run_stuck_not_silent(engine, monkeypatch):
    from holdfast.engine.execution import command_batch

    def explode(*_: object) -> None:
        raise ZeroDivisionError("a fault of ours")

    monkeypatch.setattr(command_batch, "execute", explode)
    run = engine.start(sums, 1)
    with pytest.raises(holdfast.errors.RunStuck, match="a fault of ours"):
        run.result(timeout=20)
    monkeypatch.undo()
    engine.resume(run.id)
    assert run.result(timeout=20) == 20


@pytest.mark.parametrize(
    "wrong",
    [
        {"workflow": 7},
        {"tags": 7},
        {"namespace": 7},
    ],
)
def test_a_filter_that_is_none_is_refused(database, wrong):
    with closing(Engine(database)) as idle, pytest.raises(BadOption):
        list(idle.runs(**wrong))


@pytest.mark.parametrize("wrong", [{"limit": -1}, {"limit": "7"}, {"limit": 1.5}, {"after": 7}])
def test_a_page_that_is_none_is_refused(database, wrong):
    with closing(Engine(database)) as idle, pytest.raises(BadOption):
        idle.runs().page(**wrong)


def test_an_engine_of_a_namespace_works_for_that_one_only(database):
    with (
        Engine(database, namespace="a") as ours,
        closing(Engine(database, workflows=[])) as unbound,
    ):
        assert ours.start(sums, 1).result(timeout=20) == 20
        other = unbound.start(sums, 1, namespace="c")
        assert ours.start(sums, 2).result(timeout=20) == 30
        assert other.status == "pending"
        assert {run.namespace for run in ours.runs(namespace="a")} == {"a"}
    with Engine(database) as all_of_them:
        assert all_of_them.run(other.id).result(timeout=20) == 20


def test_the_engine_says_which_store_it_uses(engine, database):
    facts = engine.database.info()

    is_file = not str(database).startswith("postgresql")
    assert facts["store"] == ("sqlite" if is_file else "postgres")
    assert facts["shared"] is not is_file
    assert facts["installation"]
    assert facts["payloads"] == 0

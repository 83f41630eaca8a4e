"""Dry replay: code is judged by recorded histories, and nothing is executed or written."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

import holdfast
from holdfast import Engine, compensate, gate, gather, sleep, step, wait_signal, workflow
from holdfast.codecs import Encrypted
from holdfast.errors import BadOption
from holdfast.testing import DoesNotFit, internals, replay
from holdfast.versions import patched
from holdfast.waits import create_wait
from tests.engine.databases import execute
from tests.engine.waiting import wait_for

calls: list[str] = []


@pytest.fixture(autouse=True)
def _calm():
    calls.clear()


@step
async def charge(n: int = 1) -> str:
    calls.append(f"charge {n}")
    return f"paid {n}"


@step
def pack() -> str:
    calls.append("pack")
    return "packed"


@step
async def ship() -> str:
    calls.append("ship")
    return "shipped"


@step
async def refund() -> None:
    calls.append("refund")


def define(body, **options):
    return workflow(name="order", **options)(body)


async def old_code(n: int = 1) -> list[str]:
    done = [await charge(n)]
    compensate(refund)
    await wait_signal("go")
    return [*done, await ship()]


def park(database, clock, flow, *args, count: int = 1, **options) -> list[str]:
    """Start runs, let them come to their wait, and close the engine."""
    with Engine(database, clock=clock, workflows=[flow], **options) as engine:
        runs = [engine.start(flow, *args) for _ in range(count)]
        for run in runs:
            wait_for(engine, run, "waiting")
        calls.clear()
        return [run.id for run in runs]


def rows(database, clock) -> list[object]:
    """Return all that a check could change: runs with their revisions, events, sessions."""
    with Engine(database, clock=clock, work=False) as engine:
        store = internals(engine).store
        return [
            sorted(map(repr, engine.runs())),
            [store.runs.history(run.id) for run in engine.runs()],
            store.sessions.all(),
        ]


def judge(database, clock, code, **options):
    """Return the only judgement of the live runs."""
    with Engine(database, clock=clock, work=False) as engine:
        try:
            report = replay(engine, define(code), **options)
        except DoesNotFit as error:
            report = error.report
    (group,) = report.groups.values()
    return group.first[0]


def test_unchanged_code_waits_where_the_run_waits(database, clock):
    (run_id,) = park(database, clock, define(old_code))
    before = rows(database, clock)

    judgement = judge(database, clock, old_code)

    assert (judgement.run_id, judgement.verdict) == (run_id, "waits")
    assert judgement.next == ["signal go"]
    assert calls == []
    assert rows(database, clock) == before


def test_an_added_step_is_what_the_run_asks_for_next(database, clock):
    park(database, clock, define(old_code))

    async def new_code(n: int = 1) -> list[str]:
        packed = await gather(ship.options(id="label")(), charge(n))
        await wait_signal("go")
        return packed

    judgement = judge(database, clock, new_code)

    assert (judgement.verdict, judgement.next) == ("continues", ["step label"])
    assert calls == []


def test_a_removed_step_is_named_with_its_event_and_the_line_of_the_code(database, clock):
    park(database, clock, define(old_code))

    async def new_code(n: int = 1) -> str:
        return await ship()

    with (
        Engine(database, clock=clock, work=False) as engine,
        pytest.raises(DoesNotFit, match="recorded is step_completed charge") as raised,
    ):
        replay(engine, define(new_code))

    (judgement,) = raised.value.report.objections
    assert judgement.verdict == "diverges"
    assert judgement.step == "charge"
    assert judgement.wanted == "RunStep ship"
    assert "test_dry_replay.py" in judgement.where
    assert calls == []


@pytest.mark.parametrize("kind", ["async def", "def"])
def test_a_divergence_is_foreseen_while_the_code_still_waits(database, clock, kind):
    park(database, clock, define(old_code))

    async def new_code(n: int = 1) -> str:
        await wait_signal("go")
        return await ship()

    def new_function(n: int = 1) -> str:
        holdfast.sync.wait_signal("go")
        return ship.sync()

    judgement = judge(database, clock, new_code if kind == "async def" else new_function)

    assert (judgement.verdict, judgement.step) == ("diverges", "charge")
    assert judgement.wanted.startswith("AwaitSignal")


def test_a_step_that_was_moved_behind_the_wait_is_no_divergence(database, clock):
    park(database, clock, define(old_code))

    async def new_code(n: int = 1) -> list[str]:
        await wait_signal("go")
        return [await charge(n), await ship()]

    assert judge(database, clock, new_code).verdict == "waits"
    with Engine(database, clock=clock, workflows=[define(new_code)]) as engine:
        (run,) = engine.runs()
        engine.signal(run.id, "go")
        assert engine.run(run.id).result(timeout=30) == ["paid 1", "shipped"]


def test_a_plain_function_is_judged_without_running_its_steps(database, clock):
    def flow() -> str:
        pack()
        holdfast.sync.wait_signal("go")
        return pack()

    park(database, clock, define(flow))

    assert judge(database, clock, flow).next == ["signal go"]

    def longer() -> str:
        first = pack()
        second = pack.options(id="again")()
        holdfast.sync.wait_signal("go")
        return first + second

    assert judge(database, clock, longer).next == ["step again"]
    assert calls == []
    for thread in threading.enumerate():
        if thread.name.startswith("holdfast "):
            thread.join(60)
            assert not thread.is_alive()


def test_an_error_of_the_code_is_told(database, clock):
    park(database, clock, define(old_code))

    async def new_code(n: int = 1) -> str:
        await charge(n)
        raise LookupError("no such order")

    judgement = judge(database, clock, new_code)

    assert (judgement.verdict, judgement.why) == ("fails", "LookupError: no such order")


def test_an_error_after_a_compensation_was_registered_asks_for_the_compensation(database, clock):
    park(database, clock, define(old_code))

    async def new_code(n: int = 1) -> str:
        await charge(n)
        compensate(refund)
        raise LookupError("no such order")

    judgement = judge(database, clock, new_code)

    assert (judgement.verdict, judgement.next) == ("fails", ["compensation undo refund"])
    assert calls == []


def test_an_input_that_the_function_cannot_take_does_not_load(database, clock):
    park(database, clock, define(old_code), 7)

    async def new_code(name: dict) -> None: ...

    judgement = judge(database, clock, new_code)

    assert judgement.verdict == "unloadable"
    assert "WrongType" in judgement.why


def test_other_versions_are_left_to_other_workers(database, clock):
    park(database, clock, define(old_code, version="1"))

    async def new_code(n: int = 1) -> None: ...

    flow = define(new_code, version="2", serves=["2"])
    with Engine(database, clock=clock, work=False) as engine:
        (group,) = replay(engine, flow).groups.values()

    assert (group.verdict, group.runs) == ("unserved", 1)


def loop_forever() -> None:
    while True:
        pass


def block_forever() -> None:
    threading.Event().wait()


def swallow_everything() -> None:
    until = time.monotonic() + 10
    while time.monotonic() < until:
        try:
            threading.Event().wait(0.01)
        except BaseException:
            calls.append("swallowed")


@pytest.mark.parametrize("trouble", [loop_forever, block_forever, swallow_everything])
@pytest.mark.parametrize("kind", ["async def", "def"])
@pytest.mark.sqlite_only
def test_code_that_gives_no_answer_does_not_hang_the_check(database, clock, trouble, kind):
    park(database, clock, define(old_code), count=5)

    async def new_code(n: int = 1) -> None:
        trouble()

    def new_function(n: int = 1) -> None:
        trouble()

    flow = define(new_code if kind == "async def" else new_function)
    with Engine(database, clock=clock, work=False) as engine, pytest.raises(DoesNotFit) as raised:
        replay(engine, flow, limit="50ms")

    reasons = [judgement.why for judgement in raised.value.report.objections]
    assert ["within" in why for why in reasons] == [True, True, True, False, False]
    assert "not tried" in reasons[-1]


def test_code_that_waits_for_nothing_that_is_recorded_stalls(database, clock):
    park(database, clock, define(old_code))

    async def new_code(n: int = 1) -> None:
        await charge(n)
        await asyncio.Event().wait()

    assert judge(database, clock, new_code).verdict == "stalls"


def test_one_damaged_history_does_not_take_the_others_down(database, clock):
    first, _ = park(database, clock, define(old_code), count=2)
    execute(
        database, "UPDATE holdfast.event SET data = :data WHERE run_id = :run", data=b"{", run=first
    )
    with Engine(database, clock=clock, work=False) as engine, pytest.raises(DoesNotFit) as raised:
        replay(engine, define(old_code))

    report = raised.value.report
    assert report.judged == 2
    assert [item.run_id for item in report.objections] == [first]


def test_every_kind_of_wait_is_described(database, clock):
    @workflow
    async def parcel(n: int) -> int:
        await wait_signal("never")
        return n

    async def code(n: int = 1) -> None:
        wait = await create_wait("paid")
        assert wait.token
        emitted = patched("new")
        holdfast.streams.emit({"patched": emitted})
        await gather(
            sleep("1d"),
            gate("Ship it?"),
            holdfast.map(parcel, [1, 2]),
            parcel(3),
            charge(n),
        )

    with Engine(database, clock=clock, workflows=[define(code), parcel]) as engine:
        run = engine.start("order")
        wait_for(engine, run, "waiting")

    judgement = judge(database, clock, code)

    assert judgement.verdict == "waits"
    assert [text.partition(",")[0].partition(" 0")[0] for text in judgement.next] == [
        "timer of 1d",
        "gate 'Ship it?'",
        "2 children parcel",
        "child",
    ]


def test_the_live_runs_of_other_workflows_are_named(database, clock):
    park(database, clock, define(old_code))

    @workflow(name="other")
    async def other() -> None: ...

    with Engine(database, clock=clock, work=False) as engine:
        report = replay(engine, other)

    assert (report.judged, report.others) == (0, ["order"])


def test_a_bound_engine_judges_its_namespace_alone(database, clock):
    flow = define(old_code)
    with Engine(database, clock=clock, workflows=[flow]) as engine:
        for namespace in ("a", "b"):
            wait_for(engine, engine.start(flow, namespace=namespace), "waiting")

    with Engine(database, clock=clock, work=False, namespace="a") as engine:
        report = replay(engine, flow)

    assert report.judged == 1
    assert report.others == []


def test_a_finished_run_ends_as_it_did(database, clock, tmp_path):
    flow = define(old_code)
    with Engine(database, clock=clock, workflows=[flow]) as engine:
        run = engine.start(flow)
        run.signal("go")
        run.result(timeout=30)
        engine.database.export(run.id, tmp_path / "order.db")
        (group,) = replay(run, flow).groups.values()
    calls.clear()

    report = replay(tmp_path / "order.db", flow)

    assert group.verdict == "ends"
    assert group.first[0].next == ["completed"]
    assert [group.verdict for group in report.groups.values()] == ["ends"]
    assert calls == []


def test_an_exported_run_is_replayed_from_its_sealed_file(database, clock, tmp_path):
    (run_id,) = park(database, clock, define(old_code))
    file = tmp_path / "order.db"
    with Engine(database, clock=clock, work=False) as engine:
        engine.database.export(run_id, file)
    before = file.read_bytes()

    report = replay(file, define(old_code))

    assert [group.verdict for group in report.groups.values()] == ["waits"]
    assert file.read_bytes() == before

    async def new_code(n: int = 1) -> None: ...

    with pytest.raises(DoesNotFit, match=f"run {run_id} of order diverges"):
        replay(file, define(new_code))


def test_a_file_that_is_not_there_and_code_without_workflows_are_refused(tmp_path):
    with pytest.raises(BadOption, match="there is no such file"):
        replay(tmp_path / "none.db", define(old_code))
    with pytest.raises(BadOption, match="a module with workflows"):
        replay(tmp_path / "none.db", threading)


def test_encrypted_histories_need_their_key(database, clock):
    codec = Encrypted({"k1": bytes(32)}, current="k1")
    park(database, clock, define(old_code), codec=codec)

    with Engine(database, clock=clock, work=False, codec=codec) as engine:
        (group,) = replay(engine, define(old_code)).groups.values()
    with (
        Engine(database, clock=clock, work=False, read_only_values=True) as engine,
        pytest.raises(DoesNotFit) as raised,
    ):
        replay(engine, define(old_code))

    assert group.verdict == "waits"
    (judgement,) = raised.value.report.objections
    assert judgement.verdict == "unreadable"
    assert "KeyMissing" in judgement.why

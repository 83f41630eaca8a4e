"""Values of any size: small ones stay where they are, large ones are kept apart, once, and nobody
waits for them in vain."""

from __future__ import annotations

import os
import random
import threading
import zlib

import pytest

import holdfast
from holdfast import AsyncEngine, Engine, Fail, gather, map, step, wait_signal, workflow
from holdfast.codecs import Compressed
from holdfast.connect.open_store import open_store
from holdfast.core.envelope import head as sealed_head
from holdfast.core.payload import Payload
from holdfast.errors import BadData, BadOption, RunExists, RunFailed
from holdfast.payloads.sealer import PayloadSealer
from holdfast.testing import internals
from tests.engine.databases import connect, execute
from tests.engine.waiting import wait_for

LARGE = 100_000


def noise(size: int, seed: int = 0) -> str:
    """Text that compression hardly makes smaller."""
    return random.Random(seed).randbytes(size // 2).hex()


@step
async def produce(size: int, seed: int = 0) -> str:
    return noise(size, seed)


@step
def measure(text: str) -> int:
    return len(text)


@step(transactional=True)
def produce_within(size: int) -> str:
    return noise(size)


@step
async def fail_at_length(size: int) -> None:
    raise Fail("no " * size)


@workflow(name="payloads.echo")
async def echo(text: str) -> str:
    return text


@workflow(name="payloads.producing")
async def producing(size: int) -> int:
    return await measure(await produce(size))


@workflow(name="payloads.listening")
async def listening() -> int:
    return len(await wait_signal("text"))


@workflow(name="payloads.mapping")
async def mapping(sizes: list[int]) -> list[int]:
    return [len(text) for text in await map(producing_text, sizes)]


@workflow(name="payloads.producing_text")
async def producing_text(size: int) -> str:
    return await produce(size)


@workflow(name="payloads.calling")
async def calling(text: str) -> str:
    return await (await holdfast.start(echo, text)).result()


@workflow(name="payloads.transacting")
async def transacting(size: int) -> int:
    return len(await produce_within(size))


@workflow(name="payloads.failing")
async def failing(size: int) -> None:
    await fail_at_length(size)


@workflow(name="payloads.plainly")
def plainly(size: int) -> int:
    return len(produce_plainly(size))


@step
def produce_plainly(size: int) -> str:
    return noise(size)


def payloads(engine) -> int:
    return internals(engine).store.payloads.totals()["payloads"]


def test_a_small_value_stays_where_it_is(engine):
    assert engine.start(echo, "x" * 60_000).result(timeout=20) == "x" * 60_000
    assert payloads(engine) == 0


def test_a_large_value_is_kept_apart_and_comes_back(engine):
    text = noise(LARGE)
    run = engine.start(echo, text)

    assert run.result(timeout=20) == text
    assert payloads(engine) == 2  # the input is a list with the text in it, the result is the text
    assert (run.record.input, run.record.result) == ([text], text)


def test_the_same_large_value_is_kept_once(engine):
    runs = [engine.start(producing_text, LARGE) for _ in range(5)]

    assert {run.result(timeout=30) for run in runs} == {noise(LARGE)}
    assert payloads(engine) == 1  # the step's results and the runs' results are all the same


def test_ten_megabytes_pass(engine):
    text = noise(10_000_000)

    assert engine.start(echo, text).result(timeout=60) == text


def test_large_step_results_survive_a_restart(database):
    with Engine(database) as engine:
        run = engine.start(gathering, 3)
        wait_for(engine, run, "waiting")
    with Engine(database) as engine:
        engine.signal(run.id, "text", noise(LARGE, 9))
        assert engine.run(run.id).result(timeout=20) == [LARGE] * 3 + [LARGE]
        assert engine.database.check() == []


@workflow(name="payloads.gathering")
async def gathering(count: int) -> list[int]:
    texts = await gather(*(produce(LARGE, seed) for seed in range(count)))
    return [len(text) for text in [*texts, await wait_signal("text")]]


@pytest.mark.parametrize(
    ("flow", "argument", "result"),
    [
        (producing, LARGE, LARGE),
        (mapping, [LARGE, 10, LARGE], [LARGE, 10, LARGE]),
        (calling, noise(LARGE), noise(LARGE)),
        (plainly, LARGE, LARGE),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_large_values_pass_wherever_values_pass(engine, flow, argument, result):
    assert engine.start(flow, argument).result(timeout=30) == result


@pytest.mark.sqlite_only
def test_a_transactional_step_may_return_a_large_value(engine):
    assert engine.start(transacting, LARGE).result(timeout=30) == LARGE
    assert payloads(engine) == 1


def test_a_large_signal_passes_before_and_while_somebody_waits(engine):
    first, second = engine.start(listening), engine.start(listening, delay="1h")
    engine.signal(first.id, "text", noise(LARGE))
    engine.signal(second.id, "text", noise(LARGE))

    assert first.result(timeout=20) == LARGE
    assert payloads(engine) == 1


def test_a_large_error_is_told_in_full(engine):
    with pytest.raises(RunFailed) as caught:
        engine.start(failing, LARGE).result(timeout=20)

    assert caught.value.error["message"].count("no") >= LARGE


def test_lists_do_not_load_what_is_kept_apart(engine):
    run = engine.start(echo, noise(LARGE))
    run.result(timeout=20)
    (listed,) = list(engine.runs())

    assert listed.input == f"<{LARGE + 4} bytes, kept apart>"
    assert listed.result == f"<{LARGE + 2} bytes, kept apart>"


def test_the_same_key_with_the_same_large_input_is_the_same_run(engine):
    text = noise(LARGE)
    first = engine.start(echo, text, key="k")

    assert engine.start(echo, text, key="k").id == first.id
    with pytest.raises(RunExists):
        engine.start(echo, text + "!", key="k")
    with pytest.raises(RunExists):
        engine.start(echo, "small", key="k")


def test_an_input_is_the_same_whatever_the_size_from_which_values_are_kept_apart(database):
    with Engine(database) as engine:
        first = engine.start(echo, "x" * 5000, id="one")
    with Engine(database, inline_limit=100) as engine:
        assert engine.start(echo, "x" * 5000, id="one").id == first.id
        engine.start(echo, "y" * 5000, id="two")
        assert payloads(engine) >= 1
    with Engine(database) as engine:
        assert engine.start(echo, "y" * 5000, id="two").id == "two"
        with pytest.raises(RunExists):
            engine.start(echo, "z" * 5000, id="two")
    with Engine(database, codec=Compressed(over=10)) as engine:
        assert engine.start(echo, "y" * 5000, id="two").result(timeout=20) == "y" * 5000


def test_runs_started_in_the_callers_transaction_bring_large_inputs(engine, database):
    connection = connect(database)
    run = engine.start(echo, noise(LARGE), connection=connection)
    connection.commit()
    connection.close()

    assert run.result(timeout=20) == noise(LARGE)


def test_a_fork_outlives_its_original(engine):
    run = engine.start(producing, LARGE)
    run.result(timeout=20)
    fork = engine.fork(run.id, from_step="measure")
    assert fork.result(timeout=20) == LARGE
    internals(engine).writer.call(_prune_only(engine, run.id))

    assert engine.run(fork.id).history()[0].kind == "step_completed"
    assert len(engine.run(fork.id).history()[0].data) == LARGE


def _prune_only(engine, run_id):
    from holdfast.store.runs.operations import Prune

    after = max((run.id for run in engine.runs() if run.id < run_id), default="")
    return Prune(internals(engine).store.now() + 1, ["completed"], limit=1, after=after)


def test_pruning_takes_the_payloads_along(engine):
    for seed in range(3):
        engine.start(producing, LARGE + 2 * seed).result(timeout=20)
    assert payloads(engine) == 3

    assert engine.retention.prune(0) == 3
    assert payloads(engine) == 0


def test_a_payload_in_use_is_never_pruned(engine):
    """Runs with one and the same large value come and go while others are pruned all the time."""
    text, trouble = noise(LARGE), []
    done = threading.Event()

    def prune():
        try:
            while not done.is_set():
                engine.retention.prune(0)
        except Exception as error:
            trouble.append(error)

    pruner = threading.Thread(target=prune)
    pruner.start()
    try:
        waiting = engine.start(listening)
        engine.signal(waiting.id, "other", text)
        for _ in range(15):
            engine.start(producing, LARGE)
    finally:
        done.set()
        pruner.join()

    assert trouble == []
    assert engine.database.check() == []
    assert (
        len(
            internals(engine)
            .sealer.opener.signals(waiting.id, internals(engine).store.signals.of_run(waiting.id))[
                0
            ]
            .payload
        )
        == LARGE + 2
    )


def test_a_damaged_payload_is_told_and_never_taken_for_the_value(engine, database):
    run = engine.start(echo, noise(LARGE))
    run.result(timeout=20)
    execute(
        database,
        "UPDATE holdfast.payload_part SET data = :data WHERE part = 0",
        data=os.urandom(1000),
    )

    with pytest.raises(BadData):
        run.result(timeout=20)
    assert len(engine.database.check_payloads().damaged) == 2
    execute(database, "UPDATE holdfast.payload SET stored = 1000, parts = 1")


def test_compressed_values_come_back(database):
    with Engine(database, codec=Compressed(over=100)) as engine:
        run = engine.start(echo, "ab" * 5000)
        assert run.result(timeout=20) == "ab" * 5000
        (stored,) = execute(database, "SELECT input FROM holdfast.run")
        assert len(bytes(stored[0])) < 200
        assert engine.runs().first().input == ["ab" * 5000]
    with Engine(database) as engine:
        assert engine.run(run.id).result(timeout=20) == "ab" * 5000


def test_an_async_engine_does_the_same(database):
    import asyncio

    async def go():
        async with AsyncEngine(database) as engine:
            run = await engine.start(producing_text, LARGE)
            assert await run.result(timeout=20) == noise(LARGE)
            assert (await run.history())[0].data == noise(LARGE)
            run = await engine.start(listening)
            await run.signal("text", noise(1_000_000))
            assert await run.result(timeout=20) == 1_000_000

    asyncio.run(go())


@pytest.mark.sqlite_only
@pytest.mark.parametrize("codec", ["zip", 7, Compressed])
def test_what_is_no_codec_is_refused(database, codec):
    with pytest.raises(BadOption, match="codec"):
        Engine(database, codec=codec)
    assert not os.path.exists(database)


@pytest.mark.sqlite_only
@pytest.mark.parametrize("inline_limit", [-1, "64kB", True])
def test_a_size_that_makes_no_sense_is_refused(database, inline_limit):
    with pytest.raises(BadOption, match="inline_limit"):
        Engine(database, inline_limit=inline_limit)


@pytest.mark.parametrize(
    "options", [{"over": -1}, {"over": "1"}, {"level": 0}, {"level": 10}, {"codec": 3}]
)
def test_compression_that_makes_no_sense_is_refused(options):
    with pytest.raises(BadOption):
        Compressed(**options)


@pytest.mark.sqlite_only
def test_bytes_that_begin_like_a_sealed_value_come_back_as_they_were(database):
    class Odd:
        name = "odd"

        def encode(self, value, label="value"):
            return b"\x00" + holdfast.core.codec.JsonCodec().encode(value, label)

        def decode(self, data, type=None, label="value"):
            assert data[:1] == b"\x00"
            return holdfast.core.codec.JsonCodec().decode(data[1:])

    with Engine(database, codec=Odd()) as engine:
        assert engine.start(echo, "odd").result(timeout=20) == "odd"


def test_leases_see_large_values_and_bring_them(database):
    text = noise(LARGE)
    engine = Engine(database)
    run = engine.start("payloads.render", text)
    with engine.tasks.worker("renderer", workflows=["payloads.render"]) as leases:
        (lease,) = leases.claim(1, wait="5s")
        assert lease.input == text
        assert lease.complete(text + "!").status == "completed"
        assert (
            lease.complete(text + "!").status == "completed"
        )  # the same call again is answered the same
    assert run.result(timeout=60) == text + "!"
    other = engine.start("payloads.render", 1)
    engine.tasks.override(other.id, "done by hand", result=text)
    assert other.result(timeout=60) == text
    assert (payloads(engine), engine.database.check()) == (3, [])
    engine.close()


def test_a_small_value_that_opens_to_a_huge_one_is_refused(tmp_path):
    squeezer = zlib.compressobj(9)
    bomb = b"".join(squeezer.compress(bytes(1024 * 1024)) for _ in range(65)) + squeezer.flush()
    store = open_store(tmp_path / "test.db")
    value = sealed_head("", b"z") + bomb

    with pytest.raises(BadData, match="would decompress to more than"):
        PayloadSealer(store).values.open(value, "a value", b"")
    with pytest.raises(BadData, match="would decompress to more than"):
        PayloadSealer(store).values.content(Payload(bytes(32), "", "z", 10, [bomb]))
    with pytest.raises(BadData, match="incomplete"):
        PayloadSealer(store).values.open(
            sealed_head("", b"z") + zlib.compress(b"1" * 100)[:-4], "a value", b""
        )
    store.close()

"""Large and encrypted values, killed before and after each commit: what a run refers to is always
there, and nothing else is."""

from __future__ import annotations

import random
from contextlib import closing
from functools import partial

import pytest

import holdfast
from holdfast import Engine, gather, map, sleep, start, step, wait_signal, workflow
from holdfast.codecs import Encrypted
from holdfast.connect.open_store import open_store
from holdfast.core.status import FINAL
from holdfast.service.copy import copy_store
from holdfast.store.keys.operations import ResealKey
from holdfast.store.payloads.operations import CopyPayloads, Reseal
from holdfast.store.retention.operations import Forget
from holdfast.store.runs.operations import Prune
from holdfast.store.subscriptions.operations import ResealWebhook
from holdfast.testing import crash_everywhere, internals
from holdfast.testing.clock import VirtualClock

SIZE = 3000
SECRET = b"a secret of 16 bytes or more"
KEYS = {"k1": b"1" * 32, "k2": b"2" * 32}
ENGINES = {
    "plain": {"inline_limit": 1000},
    "encrypted": {"inline_limit": 1000, "codec": Encrypted(KEYS, "k1")},
}
ENDED = sorted(status.value for status in FINAL)


def noise(size: int, seed: int) -> str:
    return random.Random(seed).randbytes(size // 2).hex()


@step
async def produce(seed: int) -> str:
    return noise(SIZE, seed)


@step
def produce_plainly(seed: int) -> str:
    return noise(SIZE, seed)


@step(transactional=True)
def produce_within(seed: int) -> str:
    return noise(SIZE, seed)


@workflow(name="crash_payloads.produces")
async def produces(text: str) -> str:
    first = await produce(1)
    texts = await gather(produce(1), produce(2))
    await sleep("1h")
    return first + text + "".join(texts) + await wait_signal("more")


@workflow(name="crash_payloads.produces_plainly")
def produces_plainly(text: str) -> str:
    return text + produce_plainly(1) + produce_plainly(1)


@workflow(name="crash_payloads.child_of_it")
async def child_of_it(text: str) -> str:
    return text + await produce(3)


@workflow(name="crash_payloads.has_children")
async def has_children(text: str) -> int:
    one = await (await start(child_of_it, text)).result()
    return len(one) + sum(len(text) for text in await map(child_of_it, [text, one]))


@workflow(name="crash_payloads.transacts")
async def transacts() -> int:
    return len(await produce_within(1)) + len(await produce(2))


def is_sound(lab) -> None:
    """Every payload is what its digest says, and is as often there as it is referred to: the laws
    are checked anyway."""
    found = lab.engine.database.check_payloads()
    assert (found.damaged, found.unreadable) == ([], {})
    assert found.payloads > 0


everywhere = partial(crash_everywhere, check=is_sound, doubles=3)


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
@pytest.mark.parametrize(
    ("flow", "args", "signals"),
    [
        (produces, (noise(SIZE, 7),), [("more", noise(SIZE, 8))]),
        (produces_plainly, (noise(SIZE, 7),), []),
        (has_children, (noise(SIZE, 7),), []),
        (transacts, (), []),
    ],
    ids=["steps and signals", "plain functions", "children", "transactional"],
)
def test_large_values_survive_a_crash_anywhere(engine, flow, args, signals):
    everywhere(flow, *args, signals=signals, engine=engine)


class Dies(Exception):
    """The process dies here."""


class Mortal:
    """A store that dies before, or after, a commit of its own choosing that is about these
    transitions."""

    def __init__(self, store, kinds, at, *, after):
        self._store, self._kinds, self._left, self._after = store, kinds, at, after

    def __getattr__(self, name):
        return getattr(self._store, name)

    def apply(self, batch):
        counts = any(isinstance(op, self._kinds) for op in batch)
        self._left -= counts
        if counts and self._left < 0 and not self._after:
            raise Dies
        answers = self._store.apply(batch)
        if counts and self._left < 0:
            raise Dies
        return answers


@pytest.fixture(params=["sqlite", "postgres"])
def database(request, tmp_path):
    if request.param == "sqlite":
        yield str(tmp_path / "crash.db")
        return
    with request.getfixturevalue("postgres_server").lend() as url:
        yield url


def fill(database, clock, codec=None, runs=3):
    """Leave finished runs that share payloads, and one that lives and shares them too."""
    with Engine(
        database, clock=clock, codec=codec, inline_limit=1000, session_ttl="36500d", poll="1h"
    ) as engine:
        text = noise(SIZE, 7)
        ids = [engine.start(child_of_it, text) for _ in range(runs)]
        results = {run.id: run.result(timeout=30) for run in ids}
        live = engine.start(child_of_it, text, delay="1000d")
        engine.keys.rotate(kid="sign", secret=SECRET)
        engine.webhooks.set("hook", "https://example.org/hook", secret=SECRET.decode())
        clock.advance("1d")
        return results, live.id


def open_again(database, clock, codec=None):
    return Engine(database, clock=clock, codec=codec, inline_limit=1000)


def die_and_repeat(database, clock, codec, kinds, act, check):
    """Do something, dying at each of its commits in turn, before it and after it, and see each time
    that all is sound and that doing it again comes to its end."""
    for after in (False, True):
        for at in range(100):
            with closing(open_again(database, clock, codec)) as engine:
                real = internals(engine).store
                mortal = Mortal(real, kinds, at, after=after)
                internals(engine).store = internals(engine).writer.store = mortal
                died = False
                try:
                    act(engine)
                except Dies:
                    died = True
                internals(engine).store = real
                assert engine.database.check() == []
                assert engine.database.check_payloads().damaged == []
                check(engine)
            if not died:
                break
        else:
            raise AssertionError("it never came to its end")


def test_pruning_shared_payloads(database):
    clock = VirtualClock()
    _, live = fill(database, clock)

    def check(engine):
        assert len(engine.run(live).record.input[0]) == SIZE

    die_and_repeat(
        database, clock, None, (Prune,), lambda engine: engine.retention.prune("1h", batch=1), check
    )
    engine = open_again(database, clock)
    assert [run.id for run in engine.runs()] == [live]
    assert internals(engine).store.payloads.totals()["payloads"] == 1
    engine.close()


def test_retention_of_runs_and_of_their_histories(database):
    clock = VirtualClock()
    results, live = fill(database, clock)
    engine = open_again(database, clock)
    engine.retention.set("thin", target="events", older_than="1h")
    engine.close()

    def check(engine):
        for run_id, result in results.items():
            assert engine.run(run_id).result(timeout=60) == result
        assert engine.run(live).status == "pending"

    die_and_repeat(database, clock, None, (Forget,), lambda engine: engine.retention.apply(), check)


@pytest.mark.parametrize("was", [None, "k1"], ids=["from plain", "from another key"])
def test_rekeying(database, was):
    clock = VirtualClock()
    results, live = fill(database, clock, None if was is None else Encrypted(KEYS, was))
    codec = Encrypted(KEYS, "k2")

    def check(engine):
        for run_id, result in results.items():
            assert engine.run(run_id).result(timeout=60) == result
        assert len(engine.run(live).record.input[0]) == SIZE
        assert [
            internals(engine).sealer.secrets.reveal(key)
            for key in internals(engine).store.keys.all()
        ] == [SECRET]
        assert engine.webhooks.set("hook", "https://example.org/hook") == SECRET.decode()

    die_and_repeat(
        database,
        clock,
        codec,
        (Reseal, ResealKey, ResealWebhook),
        lambda engine: engine.keys.rekey(),
        check,
    )
    engine = open_again(database, clock, codec)
    assert engine.keys.rekey().values == 0
    assert internals(engine).store.payloads.keys_in_use().keys() == {"k2"}
    engine.close()


def test_copying_takes_the_payloads_along_and_begins_anew_after_a_crash(database, tmp_path):
    clock = VirtualClock()
    results, _ = fill(database, clock)
    source = open_store(database, clock=clock)
    target = str(tmp_path / "copy.db")

    def open_target(at, *, after):
        return lambda: Mortal(
            open_store(target, clock=clock, half_copied=True), (CopyPayloads,), at, after=after
        )

    for after in (False, True):
        with pytest.raises(Dies):
            copy_store(source, open_target(0, after=after))
        with pytest.raises(holdfast.errors.StoreHalfCopied):
            open_store(target, clock=clock)
    moved = copy_store(source, open_target(100, after=False))
    source.close()
    assert moved.same and moved.source.payloads == 3
    engine = open_again(target, clock)
    assert engine.run(next(iter(results))).result(timeout=60) in results.values()
    assert engine.database.check() == []
    assert engine.database.check_payloads().payloads == 3
    engine.close()


def test_an_export_takes_along_what_its_runs_refer_to(database, tmp_path):
    clock = VirtualClock()
    results, _ = fill(database, clock, Encrypted(KEYS, "k1"))
    engine = open_again(database, clock, Encrypted(KEYS, "k1"))
    run_id, told = next(iter(results)), []
    assert engine.database.export(run_id, tmp_path / "one.db", progress=told.append) == 1
    engine.close()
    assert told == [1]
    with pytest.raises(holdfast.errors.CodecMismatch):
        Engine(tmp_path / "one.db")
    other = open_again(tmp_path / "one.db", clock, Encrypted(KEYS, "k1"))
    assert other.run(run_id).result(timeout=60) == results[run_id]
    assert (other.database.check(), other.database.check_payloads().payloads) == ([], 3)
    other.close()

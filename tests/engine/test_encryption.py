"""Encrypted data: nothing of it is readable without its key, keys rotate, and one that is missing
loses nothing."""

from __future__ import annotations

import base64
import logging

import pytest

from holdfast import Engine, Fail, step, wait_signal, workflow
from holdfast.codecs import Compressed, Encrypted
from holdfast.core import associated_data
from holdfast.engine.maintenance import retention
from holdfast.errors import BadData, BadOption, CodecMismatch, KeyMissing, RunFailed
from holdfast.streams import emit, null, progress, stream
from holdfast.testing import internals
from holdfast.versions import version
from tests.engine.databases import connect, execute
from tests.engine.waiting import wait_for

K1, K2, K3 = b"1" * 32, b"2" * 32, b"3" * 32
SECRET = "the crown jewels"
TABLES = {
    "run": "input, result, error, waits",
    "event": "data, error",
    "signal": "payload",
    "payload_part": "data",
    "frame": "data, nulls",
    "stream": "summary",
    "output": "message",
}


def k1(**options):
    return Encrypted({"k1": K1}, "k1", **options)


def k2(**options):
    return Encrypted({"k1": K1, "k2": K2}, "k2", **options)


@step
async def tell(text: str) -> str:
    return text + "!"


@step
async def refuse(text: str) -> str:
    raise Fail(text)


@step
async def show(text: str) -> None:
    emit(text)
    stream().write(text.encode())
    stream("summary").patch({"text": text, text: null})
    progress(50, text)


@workflow(name="encryption.showing")
async def showing(text: str) -> None:
    await show(text)
    stream("summary").patch({"said": text})
    await wait_signal("more")
    stream("summary").patch({"more": text})


@workflow(name="encryption.keeping")
async def keeping(text: str) -> str:
    version("change", 1)
    reply = await tell(text)
    return reply + await wait_signal("more")


@workflow(name="encryption.refusing")
async def refusing(text: str) -> str:
    return await refuse(text)


@workflow(name="encryption.gathered")
async def gathered_secrets(texts: list[str]) -> list[str]:
    return texts


@workflow(name="encryption.parent")
async def parent(text: str) -> str:
    from holdfast import map, start

    child_result = await (await start(whisper, text)).result()
    return child_result + "".join(await map(whisper, [text, text]))


class NoKeyInTheDoor(Exception):
    """Named ``KeyMissing`` below, like the error of Holdfast that is stored in clear."""


NoKeyInTheDoor.__name__ = "KeyMissing"


@step(retries=0)
async def lock_out(text: str) -> None:
    raise NoKeyInTheDoor(text)


@workflow(name="encryption.locked_out")
async def locked_out(text: str, within: bool) -> None:
    if within:
        await lock_out(text)
    raise NoKeyInTheDoor(text)


@workflow(name="encryption.telling")
async def telling(text: str) -> object:
    return {"type": "KeyMissing", "message": text}


@workflow(name="encryption.whisper")
async def whisper(text: str) -> str:
    return text


def stored(database) -> bytes:
    """All that the database holds in columns for data, as one piece."""
    found = b""
    for table, columns in TABLES.items():
        for row in execute(database, f"SELECT {columns} FROM holdfast.{table}"):
            found += b"".join(
                value.encode() if isinstance(value, str) else bytes(value)
                for value in row
                if value is not None
            )
    return found


@pytest.mark.parametrize("size", [1, 10_000], ids=["small", "large"])
def test_nothing_is_readable_in_the_database(database, size):
    text = SECRET * size
    with Engine(database, codec=k1(codec=Compressed())) as engine:
        run = engine.start(keeping, text)
        run.signal("more", text)
        assert run.result(timeout=30) == text + "!" + text
        assert engine.start(parent, text).result(timeout=30) == text * 3
        with pytest.raises(RunFailed, match="crown"):
            engine.start(refusing, text).result(timeout=30)
        assert engine.database.check() == []
        assert internals(engine).store.payloads.keys_in_use().keys() == {"k1"}
    content = stored(database)
    assert b"crown" not in content
    assert base64.b64encode(b"crown")[:6] not in content


def test_output_is_sealed_read_and_put_under_another_key(database):
    with Engine(database, codec=k1()) as engine:
        run = engine.start(showing, SECRET)
        wait_for(engine, run, "waiting")
    assert b"crown" not in stored(database)
    with Engine(database, codec=k2()) as engine:
        engine.signal(run.id, "more")
        engine.run(run.id).result(timeout=20)
        values = [frame.value for frame in engine.streams.read(run.id)]
        assert values == [
            SECRET,
            SECRET.encode(),
            {"text": SECRET, SECRET: None},
            {"said": SECRET},
            {"more": SECRET},
        ]
        assert engine.streams.summary(run.id) == {"said": SECRET, "more": SECRET}
        assert engine.streams.summary(run.id, step="show") == {"text": SECRET, SECRET: None}
        assert engine.streams.progress(run.id).message == SECRET
        assert internals(engine).store.payloads.keys_in_use().keys() == {"k1", "k2"}
        assert engine.keys.rekey().unreadable == {}
        assert internals(engine).store.payloads.keys_in_use().keys() == {"k2"}
        assert [frame.value for frame in engine.streams.read(run.id)] == values
        assert (
            engine.streams.progress(run.id).message,
            engine.keys.rekey().values,
            engine.database.check(),
        ) == (
            SECRET,
            0,
            [],
        )
    assert b"crown" not in stored(database)
    with Engine(database, codec=k1()) as engine:
        for read in (engine.streams.read, engine.streams.summary):
            with pytest.raises(KeyMissing, match="k2"):
                read(run.id)
        assert (
            engine.streams.progress(run.id).message
            == "<encrypted with key k2, which is not known here>"
        )


def test_output_that_was_put_out_in_clear_is_put_under_a_key(database):
    with Engine(database) as engine:
        run = engine.start(showing, SECRET)
        run.signal("more")
        run.result(timeout=20)
        values = [frame.value for frame in engine.streams.read(run.id)]
    with Engine(database, codec=k1()) as engine:
        assert [frame.value for frame in engine.streams.read(run.id)] == values
        engine.keys.rekey()
        assert [frame.value for frame in engine.streams.read(run.id)] == values
    assert b"crown" not in stored(database)


def test_runs_go_on_after_a_restart(database):
    with Engine(database, codec=k1()) as engine:
        run = engine.start(keeping, SECRET)
        wait_for(engine, run, "waiting")
    with Engine(database, codec=k1()) as engine:
        engine.signal(run.id, "more", "?")
        assert engine.run(run.id).result(timeout=20) == SECRET + "!?"
        assert [event.kind for event in engine.run(run.id).history()].count("marked") == 1


def test_an_engine_without_keys_is_refused(database):
    with Engine(database, codec=k1()):
        pass
    with pytest.raises(CodecMismatch, match="encrypted"):
        Engine(database)


def test_the_same_input_is_recognised_though_it_never_looks_the_same(database):
    with Engine(database, codec=k1()) as engine:
        first = engine.start(keeping, SECRET, key="once")
        assert engine.start(keeping, SECRET, key="once").id == first.id
    with Engine(database, codec=k2()) as engine:
        assert engine.start(keeping, SECRET, key="once").id == first.id


def test_old_data_is_readable_while_its_key_is_known(database):
    with Engine(database, codec=k1()) as engine:
        run = engine.start(whisper, SECRET)
        assert run.result(timeout=20) == SECRET
    with Engine(database, codec=k2()) as engine:
        assert engine.run(run.id).result(timeout=20) == SECRET
        engine.start(whisper, SECRET).result(timeout=20)
        assert internals(engine).store.payloads.keys_in_use().keys() == {"k1", "k2"}


def test_a_missing_key_is_named_and_loses_nothing(database):
    with Engine(database, codec=k1()) as engine:
        run = engine.start(keeping, SECRET)
        wait_for(engine, run, "waiting")
        done = engine.start(whisper, SECRET)
        done.result(timeout=20)
    with Engine(database, codec=Encrypted({"k2": K2}, "k2")) as engine:
        engine.signal(run.id, "more", "?")
        wait_for(engine, engine.run(run.id), "stuck")
        why = engine.why(run.id)
        assert "key k1" in why.reason
        with pytest.raises(KeyMissing, match="k1") as caught:
            engine.run(done.id).result(timeout=20)
        assert done.id in str(caught.value)
        with pytest.raises(KeyMissing):
            engine.run(run.id).history()
        assert {listed_run.status for listed_run in engine.runs()} == {"stuck", "completed"}
        unread = "<encrypted with key k1, which is not known here>"
        assert engine.run(run.id).record.input == unread
        assert {listed_run.input for listed_run in engine.runs()} == {unread}
    with Engine(database, codec=k2()) as engine:  # the key is back: it goes on by itself
        assert engine.run(run.id).result(timeout=20) == SECRET + "!?"
        assert engine.database.check() == []


def test_a_summary_whose_key_is_missing_does_not_fail_its_run(database):
    with Engine(database, codec=k1()) as engine:
        run = engine.start(showing, SECRET)
        wait_for(engine, run, "waiting")
    with Engine(database, codec=k2()) as engine:
        (made,) = [
            each_stream
            for each_stream in internals(engine).store.streams.of_run(run.id)
            if each_stream.step == ""
        ]
        summary = internals(engine).sealer.values.seal_inline(
            b'{"said":"nothing"}', associated_data.summary(run.id, made.source)
        )
        execute(
            database,
            "UPDATE holdfast.stream SET summary = :summary WHERE step = '' AND summary IS NOT NULL",
            summary=summary,
        )
    with Engine(database, codec=k1()) as engine:
        engine.signal(run.id, "more", "?")
        wait_for(engine, engine.run(run.id), "stuck")
        assert "key k2" in engine.why(run.id).reason
    with Engine(database, codec=k2()) as engine:
        engine.run(run.id).result(timeout=20)
        assert engine.database.check() == []


def test_a_worker_that_learns_a_key_later_goes_on_with_what_waited_for_it(database):
    known = {"k2": K2}
    with Engine(database, codec=k1()) as engine:
        run = engine.start(keeping, SECRET)
        wait_for(engine, run, "waiting")
    with Engine(database, codec=Encrypted(known.get, "k2"), retention_interval="50ms") as engine:
        engine.signal(run.id, "more", "?")
        wait_for(engine, engine.run(run.id), "stuck")
        known["k1"] = K1
        wait_for(engine, engine.run(run.id), "completed")


def test_rekeying_leaves_nothing_under_the_old_key(database):
    text = SECRET * 10_000
    with Engine(database) as engine:
        plain = engine.start(whisper, text)
        plain.result(timeout=20)
    with Engine(database, codec=k1()) as engine:
        waiting = engine.start(keeping, SECRET)
        engine.signal(waiting.id, "other", text)
        wait_for(engine, engine.run(waiting.id), "waiting")
        with pytest.raises(RunFailed):
            engine.start(refusing, SECRET).result(timeout=20)
        told: list[int] = []
        engine.keys.rekey(told.append)
        assert sum(told) == 3
        assert b"crown" not in stored(database)
    with Engine(database, codec=k2()) as engine:
        done = engine.keys.rekey()
        assert (done.runs, done.unreadable) == (3, {})
        assert internals(engine).store.payloads.keys_in_use().keys() == {"k2"}
        assert engine.keys.rekey().values == 0
        assert engine.database.check() == []
        assert engine.database.check_payloads().damaged == []
    with Engine(database, codec=Encrypted({"k2": K2}, "k2")) as engine:
        assert engine.run(plain.id).result(timeout=20) == text
        engine.signal(waiting.id, "more", "?")
        assert engine.run(waiting.id).result(timeout=20) == SECRET + "!?"


@pytest.mark.parametrize("within", [True, False], ids=["a step", "the workflow"])
def test_a_users_exception_that_is_called_key_missing_is_encrypted(database, within):
    with Engine(database, codec=k1()) as engine:
        with pytest.raises(RunFailed):
            engine.start(locked_out, SECRET, within).result(timeout=20)
        assert SECRET.encode() not in stored(database)


def test_rekeying_encrypts_values_and_errors_that_look_like_a_missing_key(database):
    with Engine(database) as engine:
        run = engine.start(telling, SECRET)
        result = run.result(timeout=20)
        with pytest.raises(RunFailed):
            engine.start(locked_out, SECRET, True).result(timeout=20)
        assert SECRET.encode() in stored(database)
    with Engine(database, codec=k1()) as engine:
        engine.keys.rekey()
        assert SECRET.encode() not in stored(database)
        assert engine.run(run.id).result(timeout=20) == result


def test_rekeying_leaves_a_stuck_run_its_reason(database):
    with Engine(database, codec=k1()) as engine:
        run = engine.start(keeping, SECRET)
        wait_for(engine, run, "waiting")
    with Engine(database, codec=Encrypted({"k2": K2}, "k2")) as engine:
        engine.signal(run.id, "more", "?")
        wait_for(engine, engine.run(run.id), "stuck")
        engine.keys.rekey()
        assert "key k1" in engine.why(run.id).reason
    with Engine(database, codec=k2()) as engine:
        assert engine.run(run.id).result(timeout=20) == SECRET + "!?"


def test_rekeying_goes_on_past_a_damaged_value_and_names_it(database):
    with Engine(database, codec=k1()) as engine:
        runs = [engine.start(whisper, SECRET) for _ in range(3)]
        for run in runs:
            run.result(timeout=20)
        (damaged, source, sound) = sorted(run.id for run in runs)
        (row,) = execute(database, "SELECT result FROM holdfast.run WHERE id = :id", id=source)
        execute(
            database,
            "UPDATE holdfast.run SET result = :moved WHERE id = :id",
            moved=bytes(row[0]),
            id=damaged,
        )
    with Engine(database, codec=k2()) as engine:
        done = engine.keys.rekey()
        assert len(done.damaged) == 1
        assert damaged in done.damaged[0]
        assert internals(engine).store.payloads.keys_in_use()["k1"] == 1
    with Engine(database, codec=Encrypted({"k2": K2}, "k2")) as engine:
        assert engine.run(sound).result(timeout=20) == SECRET


def test_runs_whose_key_is_known_are_found_behind_many_that_stay_stuck(database, monkeypatch):
    monkeypatch.setattr(retention, "UNLOCK", 2)
    with Engine(database, codec=k1()) as engine:
        first = engine.start(keeping, SECRET)
        wait_for(engine, first, "waiting")
    with Engine(database, codec=Encrypted({"k2": K2}, "k2")) as engine:
        others = [engine.start(keeping, SECRET) for _ in range(3)]
        for run in others:
            wait_for(engine, run, "waiting")
    with Engine(database, codec=Encrypted({"k3": K3}, "k3")) as engine:
        for run in (first, *others):
            engine.signal(run.id, "more", "?")
            wait_for(engine, engine.run(run.id), "stuck")
    with Engine(
        database, codec=Encrypted({"k1": K1, "k3": K3}, "k3"), retention_interval="50ms"
    ) as engine:
        wait_for(engine, engine.run(first.id), "completed")
        assert [engine.run(run.id).status for run in others] == ["stuck"] * 3


def test_rekeying_without_the_old_key_changes_nothing_and_says_so(database):
    with Engine(database, codec=k1()) as engine:
        engine.start(whisper, SECRET).result(timeout=20)
    with Engine(database, codec=Encrypted({"k2": K2}, "k2")) as engine:
        before = stored(database)
        done = engine.keys.rekey()
        assert done.unreadable.keys() == {"k1"}
        assert stored(database) == before


def test_rekeying_without_a_key_is_refused(engine):
    with pytest.raises(BadOption, match="current key"):
        engine.keys.rekey()


def test_the_wrong_key_under_the_right_id_is_told(database):
    with Engine(database, codec=k1()) as engine:
        run = engine.start(whisper, SECRET)
        run.result(timeout=20)
    with (
        Engine(database, codec=Encrypted({"k1": K2}, "k1")) as engine,
        pytest.raises(BadData, match="k1"),
    ):
        engine.run(run.id).result(timeout=20)


def test_data_that_was_tampered_with_is_told(database):
    with Engine(database, codec=k1()) as engine:
        run = engine.start(whisper, SECRET)
        run.result(timeout=20)
        (row,) = execute(database, "SELECT result FROM holdfast.run")
        bad = bytearray(bytes(row[0]))
        bad[-1] ^= 1
        execute(database, "UPDATE holdfast.run SET result = :bad", bad=bytes(bad))
        with pytest.raises(BadData, match="decrypted"):
            run.result(timeout=20)


@pytest.mark.parametrize(
    ("keys", "current"),
    [
        ({}, "k1"),
        ({"k1": b"tiny key"}, "k1"),
        ({"k1": "no base64!"}, "k1"),
        ({"k1": 7}, "k1"),
        ({"": K1}, ""),
        ({"a b": K1}, "a b"),
        ({"k" * 65: K1}, "k" * 65),
        ([K1], "k1"),
        ({"k1": K1, "k2": b"x" * 31}, "k1"),
        ({"k1": K1}, 1),
    ],
)
def test_keys_that_are_none_are_refused_and_never_shown(keys, current):
    with pytest.raises(BadOption) as caught:
        Encrypted(keys, current)
    assert "tiny" not in str(caught.value) and "no base64!" not in str(caught.value)


def test_a_current_key_that_is_not_there_is_refused():
    with pytest.raises(KeyMissing, match="k2"):
        Encrypted({"k1": K1}, "k2")
    with pytest.raises(KeyMissing, match="k2"):
        Encrypted(lambda key: None, "k2")


def test_encrypting_twice_is_refused():
    with pytest.raises(BadOption, match="once"):
        Encrypted({"k2": K2}, "k2", codec=k1())


def test_keys_come_from_the_environment(monkeypatch):
    one, two = base64.b64encode(K1).decode(), base64.b64encode(K2).decode()
    monkeypatch.setenv("HOLDFAST_KEYS", f"k2={two}, k1={one}")
    codec = Encrypted.from_environment()
    assert (codec.cipher.current, codec.cipher.knows("k1"), codec.cipher.knows("k3")) == (
        "k2",
        True,
        False,
    )
    monkeypatch.setenv("HOLDFAST_KEYS", "k2")
    with pytest.raises(BadOption, match="HOLDFAST_KEYS"):
        Encrypted.from_environment()


def test_no_key_is_in_a_repr_an_error_or_a_log(database, caplog):
    key = base64.b64encode(K1).decode()
    codec = Encrypted({"k1": key}, "k1")
    shown = [repr(codec), repr(codec.cipher), str(vars(Compressed(codec=codec)))]
    with caplog.at_level(logging.DEBUG), Engine(database, codec=codec) as engine:
        engine.start(whisper, SECRET).result(timeout=20)
        shown.append(repr(internals(engine).sealer))
    assert not any(key in text or "1" * 32 in text for text in [*shown, caplog.text])


def test_runs_started_in_the_callers_transaction_are_encrypted(database):
    with Engine(database, codec=k1()) as engine:
        connection = connect(database)
        run = engine.start(whisper, SECRET, connection=connection)
        connection.commit()
        connection.close()
        assert run.result(timeout=20) == SECRET
    assert b"crown" not in stored(database)


def test_what_is_gathered_is_encrypted_too(database):
    with Engine(database, codec=k1(), workflows=[gathered_secrets], shutdown_timeout=1) as engine:
        runs = [
            engine.start(gathered_secrets, f"{SECRET} {n}", key="k", batch=3, within="1h")
            for n in range(3)
        ]
        assert len({run.id for run in runs}) == 1
        assert runs[0].result(timeout=20) == [f"{SECRET} {n}" for n in range(3)]
        assert SECRET.encode() not in b"".join(
            bytes(row[0]) for row in execute(database, "SELECT input FROM holdfast.run")
        )
        late = engine.start(gathered_secrets, SECRET, key="k", batch=2, within="1h")
    with Engine(
        database, codec=k2(), workflows=[gathered_secrets], shutdown_timeout=1
    ) as engine:  # another key from here on
        assert engine.start(gathered_secrets, "more", key="k", batch=2, within="1h").id == late.id
        assert engine.run(late.id).result(timeout=20) == [SECRET, "more"]

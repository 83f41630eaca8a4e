"""An engine without keys that was open before its database became encrypted writes nothing in clear
any more."""

from __future__ import annotations

import threading

import pytest

from holdfast import Engine, Fail, step, wait_signal, workflow
from holdfast.engine.runtime.ids import new_id
from holdfast.errors import CodecMismatch, RunFailed
from holdfast.store.clear_values import CLEAR_VALUES
from holdfast.store.schedules.operations import FireSchedules
from holdfast.streams import emit
from holdfast.testing import internals
from tests.engine.test_encryption import SECRET, k1, keeping, stored, telling
from tests.engine.waiting import until, wait_for


def test_an_engine_without_keys_that_was_open_before_is_refused(database, caplog):
    """Nothing that it writes after the database became encrypted is in clear."""
    with Engine(database, shutdown_timeout=1) as before:
        run = before.start(keeping, "harmless")
        wait_for(before, run, "waiting")
        with Engine(database, codec=k1(), workflows=[]) as after:
            for write in (
                lambda: before.start(keeping, SECRET),
                lambda: before.start(keeping, SECRET * 10_000),
                lambda: before.start_many(keeping, [SECRET, SECRET]),
                lambda: before.signal(run.id, "more", SECRET),
                lambda: before.signal(run.id, "more", SECRET * 10_000),
            ):
                with pytest.raises(CodecMismatch, match="encrypted while it was open"):
                    write()
            assert [listed_run.id for listed_run in after.runs()] == [run.id]
            after.signal(run.id, "more", "x")
            until(lambda: "this worker stops: the database was encrypted" in caplog.text)
    with Engine(database, codec=k1()) as engine:
        assert engine.run(run.id).result(timeout=20) == "harmless!x"
        assert engine.database.check() == []
    assert b"crown" not in stored(database)


@pytest.mark.parametrize("what", ["step", "error", "result", "output"])
def test_a_worker_without_keys_writes_no_value_once_the_database_is_encrypted(database, what):
    reached, go_on = threading.Event(), threading.Event()

    @step(name="encryption.held_up", retries=0)
    def hold_up() -> str:
        reached.set()
        assert go_on.wait(20)
        if what == "error":
            raise Fail(SECRET)
        if what == "output":
            emit(SECRET)
        return SECRET

    @workflow(name="encryption.held")
    async def held() -> str:
        if what == "result":
            await wait_signal("go")
            return SECRET
        return await hold_up()

    with Engine(database, workflows=[held], shutdown_timeout=1) as before:
        run = before.start(held)
        if what == "result":
            wait_for(before, run, "waiting")
        else:
            assert reached.wait(20)
        with Engine(database, codec=k1(), workflows=[]) as after:
            go_on.set()
            if what == "result":
                after.signal(run.id, "go")
            until(lambda: internals(before).worker.stopping)
    assert b"crown" not in stored(database)
    with Engine(database, codec=k1(), workflows=[held]) as engine:
        if what == "error":
            with pytest.raises(RunFailed):
                engine.run(run.id).result(timeout=20)
        else:
            assert engine.run(run.id).result(timeout=20) == SECRET
        assert engine.database.check() == []


def test_what_is_legitimately_in_clear_is_accepted_in_an_encrypted_database(database, tmp_path):
    with Engine(tmp_path / "clear.db") as engine:
        old = engine.start(telling, "plain")
        old.result(timeout=20)
        with Engine(database, codec=k1()):
            pass
        engine.database.export(old.id, database)
    with Engine(database, codec=k1()) as engine:
        assert engine.run(old.id).result(timeout=20)["message"] == "plain"
        assert engine.fork(old.id).result(timeout=20)["message"] == "plain"
        engine.schedules.set("often", telling, interval="1h", args=["from a schedule"])
        assert (
            engine.run(engine.schedules.trigger("often").run).result(timeout=20)["message"]
            == "from a schedule"
        )
        assert engine.database.check() == []


def test_a_tick_that_a_draining_lane_skips_leaves_values_in_clear_refused(database, clock):
    with Engine(database, codec=k1(), clock=clock, work=False) as engine:
        engine.schedules.set("often", telling, interval="1h", args=["x"], lane="drained")
        engine.lanes.set("drained", draining=True)
        clock.advance(3601)
        store = internals(engine).store

        assert store.apply([FireSchedules(new_id)]) == [[]]

        assert engine.schedules.get("often").skipped == 1
        assert store.installation.setting(CLEAR_VALUES) is None

"""Messages and broadcasts between runs."""

from __future__ import annotations

import pytest

from holdfast import Engine
from holdfast.codecs import Encrypted
from holdfast.errors import BadOption, NoReceiver, NotEncodable
from tests.bpmn.models import flows, process_of
from tests.engine.databases import execute
from tests.engine.models.toy_models import toy
from tests.engine.waiting import until

ORDER = toy("order", ("wait", "paid", "number"))
ANY = toy("any", ("wait", "paid"))


def waiting(engine, name, variables=None):
    run = engine.start(name, variables or {})
    run.wait_until("waiting", timeout=60)
    return run


def rows(database, table):
    return execute(database, f"SELECT COUNT(*) FROM holdfast.{table}")[0][0]


def test_a_message_reaches_the_run_of_its_key(engine, database):
    engine.models.deploy(ORDER)
    first = waiting(engine, "order", {"number": 1})
    second = waiting(engine, "order", {"number": 2})

    sent = engine.models.message("paid", {"amount": 10}, key="2")

    assert (sent.effect, sent.run_id, sent.element) == ("received", second.id, "paid")
    assert second.result(timeout=60) == {"number": 2, "paid": {"amount": 10}}
    assert first.status == "waiting"
    assert rows(database, "message_subscription") == 1


def test_a_message_without_a_receiver_is_refused_or_kept(engine, database):
    engine.models.deploy(ORDER)

    with pytest.raises(NoReceiver):
        engine.models.message("paid", key="7")
    assert engine.models.message("paid", {"amount": 7}, key="7", ttl="1h").effect == "kept"
    with pytest.raises(NoReceiver):
        engine.models.message("paid", key="8")

    run = engine.start("order", {"number": 7})
    assert run.result(timeout=60) == {"number": 7, "paid": {"amount": 7}}


def test_a_kept_message_lapses(database, clock):
    with Engine(database, clock=clock, shutdown_timeout=1) as engine:
        engine.models.deploy(ORDER)
        engine.models.message("paid", key="7", ttl="1h")
        clock.advance(3601)
        run = waiting(engine, "order", {"number": 7})
        assert run.status == "waiting"


def test_a_message_is_sent_once_per_id(engine):
    engine.models.deploy(ANY)
    run = waiting(engine, "any")
    other = waiting(engine, "any")

    first = engine.models.message("paid", {"n": 1}, id="m1")
    again = engine.models.message("paid", {"n": 1}, id="m1")

    assert (first.effect, first.run_id) == ("received", run.id)
    assert (again.effect, again.run_id, again.element) == ("duplicate", run.id, "paid")
    assert other.status == "waiting"


def test_a_receiver_with_the_key_comes_first(engine):
    engine.models.deploy(ORDER, ANY)
    plain = waiting(engine, "any")
    keyed = waiting(engine, "order", {"number": 1})

    assert engine.models.message("paid", key="1").run_id == keyed.id
    assert engine.models.message("paid", key="1").run_id == plain.id


def test_a_message_can_be_addressed_to_a_run_or_an_element(engine):
    engine.models.deploy(ANY)
    first = waiting(engine, "any")
    second = waiting(engine, "any")

    assert engine.models.message("paid", run=second.id).run_id == second.id
    with pytest.raises(NoReceiver):
        engine.models.message("paid", element="elsewhere")
    assert engine.models.message("paid", element="paid").run_id == first.id


def test_a_run_publishes_with_its_commit(engine):
    engine.models.deploy(ORDER, toy("payer", ("send", "paid", "number")))
    run = waiting(engine, "order", {"number": 5})

    payer = engine.start("payer", {"number": 5})

    payer.result(timeout=60)
    assert run.result(timeout=60) == {"number": 5, "paid": {"from": payer.id}}


def test_a_message_starts_a_run_of_the_latest_version(engine):
    start = [("message", "ordered", "start")]
    engine.models.deploy(toy("shop", ("wait", "old"), starts=start))
    engine.models.deploy(toy("shop", ("wait", "paid"), starts=start))

    sent = engine.models.message("ordered", {"x": 1}, key="k")

    assert (sent.effect, sent.element) == ("started", "start")
    run = engine.run(sent.run_id)
    run.wait_until("waiting", timeout=60)
    assert run.record.version == "2"
    with pytest.raises(NoReceiver):  # not a second one of the key while it runs
        engine.models.message("ordered", key="k")
    engine.models.message("paid", {"y": 2})
    assert run.result(timeout=60) == {"x": 1, "started_by": "start", "paid": {"y": 2}}
    assert engine.models.message("ordered", key="k").effect == "started"


def test_a_broadcast_reaches_all_that_wait_and_starts_runs(engine):
    engine.models.deploy(
        toy("message_listener", ("hear", "alarm")),
        toy("woken", ("sleep", "pause", 0), starts=[("signal", "alarm", "bell")]),
    )
    runs = [waiting(engine, "message_listener") for _ in range(3)]

    sent = engine.models.broadcast("alarm", {"floor": 3})

    assert sorted(sent.reached) == sorted(run.id for run in runs)
    assert [run.result(timeout=60) for run in runs] == [{"alarm": {"floor": 3}}] * 3
    (started,) = sent.started
    assert engine.run(started).result(timeout=60)["started_by"] == "bell"
    assert engine.models.broadcast("alarm").reached == []


def test_a_run_broadcasts_with_its_commit(engine):
    engine.models.deploy(
        toy("message_listener", ("hear", "alarm")), toy("bell", ("shout", "alarm"))
    )
    run = waiting(engine, "message_listener")

    bell = engine.start("bell", {})

    bell.result(timeout=60)
    assert run.result(timeout=60) == {"alarm": {"from": bell.id}}


def test_the_first_of_a_message_and_a_timer_wins(database, clock):
    race = toy("message_race", [("wait", "paid"), ("sleep", "pause", 60)], ("wait", "again"))
    with Engine(database, clock=clock, shutdown_timeout=1) as engine:
        engine.models.deploy(race)
        late = waiting(engine, "message_race")
        clock.advance(61)
        engine.models.message("again", {"n": 1}, ttl="1h")
        assert late.result(timeout=60) == {"timer": "fired", "again": {"n": 1}}
        with pytest.raises(NoReceiver):
            engine.models.message("paid")

        early = waiting(engine, "message_race")
        engine.models.message("paid", {"n": 2})
        engine.models.message("again", {"n": 3}, ttl="1h")
        assert early.result(timeout=60) == {"paid": {"n": 2}, "again": {"n": 3}}
        assert engine.database.check() == []


def test_a_message_for_a_dropped_wait_goes_to_another_receiver(database, clock):
    race = toy("message_race", [("wait", "paid"), ("sleep", "pause", 60)])
    with Engine(database, clock=clock, shutdown_timeout=1) as engine:
        engine.models.deploy(race, ANY)
        run = waiting(engine, "message_race")
    clock.advance(61)  # the timer is due, but no worker is there to see it
    with Engine(database, clock=clock, work=False) as client:
        assert client.models.message("paid", {"n": 1}).run_id == run.id
    with Engine(database, clock=clock, shutdown_timeout=1) as engine:
        assert engine.run(run.id).result(timeout=60) == {"timer": "fired"}
        assert engine.start("any", {}).result(timeout=60) == {"paid": {"n": 1}}
        assert engine.database.check() == []


def test_a_cancelled_run_receives_nothing_more(engine, database):
    engine.models.deploy(ANY)
    run = waiting(engine, "any")

    run.cancel()
    run.wait_until("cancelled", timeout=60)

    assert rows(database, "message_subscription") == 0
    with pytest.raises(NoReceiver):
        engine.models.message("paid")


def test_a_run_that_is_replayed_waits_again(engine):
    engine.models.deploy(ANY)
    run = waiting(engine, "any")
    run.cancel()
    run.wait_until("cancelled", timeout=60)

    run.replay()
    run.wait_until("waiting", timeout=60)

    assert engine.models.message("paid", {"n": 1}).effect == "received"
    assert run.result(timeout=60) == {"paid": {"n": 1}}


@pytest.mark.sqlite_only
def test_messages_of_an_encrypted_database_are_sealed(tmp_path):
    database = str(tmp_path / "sealed.db")
    codec = Encrypted({"k1": b"0" * 32}, current="k1")
    with Engine(database, codec=codec, shutdown_timeout=1) as engine:
        engine.models.deploy(
            ORDER, toy("shop", ("wait", "paid"), starts=[("message", "ordered", "start")])
        )
        engine.models.message("paid", {"secret": "kept and sealed"}, key="1", ttl="1h")
        payloads = execute(database, "SELECT payload FROM holdfast.message")
        assert b"kept and sealed" not in bytes(payloads[0][0])
        run = engine.start("order", {"number": 1})
        assert run.result(timeout=60)["paid"] == {"secret": "kept and sealed"}
        started = engine.models.message("ordered", {"secret": "two"})
        engine.run(started.run_id).wait_until("waiting", timeout=60)
        engine.models.message("paid", {"secret": "three"})
        result = engine.run(started.run_id).result(timeout=60)
        assert (result["secret"], result["paid"]) == ("two", {"secret": "three"})


@pytest.mark.sqlite_only
def test_bad_messages_are_refused(engine):
    for bad in (7, "text", [1], {1: 2}):
        with pytest.raises(BadOption):
            engine.models.message("paid", bad)
    with pytest.raises(NotEncodable):
        engine.models.message("paid", {"x": object()})
    with pytest.raises(BadOption):
        engine.models.message("")
    with pytest.raises(BadOption):
        engine.models.message("paid", run="x", ttl="1h")


@pytest.mark.sqlite_only
def test_variables_of_a_start_that_are_no_dict_are_refused_and_start_nothing(engine):
    engine.models.deploy(ORDER)

    for bad in (7, "text", [1], {1: 2}):
        with pytest.raises(BadOption):
            engine.start("order", bad)
        with pytest.raises(BadOption):
            engine.start_many("order", [{"number": 1}, bad])
    with pytest.raises(BadOption):
        engine.start("order", {}, "more")

    assert engine.runs().count() == 0
    assert engine.start("order").id != engine.start("order", None).id


def test_a_damaged_message_that_is_kept_does_not_keep_others_from_their_receiver(engine, database):
    engine.models.deploy(ORDER)
    for number in (1, 2):
        engine.models.message("paid", {"amount": number}, key="7", id=f"m{number}", ttl="1h")
    execute(database, f"UPDATE holdfast.message SET until = {2**63 - 1} WHERE id = 'm1'")

    run = engine.start("order", {"number": 7})

    assert run.result(timeout=60) == {"number": 7, "paid": {"amount": 2}}
    assert any("in message:" in line and "until" in line for line in engine.database.check())
    execute(database, "DELETE FROM holdfast.message WHERE id = 'm1'")


def test_a_damaged_run_does_not_keep_a_message_from_others(engine, database):
    engine.models.deploy(ANY)
    first = waiting(engine, "any")
    second = waiting(engine, "any")
    damage = "UPDATE holdfast.run SET started_at = {} WHERE id = :id"
    execute(database, damage.format(-1), id=first.id)

    sent = engine.models.message("paid", {"amount": 1})

    assert (sent.effect, sent.run_id) == ("received", second.id)
    assert second.result(timeout=60) == {"paid": {"amount": 1}}
    execute(database, damage.format("created_at"), id=first.id)


STARTED = (
    '<startEvent id="s"><messageEventDefinition messageRef="m"/></startEvent><userTask id="u"/>'
    '<endEvent id="e"/>'
) + flows("s u", "u e")


def test_a_kept_message_starts_a_run_of_a_model_that_is_deployed_later(engine):
    engine.models.message("order", {"x": 1}, key="7", ttl="1h")
    engine.models.message("order", {"x": 2}, key="7", ttl="1h", id="second")
    engine.models.message("order", {"x": 3}, key="8", ttl="1h")
    source = process_of(STARTED, more='<message id="m" name="order"/>')
    engine.models.deploy(source)

    def seen():
        return sorted(task.variables["x"] for task in engine.models.tasks())

    until(lambda: seen() == [1, 3])
    # the second message of the key starts its run when the first run has ended
    first = next(task for task in engine.models.tasks() if task.variables["x"] == 1)
    engine.models.complete(first.id, by="ann")
    until(lambda: seen() == [2, 3])
    assert engine.models.message("order", id="second", ttl="1h").effect == "duplicate"
    for task in engine.models.tasks():
        engine.run(task.run_id).cancel()


def test_a_kept_message_waits_while_the_lane_of_its_run_drains(database):
    with Engine(database, work=False) as client:
        client.models.message("order", {"x": 1}, key="7", ttl="1h")
        client.models.deploy(process_of(STARTED, more='<message id="m" name="order"/>'))
        client.models.deploy(ANY)
        client.start("any", {}, id="earlier")
        client.lanes.set("default", draining=True)

    with Engine(database, shutdown_timeout=1) as engine:
        # the worker starts, and claims runs, although the message starts none
        engine.run("earlier").wait_until("waiting", timeout=60)
        assert engine.models.tasks() == []
        engine.lanes.set("default", draining=False)

        until(lambda: [task.variables["x"] for task in engine.models.tasks()] == [1])
        engine.run("earlier").cancel()
        for task in engine.models.tasks():
            engine.run(task.run_id).cancel()


def test_a_kept_message_is_rekeyed_and_then_received(database):
    keys = {"k1": b"1" * 32, "k2": b"2" * 32}
    with Engine(database, codec=Encrypted(keys, "k1"), work=False) as engine:
        engine.models.deploy(ORDER)
        engine.models.message("paid", {"amount": 7}, key="7", ttl="1h")
    with Engine(database, codec=Encrypted(keys, "k2"), work=False) as engine:
        assert engine.keys.rekey().values == 1
    only_new = Encrypted({"k2": keys["k2"]}, "k2")
    with Engine(database, codec=only_new, shutdown_timeout=1) as engine:
        run = engine.start("order", {"number": 7})
        assert run.result(timeout=60)["paid"] == {"amount": 7}

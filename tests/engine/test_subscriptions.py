"""Reading the events of all runs: by cursor, under a name, in one's own transaction, and as
webhooks."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import logging
import threading
from contextlib import closing, contextmanager

import pytest

from holdfast import AsyncEngine, Engine, step, wait_signal, workflow
from holdfast.codecs import Encrypted
from holdfast.connect.open_store import open_store
from holdfast.engine.runtime.notifier import Committed
from holdfast.errors import (
    BadCursor,
    BadOption,
    EngineClosed,
    KeyMissing,
    StoreBusy,
    SubscriptionExists,
    SubscriptionNotFound,
)
from holdfast.service.copy import copy_store
from holdfast.testing import internals
from holdfast.testing.clock import VirtualClock
from holdfast.testing.faults import AFTER, BEFORE, Fault, FaultyStore
from holdfast.testing.lab import abandon
from holdfast.testing.recorder import CommitRecorder
from tests.engine.databases import execute
from tests.engine.receiver import Receiver
from tests.engine.waiting import wait_for, wait_until
from tests.store import helpers


@step
async def double(n: int) -> int:
    return 2 * n


@workflow(name="events_plain")
async def plain(n: int) -> int:
    return await double(n)


@workflow(name="events_listening")
async def listening() -> object:
    return await wait_signal("go")


def run_some(engine, n=3, **options):
    runs = [engine.start(plain, number, **options) for number in range(n)]
    for run in runs:
        run.result(timeout=20)
    return [run.id for run in runs]


def all_of(engine, **options):
    return [(event.run_id, event.seq) for event in engine.events.read(**options)]


def ends(ids):
    return [(run_id, 2) for run_id in ids]


@pytest.fixture(autouse=True)
def deliver_to_loopback(monkeypatch):
    monkeypatch.setenv("HOLDFAST_WEBHOOK_HOSTS", "127.0.0.1")


# By cursor


def test_events_are_read_from_any_cursor_on(engine):
    ids = run_some(engine)
    events = list(engine.events.read())

    assert sorted((event.run_id, event.seq) for event in events) == sorted(
        (run_id, seq) for run_id in ids for seq in (1, 2)
    )
    for place, event in enumerate(events):
        assert list(engine.events.read(after=event.cursor)) == events[place + 1 :]
    assert list(engine.events.read(after="now")) == []
    assert list(engine.events.read(after="beginning")) == events


def test_events_are_filtered(engine):
    ids = run_some(engine, 2, tags={"customer": 7})
    engine.start(plain, 9, namespace="elsewhere").result(timeout=20)

    assert sorted(all_of(engine, kind="completions", tags={"customer": "7"})) == sorted(ends(ids))
    assert sorted(all_of(engine, kind=["run_completed"], namespace="default")) == sorted(ends(ids))
    assert len(all_of(engine, workflow="events_plain", kind=["steps", "completions"])) == 6
    assert all_of(engine, run=ids[0]) == [(ids[0], 1), (ids[0], 2)]
    assert all_of(engine, workflow="other") == []


def test_whoever_follows_hears_what_comes(engine):
    events = engine.events.follow(after="now", timeout="20s", kind="completions")
    (first,) = run_some(engine, 1)
    assert next(events).run_id == first
    (second,) = run_some(engine, 1)
    assert next(events).run_id == second
    events.close()
    assert list(engine.events.follow(after="now", timeout="10ms")) == []


QUIET = {"shutdown_timeout": 1, "poll": "1h", "session_ttl": "1h"}
"""An engine with nothing to do commits nothing, not even a heartbeat."""


def test_whoever_follows_and_finds_nothing_commits_nothing(database, monkeypatch):
    """A commit wakes all who follow, so one of their own would keep them awake for ever."""
    with Engine(database, **QUIET) as engine:
        run_some(engine, 1)
        asked = []
        consume = internals(engine).subscriptions.consume
        monkeypatch.setattr(
            internals(engine).subscriptions,
            "consume",
            lambda *args, **options: (asked.append(args), consume(*args, **options))[1],
        )

        taken = engine.events.consume(
            "me", lambda events, connection: None, follow=True, timeout="200ms"
        )

    assert taken == 2

    assert len(asked) == 2  # the events, and that there are no more


def test_a_coroutine_that_follows_and_finds_nothing_commits_nothing(database, monkeypatch):
    async def main():
        async with AsyncEngine(database, **QUIET) as engine:
            await (await engine.start(plain, 1)).result(timeout=20)
            subscriptions = internals(engine).subscriptions
            consume, asked = subscriptions.consume, []
            monkeypatch.setattr(
                subscriptions,
                "consume",
                lambda *args, **options: (asked.append(args), consume(*args, **options))[1],
            )
            assert (
                await engine.events.consume(
                    "me", lambda events, connection: None, follow=True, timeout="200ms"
                )
                == 2
            )
            return len(asked)

    assert asyncio.run(main()) == 2


def test_a_coroutine_that_hears_something_while_it_is_cancelled_is_cancelled(idle):
    async def main():
        listener = internals(idle).notifier.subscribe_async(Committed)
        loop = asyncio.get_running_loop()
        waiting = asyncio.create_task(listener.wait(60))
        for _ in range(3):  # turns of the loop, until it waits
            turn = loop.create_future()
            loop.call_soon(turn.set_result, None)
            await turn
        loop.call_soon(listener._wake)
        loop.call_soon(waiting.cancel)
        with pytest.raises(asyncio.CancelledError):
            await waiting
        listener.close()

    asyncio.run(main())


def test_a_coroutine_can_follow_too(database):
    async def main():
        async with AsyncEngine(database, shutdown_timeout=1) as engine:
            run = await engine.start(plain, 1)
            async for event in engine.events.follow(kind="completions", name="me"):
                assert event.run_id == run.id
                break
            await engine.events.consume("you", lambda events, connection: None)
            return [one.name for one in await engine.events.subscriptions()], [
                event.seq async for event in engine.events.read(name="you")
            ]

    assert asyncio.run(main()) == (["me", "you"], [])


@pytest.mark.parametrize("cursor", ["x", "", "a.b.c", "a.1", 7, "..", f"x.{2**70:x}.1"])
def test_what_is_no_cursor_is_refused(engine, cursor):
    with pytest.raises(BadCursor):
        engine.events.read(after=cursor)


def test_a_cursor_from_elsewhere_is_refused_by_name(engine, tmp_path):
    with Engine(tmp_path / "other.db", shutdown_timeout=1) as other:
        run_some(other, 1)
        cursor = next(other.events.read()).cursor
        elsewhere = internals(other).store.installation.id()

    with pytest.raises(BadCursor, match=elsewhere):
        engine.events.read(after=cursor)
    with pytest.raises(BadCursor):
        engine.events.consume("me", print, after=cursor)
    with pytest.raises(BadCursor):
        engine.webhooks.set("me", "https://example.org", after=cursor)
    assert engine.events.subscriptions() == []


@pytest.mark.parametrize(
    "filters",
    [
        {"kind": "never"},
        {"kind": ["steps", "x"]},
        {"workflow": 7},
        {"tags": "a"},
        {"tags": {"a": None}},
    ],
)
def test_a_filter_that_nobody_knows_is_refused(engine, filters):
    with pytest.raises(BadOption):
        engine.events.read(**filters)
    with pytest.raises(BadOption):
        engine.events.read(name="me", **filters)
    with pytest.raises(BadOption):
        engine.webhooks.set("me", "https://example.org", **filters)
    assert engine.events.subscriptions() == []


# Under a name


def test_a_name_goes_on_where_it_has_come_and_repeats_what_was_not_done(engine):
    run_some(engine)
    events = list(engine.events.read())
    for place, event in enumerate(engine.events.read(name="me")):
        assert event == events[place]
        if place == 3:
            break  # the fourth was not done with

    assert list(engine.events.read(name="me")) == events[3:]
    assert list(engine.events.read(name="me")) == []
    with pytest.raises(SubscriptionExists):
        list(engine.events.read(name="me", workflow="other"))
    engine.events.unsubscribe("me")
    with pytest.raises(SubscriptionNotFound):
        engine.events.unsubscribe("me")


# In one's own transaction


def test_what_a_callback_writes_happens_once_however_often_it_stumbles(engine, database):
    execute(database, "CREATE TABLE seen (run TEXT, seq INTEGER)")
    run_some(engine)
    stumbles = iter([True, False, True, False, True, False])

    def note(events, connection):
        for event in events:
            connection.execute(f"INSERT INTO seen VALUES ('{event.run_id}', {event.seq})")
        if next(stumbles):
            raise ValueError("stumbled")

    for _ in range(3):
        with pytest.raises(ValueError, match="stumbled"):
            engine.events.consume("ledger", note, batch=2)
    assert engine.events.consume("ledger", note, batch=2) == 2

    assert sorted(execute(database, "SELECT run, seq FROM seen")) == sorted(all_of(engine))
    assert engine.events.consume("ledger", note) == 0


@pytest.mark.parametrize("wrong", [{"batch": 0}, {"callback": 5}, {"name": ""}, {"name": "a\nb"}])
def test_a_callback_that_makes_no_sense_is_refused(engine, wrong):
    with pytest.raises(BadOption):
        engine.events.consume(**{"name": "me", "callback": print, **wrong})


@contextmanager
def new_database(request, kind, tmp_path, number):
    if kind == "sqlite":
        yield str(tmp_path / f"{number}.db")
    else:
        with request.getfixturevalue("postgres_server").lend() as url:
            yield url


@pytest.mark.parametrize("side", [BEFORE, AFTER])
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_callback_and_a_named_cursor_survive_a_crash_at_every_commit(
    request, tmp_path, kind, side
):
    def note(events, connection):
        for event in events:
            connection.execute(f"INSERT INTO seen VALUES ('{event.run_id}', {event.seq})")

    def read(engine, read_before):
        engine.events.consume("ledger", note, batch=2)
        for event in engine.events.read(name="me"):
            read_before.append((event.run_id, event.seq))

    for at in range(1, 9):
        with new_database(request, kind, tmp_path, at) as url:
            with Engine(url, shutdown_timeout=1) as engine:
                run_some(engine)
                expected = sorted(all_of(engine))
            execute(url, "CREATE TABLE seen (run TEXT, seq INTEGER)")
            seen: list = []
            store = FaultyStore(open_store(url), CommitRecorder(), Fault(at, side))
            try:
                read(Engine(url, store=store), seen)
            except BaseException as crash:
                assert "crash" in str(crash) or isinstance(crash, EngineClosed)
            store._store.close()
            with closing(Engine(url)) as engine:
                read(engine, seen)
                assert sorted(execute(url, "SELECT run, seq FROM seen")) == expected
                assert set(seen) == set(expected)
                assert engine.database.check() == []


# Moving house


def test_a_name_that_moves_house_misses_nothing(database, tmp_path):
    with Engine(database, shutdown_timeout=1) as engine:
        run_some(engine, 5)
        listener = engine.start(listening)
        wait_for(engine, listener, "waiting")
        read = []
        next(engine.events.read(name="new"))
        for place, event in enumerate(engine.events.read(name="me")):
            read.append((event.run_id, event.seq))
            if place == 4:
                break
        cursor = next(engine.events.read()).cursor
        order = all_of(engine)
        engine.webhooks.set("hook", "http://127.0.0.1:1/", after="beginning")
    with closing(open_store(database)) as source:
        assert copy_store(source, lambda: open_store(tmp_path / "copy.db", half_copied=True)).same
    with Engine(tmp_path / "copy.db", shutdown_timeout=1) as engine:
        assert all_of(engine) == order
        with pytest.raises(BadCursor):
            engine.events.read(after=cursor)
        engine.signal(listener.id, "go")
        engine.run(listener.id).result(timeout=20)
        assert set(read) | set(all_of(engine, name="me")) == set(all_of(engine))
        assert all_of(engine, name="new") == all_of(engine)
        assert [one.name for one in engine.events.subscriptions()] == ["hook", "me", "new"]
        assert engine.database.check() == []


# Webhooks


@pytest.fixture
def receiver():
    receiver = Receiver()
    yield receiver
    receiver.close()


def delivered(engine, name="hook"):
    """Wait until a webhook has read everything."""
    last = internals(engine).store.subscriptions.place("now")
    wait_until(engine, lambda: internals(engine).store.subscriptions.get(name).place >= last)


def test_a_webhook_is_told_every_event_signed_and_in_order(engine, receiver):
    secret = engine.webhooks.set("hook", receiver.url, kind="completions")
    ids = run_some(engine)
    receiver.wait(3)
    delivered(engine)

    assert receiver.events() == [one for one in all_of(engine) if one in ends(ids)]
    headers, body = receiver.heard[0]
    time, signed = (part.split("=")[1] for part in headers["Holdfast-Signature"].split(","))
    assert hmac.compare_digest(
        signed, hmac.new(secret.encode(), f"{time}.".encode() + body, hashlib.sha256).hexdigest()
    )
    standard = f"{headers['Webhook-Id']}.{headers['Webhook-Timestamp']}.".encode() + body
    expected = hmac.new(secret.encode(), standard, hashlib.sha256).digest()
    assert headers["Webhook-Signature"] == f"v1,{base64.b64encode(expected).decode()}"
    assert headers["Webhook-Id"] == headers["Holdfast-Delivery"]
    assert (headers["Holdfast-Subscription"], headers["Holdfast-Attempt"]) == ("hook", "1")
    assert headers["Holdfast-Delivery"] == f"{receiver.events()[0][0]}:2"
    assert secret not in repr(engine.events.subscriptions())
    assert secret not in repr(internals(engine).store.subscriptions.get("hook"))


def test_what_cannot_be_delivered_is_tried_again_then_dead_and_can_be_replayed(
    database, receiver, caplog
):
    clock = VirtualClock()
    receiver.answers = [500, 302, 500]
    with caplog.at_level(logging.INFO), Engine(database, clock=clock, shutdown_timeout=1) as engine:
        secret = engine.webhooks.set("hook", receiver.url, kind="completions", attempts=3)
        (first,) = run_some(engine, 1)
        for attempt in (1, 2):
            receiver.wait(attempt)
            wait_until(engine, lambda n=attempt: engine.events.subscriptions()[0].attempts == n)
            assert engine.webhooks.dead_letters("hook") == []
            clock.advance("10s")
        wait_until(engine, lambda: len(engine.webhooks.dead_letters("hook")) == 1)
        (second,) = run_some(engine, 1)
        delivered(engine)

        (letter,) = engine.webhooks.dead_letters("hook")
        assert (letter.run, letter.seq, letter.attempts, letter.error) == (
            first,
            2,
            3,
            "the receiver answered 500",
        )
        assert receiver.events() == [(first, 2)] * 3 + [(second, 2)]
        assert engine.webhooks.redeliver("hook") == 1
        wait_until(engine, lambda: engine.webhooks.dead_letters("hook") == [])
        assert receiver.events()[-1] == (first, 2)
        assert engine.database.check() == []
    assert secret not in caplog.text


class Troubled:
    """A store that cannot say which subscriptions there are when it is told so."""

    def __init__(self, store):
        self._store, self.trouble, self.asked = store, [], 0
        self._all = store.subscriptions.all
        store.subscriptions.all = self.all_subscriptions

    def __getattr__(self, name):
        return getattr(self._store, name)

    def all_subscriptions(self):
        self.asked += 1
        if self.trouble:
            raise self.trouble.pop()
        return self._all()


def test_a_courier_on_its_way_is_not_sent_again_when_the_store_is_in_trouble(database, receiver):
    store = Troubled(open_store(database))
    with Engine(database, store=store, shutdown_timeout=1, poll="10ms") as engine:
        engine.webhooks.set("hook", receiver.url, kind="completions")
        receiver.may_answer.clear()
        ids = run_some(engine, 1)
        receiver.wait(1)
        store.trouble.append(StoreBusy(why="the statement was cancelled"))
        helpers.wait_until(lambda: not store.trouble)
        before = store.asked
        helpers.wait_until(lambda: store.asked > before + 5)  # it looks for webhooks again
        receiver.may_answer.set()
        delivered(engine)
        ids += run_some(engine, 1)
        receiver.wait(2)
        delivered(engine)

        assert receiver.events() == ends(ids)


def test_another_worker_delivers_when_the_first_one_is_gone(database, receiver):
    first = Engine(database, shutdown_timeout=1)
    first.work()
    first.webhooks.set("hook", receiver.url, kind="completions")
    ids = run_some(first, 1)
    receiver.wait(1)
    delivered(first)
    with Engine(database, shutdown_timeout=1, poll="50ms") as second:
        ids += run_some(second, 1)
        receiver.wait(2)
        owner = internals(second).store.subscriptions.get("hook").session_id
        assert owner == internals(first).worker.session_id
        abandon(first)
        ids += run_some(second, 1)
        receiver.wait(3)
        delivered(second)
        assert (
            internals(second).store.subscriptions.get("hook").session_id
            == internals(second).worker.session_id
        )
    assert list(dict.fromkeys(receiver.events())) == ends(ids)


@pytest.mark.parametrize("side", [BEFORE, AFTER])
def test_deliveries_survive_a_crash_at_every_commit(database, request, tmp_path, receiver, side):
    kind = "sqlite" if database.endswith(".db") else "postgres"
    for at in range(1, 10 if kind == "sqlite" else 6):
        receiver.heard, receiver.answers = [], [204, 500]
        with new_database(request, kind, tmp_path, at) as url:
            with Engine(url, shutdown_timeout=1) as engine:
                engine.webhooks.set(
                    "hook", "http://127.0.0.1:1/", kind="completions", after="beginning"
                )
                engine.events.unsubscribe("hook")
                ids = run_some(engine, 2)
                engine.webhooks.set(
                    "hook", receiver.url, kind="completions", after="beginning", attempts=1
                )
            order = ends(ids)
            store = FaultyStore(open_store(url), CommitRecorder(), Fault(at, side))
            engine = Engine(url, store=store, poll="10ms")
            try:
                engine.work()
                wait_until_dead_or(engine, lambda e=engine: done(e))
            except BaseException as crash:
                assert "crash" in str(crash) or isinstance(crash, EngineClosed), crash
            if (
                internals(engine).worker is not None
                and engine._calls.worker_thread.thread is not None
            ):
                abandon(engine)
            else:
                store._store.close()
            with Engine(url, shutdown_timeout=1, poll="20ms") as engine:
                wait_until(engine, lambda e=engine: done(e))
                dead = [(letter.run, letter.seq) for letter in engine.webhooks.dead_letters("hook")]
                assert set(receiver.events()) | set(dead) == set(order)
                assert engine.database.check() == []


@pytest.mark.parametrize("side", [BEFORE, AFTER])
def test_a_replay_of_dead_letters_survives_a_crash_at_every_commit(
    database, request, tmp_path, receiver, side
):
    kind = "sqlite" if database.endswith(".db") else "postgres"
    for at in range(1, 8) if kind == "sqlite" else (2, 3, 4):
        receiver.heard, receiver.answers = [], [500, 500]
        with new_database(request, kind, tmp_path, f"replay{at}") as url:
            with Engine(url, shutdown_timeout=1) as engine:
                engine.webhooks.set("hook", receiver.url, kind="completions", attempts=1)
                ids = run_some(engine, 2)
                wait_until(engine, lambda e=engine: len(e.webhooks.dead_letters("hook")) == 2)
                delivered(engine)
            receiver.heard, receiver.answers = [], [204, 500]
            store = FaultyStore(open_store(url), CommitRecorder(), Fault(at, side))
            engine = Engine(url, store=store, poll="10ms")
            try:
                engine.work()
                engine.webhooks.redeliver("hook")
                wait_until_dead_or(
                    engine,
                    lambda e=engine: (
                        not internals(e).store.subscriptions.dead_letters("hook", again=True)
                    ),
                )
            except BaseException as crash:
                assert "crash" in str(crash) or isinstance(crash, EngineClosed), crash
            if (
                internals(engine).worker is not None
                and engine._calls.worker_thread.thread is not None
            ):
                abandon(engine)
            else:
                store._store.close()
            with Engine(url, shutdown_timeout=1, poll="20ms") as engine:
                wait_until(
                    engine,
                    lambda e=engine: (
                        not internals(e).store.subscriptions.dead_letters("hook", again=True)
                    ),
                )
                assert set(receiver.events()) | {
                    (one.run, one.seq) for one in engine.webhooks.dead_letters("hook")
                } == set(ends(ids))
                receiver.answers = []
                engine.webhooks.redeliver("hook")  # whatever is left arrives at last
                wait_until(engine, lambda e=engine: e.webhooks.dead_letters("hook") == [])
                assert set(receiver.events()) == set(ends(ids))
                assert engine.database.check() == []


@step(name="subscriptions.whisper")
async def whisper(text: str) -> str:
    return text


@workflow(name="subscriptions.whispering")
async def whispering(text: str) -> str:
    return await whisper(text)


@pytest.mark.parametrize("encrypted", [True, False])
def test_values_that_are_kept_apart_or_encrypted_are_told_opened(database, receiver, encrypted):
    codec = Encrypted({"k": b"k" * 32}, "k") if encrypted else None
    text = "a secret" if encrypted else "x" * 70_000
    told, receiver.answers = json.dumps(text).encode(), [500]
    had: list = []
    with Engine(database, codec=codec, shutdown_timeout=1) as engine:
        engine.webhooks.set("hook", receiver.url, kind="steps", attempts=1)
        engine.start(whispering, text).result(timeout=20)

        assert [event.data for event in engine.events.read(kind="steps")] == [text]
        engine.events.consume("me", lambda events, connection: had.extend(events), kind="steps")
        assert [event.data for event in had] == [text]
        wait_until(engine, lambda: len(engine.webhooks.dead_letters("hook")) == 1)
        assert json.loads(receiver.heard[0][1])["data"] == text
        (letter,) = engine.webhooks.dead_letters("hook")
        assert text not in str(letter.body)
        (stored,) = internals(engine).store.subscriptions.dead_letters("hook")
        assert told not in stored.body
        engine.webhooks.redeliver("hook")
        wait_until(engine, lambda: engine.webhooks.dead_letters("hook") == [])
        assert receiver.heard[1][1] == receiver.heard[0][1]
    if encrypted:
        with Engine(
            database, codec=Encrypted({"other": b"o" * 32}, "other"), shutdown_timeout=1
        ) as engine:
            with pytest.raises(KeyMissing):
                list(engine.events.read(name="mine", kind="steps"))
            assert internals(engine).store.subscriptions.get("mine").place == internals(
                engine
            ).store.subscriptions.place("beginning")


def done(engine):
    store = internals(engine).store
    return store.subscriptions.get("hook").place >= store.subscriptions.place("now")


def wait_until_dead_or(engine, condition):
    """Wait until something holds, or the engine has crashed."""
    pause = threading.Event()
    for _ in range(12_000):
        if internals(engine).writer._dead is not None or condition():
            return
        pause.wait(0.005)
    raise AssertionError("neither done nor dead")


@pytest.mark.parametrize(
    "url",
    [
        "nowhere",
        "ftp://example.org/",
        "http://",
        "https://u:secret-word@example.org/",
        "http://a:99999/",
        "http://a/#b",
        7,
    ],
)
def test_a_webhook_to_nowhere_is_refused(engine, url):
    with pytest.raises(BadOption) as refused:
        engine.webhooks.set("hook", url)
    assert "secret-word" not in str(refused.value)
    for wrong in ({"attempts": 0}, {"secret": "short"}):
        with pytest.raises(BadOption):
            engine.webhooks.set("hook", "https://example.org/", **wrong)
    assert engine.events.subscriptions() == []


def test_a_webhook_is_added_once(engine):
    secret = engine.webhooks.set("hook", "http://127.0.0.1:1/", secret="s" * 20)

    assert engine.webhooks.set("hook", "http://127.0.0.1:1/") == secret == "s" * 20
    assert len(engine.webhooks.list()) == 1
    engine.events.consume("reader", lambda events, connection: None)
    with pytest.raises(SubscriptionExists):
        engine.webhooks.set("reader", "http://127.0.0.1:2/")
    with pytest.raises(SubscriptionNotFound, match="needs a URL"):
        engine.webhooks.set("without")
    with pytest.raises(SubscriptionNotFound):
        engine.webhooks.dead_letters("other")
    with pytest.raises(SubscriptionNotFound):
        engine.webhooks.redeliver("other")


def test_a_webhook_keeps_the_settings_that_a_call_does_not_name(engine):
    filters = {"kind": "completions", "workflow": "order", "tags": {"shop": "north"}}
    secret = engine.webhooks.set("hook", "http://127.0.0.1:1/", attempts=5, **filters)
    before = engine.webhooks.get("hook")

    assert engine.webhooks.set("hook", workflow=None, kind="steps") == secret
    engine.webhooks.set("hook", "http://127.0.0.1:2/", after="beginning")
    after = engine.webhooks.get("hook")

    assert (after.url, after.attempt_limit) == ("http://127.0.0.1:2/", 5)
    assert (after.which.get("workflow"), after.which["tags"]) == (None, {"shop": "north"})
    assert "step_completed" in after.which["kind"] and "run_completed" not in after.which["kind"]
    assert (after.cursor, after.created_at) == (before.cursor, before.created_at)
    assert engine.webhooks.set("hook", secret="n" * 20) == "n" * 20
    assert engine.webhooks.set("hook", attempts=2) == "n" * 20
    assert engine.webhooks.get("hook").attempt_limit == 2


def test_another_url_is_used_for_the_event_that_could_not_be_delivered(database, receiver):
    clock = VirtualClock()
    with Engine(database, clock=clock, shutdown_timeout=1) as engine:
        engine.webhooks.set("hook", "http://127.0.0.1:1/", kind="completions")
        (first,) = run_some(engine, 1)
        wait_until(engine, lambda: engine.webhooks.get("hook").attempts > 0)

        engine.webhooks.set("hook", receiver.url)

        receiver.wait(1)
        assert receiver.events() == [(first, 2)]
        wait_until(engine, lambda: engine.webhooks.get("hook").attempts == 0)


# Results


def test_completions_have_the_result_if_the_reader_asks_for_it(engine):
    run_some(engine, 2)
    seen = []

    def note(events, connection):
        seen.extend((event.kind, event.result) for event in events)

    results = [
        (event.kind, event.result)
        for event in engine.events.read(kind=["steps", "completions"], with_result=True)
    ]
    engine.events.consume("mirror", note, kind="completions", with_result=True)

    completions = [("run_completed", 0), ("run_completed", 2)]
    assert sorted(result for result in results if result[0] == "run_completed") == completions
    assert sorted(seen) == completions
    assert {event.result for event in engine.events.read(kind="completions")} == {None}
    followed = engine.events.follow(kind="completions", with_result=True, timeout="50ms")
    assert sorted(event.result for event in followed) == [0, 2]
    with pytest.raises(BadOption):
        engine.events.read(with_result="yes")


def test_an_encrypted_result_is_opened_for_the_reader_who_asks(database):
    with closing(Engine(database, codec=Encrypted({"k": b"k" * 32}, "k"))) as engine:
        engine.work()
        run_some(engine, 1)
        (event,) = engine.events.read(kind="completions", with_result=True)
        assert event.result == 0


def bodies(receiver):
    return [json.loads(body) for _, body in receiver.heard]


def test_a_webhook_delivers_results_if_it_is_asked_to(engine, receiver):
    engine.webhooks.set("hook", receiver.url, kind="completions", with_result=True)
    engine.webhooks.set("bare", receiver.url, kind="completions")
    run_some(engine, 1)

    receiver.wait(2)

    assert sorted(str(body["result"]) for body in bodies(receiver)) == ["0", "None"]
    assert engine.webhooks.get("hook").which == {
        "kind": engine.webhooks.get("bare").which["kind"],
        "with_result": True,
    }
    engine.webhooks.set("hook", with_result=False)
    assert engine.webhooks.get("hook").which == engine.webhooks.get("bare").which


def test_a_result_stays_out_of_a_dead_letter_and_is_delivered_again(engine, receiver):
    receiver.answers = [500]
    engine.webhooks.set("hook", receiver.url, attempts=1, kind="completions", with_result=True)
    run_some(engine, 1)
    wait_until(engine, lambda: engine.webhooks.dead_letters("hook"))

    (letter,) = engine.webhooks.dead_letters("hook")
    engine.webhooks.redeliver("hook")
    receiver.wait(2)

    assert letter.body["result"] is None
    assert [body["result"] for body in bodies(receiver)] == [0, 0]

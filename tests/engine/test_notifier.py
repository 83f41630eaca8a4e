"""The commit notifier: listeners hear of the commits of their topic, also of other processes."""

from __future__ import annotations

import asyncio
import threading
from contextlib import closing

import pytest

from holdfast import Engine, workflow
from holdfast.engine.runtime.notifier import Committed, ResultReady, WorkReady
from holdfast.store.database import Hints
from holdfast.testing import internals


@workflow
def heard_of() -> None: ...


@pytest.fixture
def notifier(idle):
    return internals(idle).notifier


@pytest.fixture
def another_process(database):
    """An engine whose commits the notifier learns of by polling, or from the store."""
    with closing(Engine(database)) as engine:
        yield engine


@pytest.mark.parametrize(
    ("topic", "hints", "hears"),
    [
        (Committed, Hints(), True),
        (WorkReady, Hints(ready=True), True),
        (WorkReady, Hints(finished={"a"}), False),
        (ResultReady("a"), Hints(finished={"a", "b"}), True),
        (ResultReady("a"), Hints(ready=True, finished={"b"}), False),
    ],
    ids=["any commit", "claimable runs", "no claimable run", "its end", "another end"],
)
def test_a_listener_is_notified_of_the_commits_of_its_topic(notifier, topic, hints, hears):
    notifier.poller.attach()  # the listener does not poll
    listener = notifier.subscribe(topic)
    notifier.committed(hints)

    assert listener.wait(0.001) is hears
    assert not listener.wait(0.001)


@pytest.mark.parametrize(
    "topic",
    [Committed, WorkReady, ResultReady("a")],
    ids=["any commit", "claimable runs", "an end"],
)
def test_commits_of_other_processes_notify_every_listener(notifier, topic):
    listener = notifier.subscribe(topic)
    notifier.changed()

    assert listener.wait(0.001)


def test_a_closed_listener_is_not_notified(notifier):
    listener = notifier.subscribe(Committed)
    listener.close()
    notifier.committed(Hints())

    assert not notifier.has_listener(Committed)
    assert not listener.wait(0.001)


def test_a_failing_function_prevents_neither_the_others_nor_the_listeners(notifier, caplog):
    heard = []
    notifier.on_commit += [lambda hints: 1 // 0, heard.append]
    listener = notifier.subscribe(Committed)
    notifier.committed(Hints())

    assert heard == [Hints()]
    assert listener.wait(0.001)
    assert "ZeroDivisionError" in caplog.text


def test_without_a_notification_the_pauses_grow_and_begin_again_after_one(notifier):
    listener = notifier.subscribe(ResultReady("a"))
    first = listener._pause
    assert not listener.wait()
    assert not listener.wait()
    assert listener._pause > first
    notifier.changed()

    assert listener.wait()
    assert listener._pause == first


def test_a_wait_that_is_cut_short_leaves_the_pause_as_it_is(notifier):
    listener = notifier.subscribe(ResultReady("a"))
    first = listener._pause
    assert not listener.wait(first / 2)

    assert listener._pause == first


def test_one_listener_polls_for_all(notifier, another_process):
    others = [notifier.subscribe(topic) for topic in (ResultReady("a"), Committed)]
    listener = notifier.subscribe(WorkReady)
    listener.wait(0.001)  # the first poll, or the request to be notified
    another_process.start(heard_of)

    assert any(listener.wait(1) for _ in range(60))
    assert all(other.wait(60) for other in others)
    assert not notifier.poller._turn.locked()


def test_only_one_listener_polls_at_a_time(notifier, monkeypatch):
    polls = []
    monkeypatch.setattr(notifier.poller, "poll_or_listen", lambda: polls.append(1))
    assert notifier.poller.begin_turn()
    assert not notifier.subscribe(WorkReady).wait(0.001)
    notifier.poller.end_turn()
    assert not polls

    assert not notifier.subscribe(WorkReady).wait(0.01)
    assert polls


def test_no_listener_polls_a_store_that_notifies(notifier, database):
    notifier.subscribe(WorkReady).wait(0.01)
    notifies = str(database).startswith("postgres")

    assert notifier.poller.begin_turn() is not notifies


def test_no_listener_polls_while_the_worker_does(notifier):
    notifier.poller.attach()
    assert not notifier.poller.begin_turn()
    notifier.poller.detach()

    assert notifier.poller.begin_turn()


def test_coroutines_listen_too(notifier):
    async def main():
        notifier.poller.attach()  # the listeners do not poll
        heard = []
        for topic in (Committed, WorkReady, ResultReady("a")):
            listener = notifier.subscribe_async(topic)
            thread = threading.Thread(
                target=notifier.committed, args=[Hints(ready=True, finished={"a"})]
            )
            thread.start()
            heard.append(await listener)
            await asyncio.to_thread(thread.join)  # it would notify the next listener, too
            heard.append(await listener.wait(0.001))
            listener.close()
        return heard

    assert asyncio.run(main()) == [True, False] * 3


def test_a_coroutine_polls_in_a_thread(notifier, another_process):
    async def main():
        calls = []

        async def in_thread(call):
            calls.append(call)
            await asyncio.to_thread(call)

        listener = notifier.subscribe_async(WorkReady, in_thread)
        await listener.wait(0.001)
        await asyncio.to_thread(another_process.start, heard_of)
        for _ in range(60):
            if await listener.wait(1):
                return calls
        raise AssertionError("not notified")

    assert set(asyncio.run(main())) == {notifier.poller.poll_or_listen}


def test_a_listener_of_a_closed_loop_is_removed(notifier):
    async def main():
        notifier.subscribe_async(Committed)

    asyncio.run(main())
    notifier.committed(Hints())

    assert not notifier.has_listener(Committed)


def test_an_engine_whose_worker_has_stopped_hears_of_other_processes_again(database):
    with Engine(database, shutdown_timeout=1) as engine:
        poller = internals(engine).notifier.poller
        assert poller.is_run_by_worker
    assert not poller.is_run_by_worker

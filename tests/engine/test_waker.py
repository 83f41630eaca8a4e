"""A loop is woken from other threads, however often, until the waker is closed."""

from __future__ import annotations

import asyncio
import os
import threading

import pytest

from holdfast.engine.runtime import loop_inbox
from holdfast.engine.runtime.loop_inbox import LoopInbox
from holdfast.engine.runtime.waker import Waker

pytestmark = pytest.mark.skipif(not hasattr(os, "eventfd"), reason="there is no eventfd here")


def test_calls_of_many_threads_are_made_in_the_order_of_each_thread():
    async def main() -> list[tuple[int, int]]:
        loop = asyncio.get_running_loop()
        mailbox = LoopInbox(loop, 0.002)
        mailbox.open_waker()
        made: list[tuple[int, int]] = []
        complete = asyncio.Event()

        def take(thread: int, number: int) -> None:
            made.append((thread, number))
            if len(made) == 4 * 500:
                complete.set()

        def post_all(thread: int) -> None:
            for number in range(500):
                mailbox.post(take, thread, number)

        threads = [threading.Thread(target=post_all, args=(thread,)) for thread in range(4)]
        for thread in threads:
            thread.start()
        await asyncio.wait_for(complete.wait(), 60)
        for thread in threads:
            thread.join()
        mailbox.close()
        return made

    made = asyncio.run(main())
    for thread in range(4):
        assert [number for which, number in made if which == thread] == list(range(500))


def test_a_mailbox_whose_waker_is_closed_still_wakes_its_loop():
    async def main() -> str:
        loop = asyncio.get_running_loop()
        mailbox = LoopInbox(loop, 1.0)
        mailbox.open_waker()
        mailbox.close()
        answered = loop.create_future()
        thread = threading.Thread(target=mailbox.post, args=(answered.set_result, "woken"))
        thread.start()
        answer = await asyncio.wait_for(answered, 60)
        thread.join()
        return answer

    assert asyncio.run(main()) == "woken"


def test_a_closed_waker_lets_go_of_its_descriptor():
    async def main() -> None:
        waker = Waker.of(asyncio.get_running_loop(), lambda: None)
        assert waker is not None
        assert waker.wake()
        before = len(os.listdir("/proc/self/fd"))
        waker.close()
        waker.close()
        assert len(os.listdir("/proc/self/fd")) == before - 1
        assert not waker.wake()

    asyncio.run(main())


def test_a_mailbox_of_a_closed_loop_refuses_calls():
    loop = asyncio.new_event_loop()
    mailbox = LoopInbox(loop, 1.0)
    mailbox.open_waker()
    loop.close()
    with pytest.raises(RuntimeError, match="closed"):
        mailbox.post(print)
    mailbox.close()


def test_a_loop_without_readers_has_no_waker():
    class WithoutReaders(asyncio.SelectorEventLoop):
        def add_reader(self, *_):
            raise NotImplementedError

    loop = WithoutReaders()
    assert Waker.of(loop, lambda: None) is None
    loop.close()


def test_what_is_posted_while_a_mailbox_is_held_is_called_when_it_is_released():
    async def main() -> None:
        called: list[str] = []
        mailbox = LoopInbox(asyncio.get_running_loop(), 1.0)
        mailbox.hold()
        mailbox.post(called.append, "first")
        mailbox.post(called.append, "second")
        loop = asyncio.get_running_loop()
        turned, done = loop.create_future(), loop.create_future()
        mailbox.post(done.set_result, None)
        loop.call_soon_threadsafe(loop.call_soon, turned.set_result, None)
        await turned
        assert called == []

        mailbox.release()

        await done
        assert called == ["first", "second"]

    asyncio.run(main())


def test_a_mailbox_whose_loop_is_closed_while_it_is_held_says_so():
    loop = asyncio.new_event_loop()
    mailbox = LoopInbox(loop, 1.0)
    mailbox.hold()
    mailbox.post(print)
    loop.close()

    with pytest.raises(RuntimeError):
        mailbox.release()


def test_an_inbox_that_waits_leaves_timers_and_other_events_to_its_loop():
    async def main() -> list[str]:
        loop = asyncio.get_running_loop()
        inbox = LoopInbox(loop, 1.0)
        inbox.open_waker(waits=True)
        made: list[str] = []
        timer = asyncio.Event()
        event = asyncio.Event()
        last = asyncio.Event()

        def note_timer() -> None:
            made.append("timer")
            timer.set()

        def note_event() -> None:
            made.append("event")
            event.set()

        def begin() -> None:
            made.append("call")
            loop.call_later(0.02, note_timer)

        def post() -> None:
            inbox.post(begin)
            assert done.wait(60)
            loop.call_soon_threadsafe(note_event)
            inbox.post(last.set)

        done = threading.Event()
        thread = threading.Thread(target=post)
        thread.start()
        await asyncio.wait_for(timer.wait(), 60)
        # The callback of the next call waits again: only the other thread can end that wait.
        inbox.post(made.append, "call")
        loop.call_soon(done.set)
        await asyncio.wait_for(event.wait(), 60)
        await asyncio.wait_for(last.wait(), 60)
        thread.join()
        inbox.close()
        return made

    made = asyncio.run(main())
    assert made == ["call", "timer", "call", "event"]


def test_calls_that_follow_each_other_are_made_within_one_callback(monkeypatch):
    monkeypatch.setattr(loop_inbox, "IN_A_ROW", 60.0)

    async def main() -> tuple[int, int]:
        loop = asyncio.get_running_loop()
        inbox = LoopInbox(loop, 1.0)
        inbox.open_waker(waits=True)
        turns = 0
        turns_of_calls: list[int] = []
        made = threading.Semaphore(0)
        complete = loop.create_future()

        def call(number: int) -> None:
            turns_of_calls.append(turns)
            made.release()
            if number == 9:
                complete.set_result(None)

        def post() -> None:
            for number in range(10):
                inbox.post(call, number)
                assert made.acquire(timeout=60)

        thread = threading.Thread(target=post)
        select = loop._selector.select

        def counted_select(timeout: float | None = None) -> object:
            nonlocal turns
            turns += 1
            return select(timeout)

        loop._selector.select = counted_select
        thread.start()
        await asyncio.wait_for(complete, 60)
        thread.join()
        inbox.close()
        return len(turns_of_calls), len(set(turns_of_calls))

    calls, turns = asyncio.run(main())
    assert calls == 10
    assert turns < calls

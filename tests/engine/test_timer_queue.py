"""The timers of a worker: what is cancelled is not kept until its time would have come."""

import asyncio

from holdfast.engine.runtime.timer_queue import TimerQueue
from holdfast.testing.clock import VirtualClock

HOUR = 3_600_000_000


async def turn():
    """Let the loop make the calls that are due."""
    done = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.call_soon(loop.call_soon, done.set)
    await done.wait()


def with_timers(use):
    """Call *use* with a clock that is moved by hand and a queue of timers, in a loop."""

    async def main():
        clock = VirtualClock()
        timers = TimerQueue(clock, asyncio.get_running_loop())
        try:
            await use(clock, timers)
        finally:
            timers.close()

    asyncio.run(main())


def test_cancelled_timers_of_the_far_future_are_dropped():
    async def use(clock, timers):
        for _ in range(10_000):  # as the limits of steps that end long before their time is up
            timers.at(clock.now() + HOUR, print).cancel()

        assert len(timers) < 1000

    with_timers(use)


def test_the_others_fire_in_their_order():
    fired = []

    async def use(clock, timers):
        handles = [
            timers.at(clock.now() + 1000 + number % 7, lambda number=number: fired.append(number))
            for number in range(1000)
        ]
        for number, handle in enumerate(handles):
            if number % 10:
                handle.cancel()
                handle.cancel()  # a second time changes nothing
        clock.advance_to(clock.now() + 2000)
        await turn()

        expected = sorted(range(0, 1000, 10), key=lambda number: (number % 7, number))
        assert fired == expected
        assert len(timers) == 0

    with_timers(use)


def test_a_timer_may_cancel_others_while_it_fires():
    fired = []

    async def use(clock, timers):
        now = clock.now()
        later = [timers.at(now + 2, lambda: fired.append("late")) for _ in range(500)]

        def cancel_all():
            fired.append("first")
            for handle in later:
                handle.cancel()

        timers.at(now + 1, cancel_all)
        clock.advance_to(now + 5)
        await turn()

        assert fired == ["first"]
        assert len(timers) == 0

    with_timers(use)

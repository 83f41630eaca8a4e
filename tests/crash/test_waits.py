"""Waits with conditions, killed before and after each commit that has to do with them, in a file
and in PostgreSQL."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from datetime import timedelta
from functools import partial

import pytest

from holdfast import compensate, first, gather, sleep, step, sync, wait_signal, workflow
from holdfast.errors import BadOption, WaitNotFound, WaitTimeout
from holdfast.testing import crash_everywhere, internals
from holdfast.testing.postgres import _WIPE
from holdfast.testing.recorder import RUN
from holdfast.waits import all_of, any_of, count, create_wait, matching, wait_for

world: Counter[str] = Counter()
let_go: list[str] = []


@pytest.fixture(params=["sqlite", "postgres"])
def everywhere(request):
    if request.param == "sqlite":
        yield partial(crash_everywhere, setup=world.clear, doubles=3)
        return
    server = request.getfixturevalue("postgres_server")
    with server.lend() as url:
        clear = partial(server.execute, _WIPE, url)
        yield partial(
            crash_everywhere, setup=world.clear, doubles=0, zombies=False, database=url, clear=clear
        )


@step
async def ship(what: str) -> str:
    world[f"ship {what}"] += 1
    return what


@step
async def unship(what: str) -> None:
    world[f"unship {what}"] += 1


def delivers(name, payload=None, **options):
    """Deliver a signal, as an outsider with the token, to the wait of that name."""

    def deliver(lab):
        wait = next(
            wait for wait in lab.engine.waits.list(RUN) if wait.id is not None and wait.name == name
        )
        lab.engine.waits.deliver(
            wait.id,
            lab.engine.waits.token(wait.id),
            payload=payload,
            key=f"{name} {payload}",
            **options,
        )

    return deliver


def releases(lab):
    """Let go what the run waits for, as a person would who looks first."""
    with suppress(WaitNotFound, BadOption):
        lab.engine.waits.release(RUN, payload="go", by="ann")


def releases_when_parked(lab):
    """The same, of a run that waits for nothing but a time."""
    lab.settle()
    with suppress(WaitNotFound):  # it was taken from this one before it came so far
        lab.engine.waits.release(RUN, by="ann")
        world["let go"] += 1
        let_go.append(lab.engine.run(RUN).record.workflow)


def releases_when_asked(lab):
    """The same, but only when the wait was put to a person."""
    if not lab.engine.waits.list(RUN, escalated=True):
        lab.hop()
        lab.settle()
    releases(lab)


def soon(lab):
    """It did not wait for its time if somebody let it go, and nobody's word is left over."""
    record = lab.engine.run(RUN).record
    assert not world["let go"] or record.finished_at - record.created_at < timedelta(days=1)
    assert internals(lab.engine).store.signals.of_run(RUN) == []


def all_is_closed(lab):
    assert [wait for wait in lab.engine.waits.list(RUN) if wait.closed_at is None] == []


# Signals


@workflow
async def ready(x: int) -> list[object]:
    before = await ship("first")
    waited = await wait_for(
        all_of(
            "paid", any_of("shipped", count(2, matching("vote", {"ok": True}), distinct="signals"))
        )
    )
    return [
        before,
        [(signal.id, signal.name, signal.payload) for signal in waited.signals],
        await ship("second"),
    ]


@workflow
def ready_blocking(x: int) -> list[object]:
    waited = sync.waits.wait_for(sync.waits.all_of("paid", sync.waits.count(2, "vote")))
    return [
        [(signal.id, signal.name, signal.payload) for signal in waited.signals],
        ship.sync("second"),
    ]


VOTES = [
    ("vote", {"ok": True}),
    ("other", 1),
    ("paid", 5),
    ("vote", {"ok": True}),
    ("vote", {"ok": True}),
]


@pytest.mark.parametrize("early", [False, True], ids=["when waited for", "before"])
@pytest.mark.parametrize("shape", [ready, ready_blocking], ids=lambda shape: shape.name)
def test_a_condition_is_met_once_and_by_the_same_signals(everywhere, shape, early):
    everywhere(shape, 1, signals=VOTES, early=early, check=all_is_closed)


@workflow
async def side_by_side(x: int) -> list[object]:
    async def one() -> list[int]:
        return [signal.id for signal in (await wait_for(count(2, "vote"))).signals]

    return await gather(one(), sleep("1h"), one(), ship("something"))


def test_waits_side_by_side_share_no_signal(everywhere):
    everywhere(side_by_side, 1, signals=[("vote", n) for n in range(4)])


# Handed out


@workflow
async def asking(x: int) -> list[object]:
    wait = await create_wait("callback", expires="30d")
    await ship("question")
    waited = await wait_for(wait, timeout="3d")
    return [waited.how, waited.payload, await ship("answer")]


@workflow
def asking_blocking(x: int) -> list[object]:
    wait = sync.waits.create_wait("callback")
    ship.sync("question")
    return [sync.waits.wait_for(wait).payload, ship.sync("answer")]


@pytest.mark.parametrize("shape", [asking, asking_blocking], ids=lambda shape: shape.name)
def test_what_an_outsider_delivers_arrives_once(everywhere, shape):
    everywhere(shape, 1, signals=[delivers("callback", 7)], check=all_is_closed)


@workflow
async def asking_early(x: int) -> list[object]:
    waits = [await create_wait(name) for name in ("ann", "bob", "cy")]
    await wait_signal("go")
    waited = await wait_for(count(2, *waits, distinct="waits"))
    return [(signal.name, signal.payload) for signal in waited.signals]


def test_early_answers_are_kept(everywhere):
    signals = [delivers("cy", 1), delivers("ann", 2), ("go", None)]

    everywhere(asking_early, 1, signals=signals, check=all_is_closed)


@workflow
async def asking_twice(x: int) -> list[object]:
    wait = await create_wait("callback")

    async def answer() -> object:
        return (await wait_for(wait)).payload

    async def nobody() -> object:
        await sleep("1h")
        return None

    return [await first(answer(), nobody()), (await wait_for(wait)).payload]


def test_a_wait_that_was_dropped_can_be_taken_up_again(everywhere):
    def later(lab):
        lab.hop()
        lab.settle()
        delivers("callback", 4)(lab)

    def is_right(lab):
        assert lab.engine.run(RUN).result()[-1] == 4

    everywhere(asking_twice, 1, signals=[later], check=is_right, exact=False, zombies=False)


@workflow
async def asking_again_after_a_timer(x: int) -> list[object]:
    wait = await create_wait("callback")

    async def answer() -> object:
        return (await wait_for(wait)).payload

    async def nobody() -> object:
        await sleep("1h")
        return None

    winner = await first(answer(), nobody())
    both = await wait_for(count(2, wait, distinct="signals"))
    return [winner, [signal.payload for signal in both.signals]]


def test_a_wait_that_a_late_signal_closed_is_open_again_after_a_crash(everywhere):
    def late(lab):
        """Deliver a signal after the timer is due and before a worker has seen that."""
        lab.settle()
        lab.hop()
        lab.clock.advance("1s")  # at the same instant the signal would win
        delivers("callback", 4)(lab)

    def again(lab):
        lab.settle()
        delivers("callback", 5)(lab)

    def is_right(lab):
        assert lab.engine.run(RUN).result() == [None, [4, 5]]
        all_is_closed(lab)

    everywhere(asking_again_after_a_timer, 1, signals=[late, again], check=is_right, zombies=False)


# Time


@workflow
async def too_late(on_timeout: str) -> list[object]:
    compensate(unship, "first")
    wait = await create_wait("callback")
    await ship("first")
    try:
        waited = await wait_for(all_of(wait, "word"), timeout="3d", on_timeout=on_timeout)
    except WaitTimeout:
        return ["late", await ship("apology")]
    return [waited.how, [signal.name for signal in waited.signals], waited.by, await ship("rest")]


@workflow
def too_late_blocking(on_timeout: str) -> list[object]:
    compensate(unship, "first")
    try:
        waited = sync.waits.wait_for("never", timeout="3d", on_timeout=on_timeout)
    except WaitTimeout:
        return ["late", ship.sync("apology")]
    return [waited.how, waited.by, ship.sync("rest")]


@pytest.mark.parametrize("on_timeout", ["fail", "cancel", "expire", "continue"])
@pytest.mark.parametrize("shape", [too_late, too_late_blocking], ids=lambda shape: shape.name)
def test_time_is_up_once_and_the_same_comes_of_it(everywhere, shape, on_timeout):
    ends = {
        "fail": "completed",
        "cancel": "cancelled",
        "expire": "expired",
        "continue": "completed",
    }

    def ended(lab):
        assert lab.engine.run(RUN).status == ends[on_timeout]
        all_is_closed(lab)

    everywhere(shape, on_timeout, signals=[("word", 1)], check=ended)


@workflow
async def expiring(x: int) -> list[object]:
    wait = await create_wait("callback", expires="1h")
    waited = await wait_for(wait, timeout="3d", on_timeout="continue")
    return [waited.how, await ship("rest")]


def test_a_wait_that_expires_is_given_up(everywhere):
    everywhere(expiring, 1, check=all_is_closed)


# People


@pytest.mark.parametrize("shape", [too_late, too_late_blocking], ids=lambda shape: shape.name)
def test_what_was_put_to_a_person_waits_for_that_person(everywhere, shape):
    def released(lab):
        assert "release" in lab.engine.run(RUN).result()
        all_is_closed(lab)

    everywhere(shape, "escalate", signals=[releases_when_asked], check=released)


def test_a_person_lets_a_wait_go_once(everywhere):
    everywhere(asking, 1, signals=[releases], check=all_is_closed)


@workflow
async def sleeps_until_woken(days: int) -> str:
    before = await ship("early")
    await sleep(f"{days}d")
    return f"{before}, {await ship('late')}"


def test_a_person_wakes_a_run_that_sleeps(everywhere):
    everywhere(sleeps_until_woken, 30, signals=[releases_when_parked], early=True, check=soon)
    assert sleeps_until_woken.name in let_go


@step(retries=5, delay="30d", jitter=0.0)
async def ship_at_last() -> str:
    world["ship at last"] += 1
    if world["ship at last"] == 1:
        raise ConnectionError("no road")
    return "shipped"


@workflow
async def tries_again(x: int) -> str:
    return f"{await ship_at_last()}, {await ship('rest')}"


@workflow
def tries_again_blocking(x: int) -> str:
    return f"{ship_at_last.sync()}, {ship.sync('rest')}"


@pytest.mark.parametrize("shape", [tries_again, tries_again_blocking], ids=lambda shape: shape.name)
def test_a_step_that_waits_for_its_retry_is_let_try_and_does_not_wait_again_after_a_crash(
    everywhere, shape
):
    everywhere(shape, 1, signals=[releases_when_parked], early=True, check=soon)
    assert shape.name in let_go


@workflow
async def put_off(x: int) -> list[object]:
    return [await ship("first"), x]


def test_a_run_that_was_put_off_is_let_begin_once(everywhere):
    def begun(lab):
        assert [event.kind for event in lab.history(RUN)].count("run_released") <= 1

    everywhere(put_off, 30, options={"delay": "30d"}, signals=[releases], early=True, check=begun)


def test_a_person_and_a_signal_may_come_together(everywhere):
    everywhere(
        ready, 1, signals=[("paid", 1), releases, ("shipped", 2)], exact=False, check=all_is_closed
    )


# What follows from a signal alone begins before its reception is written


@workflow
async def ships_on_word() -> list[str]:
    shipped = []
    for _ in range(3):
        shipped.append(await ship(await wait_signal("word", type=str)))
    return shipped


def test_a_step_that_did_not_wait_for_the_commit_is_done_for_the_same_signal_again(everywhere):
    words = ["kelp", "rock", "tide"]

    def shipped_in_order(lab):
        assert lab.engine.run(RUN).result() == words
        assert set(world) == {f"ship {word}" for word in words}

    everywhere(ships_on_word, signals=[("word", word) for word in words], check=shipped_in_order)
    everywhere(
        ships_on_word,
        signals=[("word", word) for word in words],
        early=True,
        check=shipped_in_order,
    )

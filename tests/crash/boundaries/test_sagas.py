"""Compensations of failed, cancelled and expired runs, killed at every commit."""

from __future__ import annotations

import pytest

import holdfast
from holdfast import Fail, compensate, gather, sleep, step, sync, workflow
from holdfast.testing.recorder import RUN
from tests.crash.boundaries.workflows import (
    _status,
    add,
    book,
    broken,
    double,
    everywhere,
    fails_on_two,
    sequence,
    unbook,
    world,
)


@step
def release(what: str) -> None:
    world[f"release {what}"] += 1


@step(retries=5, delay="10s")
async def hardly_unbook(what: str) -> None:
    if holdfast.info().attempt < 3:
        raise ValueError("not yet")


@step
async def cannot_unbook(what: str) -> None:
    raise Fail(f"{what} stays booked")


@workflow
async def saga(x: int) -> int:
    for booking in ("flight", "hotel", "car"):
        await book(booking)
        compensate(release if booking == "hotel" else unbook, booking)
    return await broken(x)


@workflow
def saga_blocking(x: int) -> int:
    for booking in ("flight", "hotel", "car"):
        book.sync(booking)
        sync.compensate(release, booking)
    return fails_on_two(x)


@workflow
async def saga_with_failing_undo(x: int) -> int:
    for booking in ("flight", "hotel", "car"):
        await book(booking)
        compensate(cannot_unbook if booking == "hotel" else unbook, booking)
    return await broken(x)


@workflow(stop_undoing_on_failure=True)
async def saga_that_stops(x: int) -> int:
    for booking in ("flight", "hotel", "car"):
        await book(booking)
        compensate(cannot_unbook if booking == "hotel" else unbook, booking)
    return await broken(x)


@workflow
async def saga_with_retried_undo(x: int) -> int:
    for booking in ("flight", "hotel"):
        await book(booking)
        compensate(hardly_unbook, booking)
    return await broken(x)


async def good_branch(x: int) -> int:
    await book("good")
    compensate(unbook, "good")
    await sleep("1h")
    return await add(x, 1)


async def bad_branch(x: int) -> int:
    await book("bad")
    compensate(unbook, "bad")
    await sleep("1m")
    return await broken(x)


@workflow
async def saga_in_branches(x: int) -> list[int]:
    return await gather(good_branch(x), bad_branch(x))


@workflow
def saga_in_branches_blocking(x: int) -> list[int]:
    def good() -> int:
        book.sync("good")
        sync.compensate(release, "good")
        sync.sleep("1h")
        return double(x)

    def bad() -> int:
        book.sync("bad")
        sync.compensate(release, "bad")
        sync.sleep("1m")
        return fails_on_two(2)

    return sync.gather(good, bad)


@workflow
async def saga_that_succeeds(x: int) -> int:
    await book("flight")
    compensate(unbook, "flight")
    return await add(x, 1)


@pytest.mark.parametrize(
    "shape",
    [
        saga,
        saga_blocking,
        saga_with_failing_undo,
        saga_that_stops,
        saga_with_retried_undo,
        saga_in_branches,
        saga_in_branches_blocking,
        saga_that_succeeds,
    ],
    ids=lambda shape: shape.name,
)
def test_what_failed_is_undone_once_and_in_reverse(shape):
    everywhere(shape, 2)


@workflow
async def long_saga(x: int) -> int:
    for day in range(3):
        await book(f"day {day}")
        compensate(unbook, f"day {day}")
        await sleep("1d")
    return x


@workflow
def long_saga_blocking(x: int) -> int:
    for day in range(3):
        book.sync(f"day {day}")
        sync.compensate(release, f"day {day}")
        sync.sleep("1d")
    return x


@workflow
async def working_when_cancelled(x: int) -> int:
    await book("room")
    try:
        await sleep("1d")
    finally:
        await add(x, 1)
        await sleep("1h")
        await add(x, 2)
    return x


@workflow
def working_when_cancelled_blocking(x: int) -> int:
    book.sync("room")
    try:
        sync.sleep("1d")
    finally:
        double(x)
        sync.sleep("1h")
        double(x)
    return x


@workflow
async def parent_of_sagas(x: int) -> list[int]:
    compensate(unbook, "everything")
    return await gather(long_saga(x), long_saga(x + 1))


@pytest.mark.parametrize("at", ["book", "book#2"])
@pytest.mark.parametrize("shape", [long_saga, long_saga_blocking], ids=lambda shape: shape.name)
def test_a_cancelled_run_undoes_what_it_did(shape, at):
    everywhere(shape, 2, cancel_at=at, check=lambda lab: _status(lab, "cancelled"))


@pytest.mark.parametrize(
    "shape", [working_when_cancelled, working_when_cancelled_blocking], ids=lambda shape: shape.name
)
def test_a_cancelled_run_ends_what_it_does_at_last(shape):
    def done(lab):
        assert sum(event.kind == "step_completed" for event in lab.history(RUN)) == 3

    everywhere(shape, 2, cancel_at="book", check=done)


def test_children_are_cancelled_with_their_parent():
    everywhere(parent_of_sagas, 2, cancel_at=8, check=lambda lab: _status(lab, "cancelled"))


@pytest.mark.parametrize("shape", [long_saga, long_saga_blocking], ids=lambda shape: shape.name)
def test_a_run_past_its_deadline_undoes_what_it_did(shape):
    everywhere(shape, 2, options={"deadline": "36h"}, check=lambda lab: _status(lab, "expired"))


def test_a_run_may_expire_before_it_begins():
    everywhere(
        sequence,
        2,
        options={"delay": "2h", "deadline": "1h"},
        check=lambda lab: _status(lab, "expired"),
    )

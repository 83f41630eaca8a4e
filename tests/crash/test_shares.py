"""Shares and gathered starts, killed at each commit."""

from __future__ import annotations

from holdfast import gather, start, step, workflow
from holdfast.core.records import Lane
from holdfast.store import contract as c
from holdfast.testing import crash_everywhere


def narrow(store):
    store.apply([c.SetLane(Lane(name="narrow", concurrency=2, per_share=1, share_rate_limit=5, share_rate_per=60_000_000))])
    return store


@step
async def touch(number: int) -> int:
    return number


@workflow(lane="narrow")
async def one_of_a_share(number: int) -> int:
    return await touch(number)


@workflow
async def many_of_two_shares() -> int:
    handles = [await start(one_of_a_share, n, share="ab"[n % 2]) for n in range(4)]
    return sum(await gather(*(handle.result() for handle in handles)))


def test_places_come_back_and_every_run_gets_its_turn():
    report = crash_everywhere(many_of_two_shares, wrap=narrow, doubles=3)

    assert report.boundaries > 5

"""Attempts that fail, and what is tried again."""

from __future__ import annotations

from datetime import timedelta

import pytest

from holdfast.errors import RunCancelled, RunFailed
from holdfast.service.tasks.lease_state import Retried, RunEnded
from holdfast.views.values import instant
from tests.engine.waiting import one_lease as one


@pytest.mark.parametrize("kind", ["transient", "timeout"])
def test_what_may_go_well_next_time_is_tried_again_as_agreed(idle, holder, clock, kind):
    run = idle.start("render", 1, policy={"retries": 2, "delay": "10s", "jitter": 0.0})
    for attempt, wait in ((1, 10), (2, 20)):
        lease = one(holder)
        assert lease.attempt == attempt
        again_at = instant(clock.now()) + timedelta(seconds=wait)
        assert lease.fail(kind, "no disk") == Retried(again_at)
        assert holder.claim() == []
        clock.advance(f"{wait}s")
    assert one(holder).fail(kind, "no disk") == RunEnded("failed")
    with pytest.raises(RunFailed, match="no disk"):
        run.result()


def test_without_an_agreement_there_is_no_second_attempt(idle, holder):
    idle.start("render", 1)

    assert one(holder).fail("transient", "no disk") == RunEnded("failed")


def test_what_the_machine_is_to_blame_for_is_tried_again_at_once_up_to_a_limit(idle, holder):
    idle.start("render", 1, policy={"reclaims": 2})
    for _ in range(2):
        lease = one(holder)
        assert isinstance(lease.fail("infrastructure", "power"), Retried)
        assert lease.attempt == 1
    assert one(holder).fail("infrastructure", "power") == RunEnded("failed")


def test_what_is_hopeless_fails_and_what_was_stopped_is_cancelled(idle, holder):
    runs = [idle.start("render", number, policy={"retries": 5}) for number in range(2)]
    hopeless, stopped = holder.claim(2)

    assert hopeless.fail("permanent", "bad file", {"line": 7}) == RunEnded("failed")
    assert stopped.cancel("not needed") == RunEnded("cancelled")
    with pytest.raises(RunFailed) as failed:
        runs[0].result()
    assert failed.value.error["facts"] == {"line": 7}
    with pytest.raises(RunCancelled):
        runs[1].result()

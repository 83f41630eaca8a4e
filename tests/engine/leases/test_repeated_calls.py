"""A call of a holder that is made again is answered the same."""

from __future__ import annotations

import pytest

from holdfast.errors import LeaseLost
from tests.engine.waiting import one_lease as one


def test_a_call_made_again_is_answered_the_same(idle, holder, clock):
    idle.start("render", 1, policy={"retries": 1, "delay": "10s"})
    idle.start("render", 2)
    first, second = holder.claim(2)
    retried = first.fail("transient", "no disk")
    ended = second.complete({"a": 1})
    clock.advance("1s")

    assert first.fail("transient", "no disk") == retried
    assert second.complete({"a": 1}) == ended
    with pytest.raises(LeaseLost):
        second.complete({"a": 2})
    with pytest.raises(LeaseLost):
        second.fail("permanent", "no")


@pytest.mark.parametrize(
    "call", [lambda lease: lease.fail("transient", "x"), lambda lease: lease.delay("5h")]
)
def test_a_call_made_again_is_answered_the_same_though_an_operator_came_between(idle, holder, call):
    run = idle.start("render", 1, policy={"retries": 1, "delay": "1h"})
    lease = one(holder)
    first = call(lease)
    idle.tasks.prioritise(run.id, 5)
    idle.waits.release(run.id)
    assert call(lease) == first
    with pytest.raises(LeaseLost):
        lease.complete()

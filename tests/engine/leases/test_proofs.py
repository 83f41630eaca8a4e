"""Proofs of a lease, taken up elsewhere or refused."""

from __future__ import annotations

import pytest

from holdfast import Engine
from holdfast.errors import BadLease, LeaseLost
from holdfast.service.tasks.lease_state import RunEnded
from tests.engine.waiting import one_lease as one


def test_a_proof_takes_the_lease_up_elsewhere(idle, holder, database, clock):
    run = idle.start("render", 1)
    proof = one(holder).proof
    other = Engine(database, clock=clock)

    lease = other.tasks.lease(proof)
    lease.renew()
    assert lease.complete(5) == RunEnded("completed")
    assert other.tasks.lease(proof).complete(5) == RunEnded("completed")
    assert run.result() == 5
    other.close()


def test_a_stale_proof_is_refused(idle, holder):
    idle.start("render", 1, policy={"retries": 1, "delay": "0s"})
    first = one(holder)
    first.fail("transient", "x")
    second = one(holder)

    with pytest.raises(LeaseLost):
        first.complete(1)
    with pytest.raises(LeaseLost):
        idle.tasks.lease(first.proof).complete(1)
    assert second.complete(2) == RunEnded("completed")


@pytest.mark.parametrize(
    "proof",
    [
        "",
        "abc",
        "abc.1",
        "abc..s",
        ".1.s",
        "abc.x.s",
        pytest.param(f"abc.{'9' * 5000}.s", id="long"),
        7,
    ],
)
def test_a_partial_proof_is_refused_by_name(idle, proof):
    with pytest.raises(BadLease):
        idle.tasks.lease(proof)


def test_an_unknown_lease_is_refused(idle):
    for text in ("nobody.1.s", "no\0body.1.s", "no\ud800body.1.s"):
        with pytest.raises(LeaseLost, match="no such lease"):
            idle.tasks.lease(text)

"""Faking a step in a test: its work is replaced, its record is not."""

from __future__ import annotations

import asyncio

import pytest

import holdfast
from holdfast import compensate, step, task, workflow
from holdfast.errors import BadOption, RunFailed
from holdfast.testing import Lab

done: list[str] = []


@step(retries=2, delay="1s")
async def charge(order: str, amount: int = 1) -> str:
    done.append(f"charge {order}")
    return f"paid {order}"


@step
def pack(order: str) -> str:
    done.append(f"pack {order}")
    return f"packed {order}"


@step
async def refund(payment: str) -> None:
    done.append(f"refund {payment}")


@task
async def weigh(order: str) -> int:
    done.append(f"weigh {order}")
    return 1


@workflow
async def faked_order(order: str) -> list[object]:
    payment = await charge.options(id="pay")(order, amount=3)
    compensate(refund, payment)
    return [payment, await pack(order), await weigh(order)]


@workflow
def plain_faked_order(order: str) -> list[object]:
    return [charge.sync(order), pack(order)]


@pytest.fixture(autouse=True)
def _calm():
    done.clear()


@pytest.fixture(params=["sqlite", "postgres"])
def lab(request):
    if request.param == "sqlite":
        with Lab() as lab:
            yield lab
        return
    with request.getfixturevalue("postgres_server").lend() as url, Lab(url) as lab:
        yield lab


def test_a_faked_step_returns_what_the_test_says_and_is_recorded(lab):
    charged = lab.fake(charge, returns="free")
    lab.fake(pack, lambda order: f"faked {order}")
    lab.fake(weigh, returns=7)

    run = lab.start(faked_order, "a")

    assert lab.finish(run) == ["free", "faked a", 7]
    assert charged.calls == [(("a",), {"amount": 3})]
    assert [item.step for item in lab.history(run) if item.kind == "step_completed"] == [
        "pay",
        "pack",
    ]
    assert done == []


def test_a_faked_step_of_a_plain_workflow(lab):
    lab.fake(charge, returns="free")
    lab.fake(pack, returns="faked")

    assert lab.run_to_end(plain_faked_order, "a") == ["free", "faked"]


def test_a_faked_failure_is_retried_and_compensated(lab):
    packed = lab.fake(pack, raises=ValueError("no box"))
    refunded = lab.fake(refund)
    attempts = []

    async def flaky(order: str, amount: int) -> str:
        attempts.append(holdfast.info().attempt)
        if len(attempts) < 3:
            raise ConnectionError("busy")
        return "at last"

    lab.fake(charge, flaky)

    with pytest.raises(RunFailed, match="no box"):
        lab.run_to_end(faked_order, "a")

    assert attempts == [1, 2, 3]
    assert len(packed.calls) == 1
    assert refunded.calls == [(("at last",), {})]


def test_the_step_works_again_after_the_lab():
    with Lab() as lab:
        lab.fake(charge, returns="one")
        lab.fake(charge, returns="two")
        assert asyncio.run(charge("a")) == "two"

    assert asyncio.run(charge("a")) == "paid a"


def test_only_steps_can_be_faked(holdfast_lab):
    with pytest.raises(BadOption, match="@step or @task"):
        holdfast_lab.fake(faked_order, returns=1)
    with pytest.raises(BadOption, match="pass a function, or what it returns"):
        holdfast_lab.fake(pack, lambda order: "x", returns="y")

    async def wrong(order: str) -> str:
        return order

    with pytest.raises(BadOption, match="plain function"):
        holdfast_lab.fake(pack, wrong)

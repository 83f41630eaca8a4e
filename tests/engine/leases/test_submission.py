"""Tasks that are submitted once, claimed at once, and seen by their workers as they were given."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import AsyncEngine
from holdfast.connect.blocking.tasks import Created, Duplicate
from holdfast.errors import BadOption, RunExists
from tests.engine.waiting import one_lease as one


def test_a_submission_tells_a_created_task_from_a_duplicate(idle):
    first = idle.tasks.submit("render", {"size": 3}, key="order-7")
    again = idle.tasks.submit("render", {"size": 3}, key="order-7")

    assert isinstance(first, Created) and first.created
    assert isinstance(again, Duplicate) and not again.created
    assert again.run.id == first.run.id
    with pytest.raises(RunExists):
        idle.tasks.submit("render", {"size": 4}, key="order-7")


def test_an_asynchronous_submission_answers_the_same(database):
    async def main():
        async with AsyncEngine(database, work=False) as engine:
            answers = [await engine.tasks.submit("render", 1, id="r1") for _ in range(2)]
            return [(answer.created, answer.run.id) for answer in answers]

    assert asyncio.run(main()) == [(True, "r1"), (False, "r1")]


def test_a_program_claims_once_without_a_worker_of_its_own(idle):
    idle.tasks.submit("render", 1)

    (lease,) = idle.tasks.claim(workflows=["render"], worker="shell", ttl="1m")

    assert lease.complete(7).status == "completed"
    assert idle.tasks.claim(workflows=["render"], wait="1ms") == []
    with pytest.raises(BadOption):
        idle.tasks.claim()


@pytest.mark.parametrize(
    ("args", "kwargs", "value"),
    [
        ((), {}, None),
        (({"a": 1},), {}, {"a": 1}),
        (([1, 2],), {}, [1, 2]),
        ((), {"size": 3}, {"size": 3}),
        ((1, 2), {}, {"args": [1, 2], "kwargs": {}}),
        ((1,), {"size": 3}, {"args": [1], "kwargs": {"size": 3}}),
    ],
)
def test_a_worker_sees_the_arguments_as_they_were_given(idle, holder, args, kwargs, value):
    idle.start("render", *args, **kwargs)

    lease = one(holder)

    assert (lease.args, lease.kwargs, lease.input) == (list(args), kwargs, value)

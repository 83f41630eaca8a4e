"""Workflows that go by the same name."""

from __future__ import annotations

import pytest

import holdfast
from holdfast import Engine, workflow
from holdfast.errors import WorkflowExists


def define(place: str, answer: str) -> holdfast.authoring.code.workflow.Workflow:
    """Define a workflow `twice` as if in a module of its own."""
    source = (
        "from holdfast import workflow\n@workflow\nasync def twice(n: int) -> str:\n    return"
        f" {answer!r}\n"
    )
    names: dict = {}
    exec(compile(source, place, "exec"), names)
    return names["twice"]


def test_two_of_one_name_are_told_apart_by_who_has_the_function(database):
    one, other = define("one.py", "one"), define("other.py", "other")

    @workflow
    async def parent() -> str:
        return await one(1)

    with Engine(database) as engine:
        with pytest.raises(WorkflowExists, match=r"one\.py:2.*other\.py:2"):
            engine.start("twice", 1)
        assert engine.start(other, 1).result(timeout=20) == "other"
    with Engine(database) as engine:
        assert engine.start(parent).result(timeout=20) == "one"


def test_a_local_workflow_does_not_come_before_one_that_a_module_defines(database):
    source = (
        "from holdfast import workflow\n@workflow\nasync def lonely(n: int) -> str:\n    return"
        " 'module'\n"
    )
    exec(compile(source, "lonely.py", "exec"), {})

    @workflow
    async def lonely(n: int) -> str:
        return "local"

    with Engine(database) as engine:
        assert engine.start("lonely", 1).result(timeout=20) == "module"
        assert engine.start(lonely, 1, id="x").result(timeout=20) == "local"

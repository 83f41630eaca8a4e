"""Processes as plain data."""

import pytest

from holdfast.errors import ModelRefused
from holdfast.testing.lab import Lab


def node(kind, *edges, **more):
    return {"type": {"kind": kind, **more}, "outgoing_edges": list(edges)}


def to(target, condition=None):
    return {"target": target} | ({} if condition is None else {"condition": condition})


def form(**nodes):
    return {"id": "form", "start": "start", "nodes": nodes}


CHOICE = form(
    start=node("Start", to("choose")),
    choose=node(
        "ExclusiveGateway",
        to("low", {"type": "default"}),
        to("high", {"type": "expression", "expression": "amount > 100 and vip"}),
        to("exact", {"type": "variable_eq", "key": "amount", "value": "7"}),
    ),
    low=node("ServiceTask", to("end"), handler_ref="mark-low"),
    high=node("ServiceTask", to("end"), handler_ref="mark-high"),
    exact=node("ServiceTask", to("end"), handler_ref="mark-exact"),
    end=node("End"),
)
HANDLERS = {f"mark-{name}": lambda name=name: {"marked": name} for name in ("low", "high", "exact")}


@pytest.mark.parametrize(
    ("variables", "marked"),
    [
        ({"amount": 200, "vip": "yes"}, "high"),
        ({"amount": 200, "vip": ""}, "low"),
        ({"amount": 7, "vip": ""}, "exact"),
    ],
)
def test_conditions_choose_and_the_default_is_taken_last(variables, marked):
    with Lab(handlers=HANDLERS) as lab:
        lab.engine.models.deploy(CHOICE)

        assert lab.run_to_end("form", variables)["marked"] == marked


def test_a_fork_and_a_join():
    forked = form(
        start=node("Start", to("fork")),
        fork=node("ParallelFork", to("a"), to("b")),
        a=node("UserTask", to("join")),
        b=node("UserTask", to("join")),
        join=node("ParallelJoin", to("end"), expected=2),
        end=node("End"),
    )
    with Lab() as lab:
        lab.engine.models.deploy(forked)
        run = lab.start("form", {})
        lab.settle()
        for task in lab.engine.models.tasks():
            lab.engine.models.complete(task.id, {task.element: True})

        assert lab.finish(run) == {"a": True, "b": True}


@pytest.mark.parametrize(
    "bad",
    [
        {**CHOICE, "start": "nowhere"},
        {**CHOICE, "colour": "red"},
        form(start=node("Start", to("gone"))),
        form(start=node("Begin")),
        form(start=node("Start", to("t")), t=node("ServiceTask")),
        form(start=node("Start", to("j")), j=node("ParallelJoin", expected=3)),
        {"id": "form", "start": "start", "nodes": [1]},
    ],
)
def test_a_form_that_is_not_valid_is_refused_with_its_problems(bad):
    with Lab(handlers=HANDLERS) as lab:
        with pytest.raises(ModelRefused) as refusal:
            lab.engine.models.deploy(bad)

        assert any(problem.severity == "error" for problem in refusal.value.problems)
        assert lab.engine.models.list() == []

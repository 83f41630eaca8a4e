"""Decorators, codecs and errors refuse values of odd types by name."""

from __future__ import annotations

from typing import Any

import holdfast
from holdfast import bpmn
from holdfast.codecs import Compressed, Encrypted
from tests.engine.wrong_types.calls import SCHEDULES
from tests.engine.wrong_types.probing import Call, faults
from tests.engine.wrong_types.values import plain


async def nothing() -> None:
    """Do nothing."""


def declared(**given: Any) -> None:
    """Declare a schedule, and forget it: engines of other tests would write it."""
    try:
        holdfast.schedule(**given)(plain)
    finally:
        plain.schedules.clear()


DECORATORS = [
    Call(
        "workflow",
        lambda **given: holdfast.workflow(**given)(nothing),
        {},
        ("name", "version", "lane", "capabilities", "serves", "stop_undoing_on_failure"),
    ),
    Call(
        "step",
        lambda **given: holdfast.step(**given)(nothing),
        {},
        (
            "name",
            "retries",
            "delay",
            "factor",
            "cap",
            "jitter",
            "when",
            "timeout",
            "transactional",
            "capture",
        ),
    ),
    Call(
        "task",
        lambda **given: holdfast.task(**given)(nothing),
        {},
        (
            "name",
            "version",
            "lane",
            "capabilities",
            "serves",
            "retries",
            "delay",
            "factor",
            "cap",
            "jitter",
            "when",
            "timeout",
            "transactional",
        ),
    ),
    Call(
        "bpmn.handler",
        lambda name, **given: bpmn.handler(name, **given)(nothing),
        {"name": "odd-handler"},
        ("retries", "delay", "factor", "cap", "jitter", "when", "timeout", "transactional"),
    ),
    Call("bpmn.handler function", lambda fn: bpmn.handler("odd-handler")(fn), {"fn": nothing}),
    Call("schedules.set", declared, {"interval": "1h"}, (*SCHEDULES, "name")),
]


def test_codecs_and_errors_refuse_odd_values_by_name():
    keys = {"k1": b"1" * 32}

    assert (
        faults(
            [
                Call("Compressed", Compressed, {"over": 1, "level": 1, "codec": None}),
                Call("Encrypted", Encrypted, {"keys": keys, "current": "k1", "codec": None}),
                Call(
                    "Encrypted key",
                    lambda value: Encrypted({"k1": value}, "k1"),
                    {"value": b"1" * 32},
                ),
                Call(
                    "Retry", lambda after: repr(holdfast.Retry("again", after=after)), {"after": 1}
                ),
                Call(
                    "BpmnError",
                    lambda **given: repr(bpmn.BpmnError(**given)),
                    {"code": "c", "message": "m", "fact": 1},
                ),
                Call("Fail", lambda message: repr(holdfast.Fail(message)), {"message": "no"}),
            ]
        )
        == []
    )


def test_decorators_refuse_odd_values_by_name():
    assert faults(DECORATORS) == []

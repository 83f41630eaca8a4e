"""Gates with forms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import msgspec
import pytest

from holdfast import gate, workflow
from holdfast.errors import RunFailed, WrongAnswer
from tests.engine.gates.workflows import calls, note, opened
from tests.store.helpers import wait_until


@dataclass
class Refund:
    amount: int
    reason: str = ""


class Strict(msgspec.Struct):
    amount: Annotated[int, msgspec.Meta(gt=0)]


@workflow
async def refund() -> list:
    answer = await gate("How much?", form=Refund)
    return [type(answer.value).__name__, answer.value.amount]


@workflow
async def strict() -> int:
    return (await gate("How much?", form=Strict)).value.amount


def test_a_form_comes_back_as_its_model(engine):
    run = engine.start(refund)
    open_gate = opened(engine, run)

    assert open_gate.form["$defs"]["Refund"]["required"] == ["amount"]
    with pytest.raises(WrongAnswer, match=r"\$\.amount"):
        engine.gates.approve(open_gate, by="ann", form={"amount": "much"})
    with pytest.raises(WrongAnswer, match="amount"):
        engine.gates.approve(open_gate, by="ann")
    assert engine.gates.entries(open_gate) == []
    engine.gates.approve(open_gate, by="ann", form=Refund(7))

    assert run.result(timeout=60) == ["Refund", 7]


def test_a_struct_with_limits_is_a_form(engine):
    run = engine.start(strict)
    open_gate = opened(engine, run)

    with pytest.raises(WrongAnswer, match=r"\$\.amount"):
        engine.gates.approve(open_gate, by="ann", form={"amount": 0})
    engine.gates.approve(open_gate, by="ann", form={"amount": 3})

    assert run.result(timeout=60) == 3


@pytest.mark.sqlite_only
def test_a_pydantic_model_is_a_form_and_what_its_schema_cannot_say_the_workflow_hears(engine):
    pydantic = pytest.importorskip("pydantic")

    class Even(pydantic.BaseModel):
        number: int

        @pydantic.field_validator("number")
        @classmethod
        def even(cls, value: int) -> int:
            if value % 2:
                raise ValueError("odd")
            return value

    @workflow(name="asks_for_even")
    async def even() -> int:
        while True:
            try:
                return (await gate("An even number?", form=Even)).value.number
            except WrongAnswer:
                await note("asked again")

    run = engine.start(even)
    first_gate = opened(engine, run)
    with pytest.raises(WrongAnswer, match="number"):
        engine.gates.approve(first_gate, by="ann", form={"number": "two"})
    engine.gates.approve(first_gate, by="ann", form={"number": 3})
    second = wait_until(lambda: engine.gates.list(run=run.id))[0]
    engine.gates.approve(second, by="ann", form={"number": 4})

    assert run.result(timeout=60) == 4
    assert calls == ["asked again"]


def test_a_gate_with_a_rule_that_is_not_checked_does_not_open(engine):
    pydantic = pytest.importorskip("pydantic")
    no_zero = pydantic.create_model(
        "NoZero", amount=(int, pydantic.Field(json_schema_extra={"not": {"const": 0}}))
    )

    @workflow
    async def unchecked_form() -> None:
        await gate("How much?", form=no_zero)

    run = engine.start(unchecked_form)

    with pytest.raises(RunFailed, match=r"\$\.amount: not"):
        run.result(timeout=60)
    assert engine.gates.list() == []

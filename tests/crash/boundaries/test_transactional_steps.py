"""Transactional steps, killed at every commit, and within it."""

from __future__ import annotations

import pytest

import holdfast
from holdfast import step, workflow
from holdfast.testing import internals
from tests.crash.boundaries.workflows import add, double, everywhere


@step(transactional=True)
def enter(amount: int) -> int:
    connection = holdfast.sql.connection()
    connection.execute("CREATE TABLE IF NOT EXISTS account (run TEXT, amount INTEGER)")
    connection.execute("INSERT INTO account VALUES (?, ?)", (holdfast.info().run_id, amount))
    return amount


@workflow
async def paying(x: int) -> int:
    return await add(await enter.aio(x), await enter.aio(x + 1))


@workflow
def paying_blocking(x: int) -> int:
    return double(enter(x)) + enter(x + 1)


@pytest.mark.parametrize("shape", [paying, paying_blocking], ids=lambda shape: shape.name)
def test_a_transactional_step_takes_effect_exactly_once(shape):
    def entered_once(lab):
        rows = internals(lab.engine).store.database.fetch(
            "SELECT amount FROM account ORDER BY amount"
        )
        assert [row["amount"] for row in rows] == [2, 3]

    everywhere(shape, 2, check=entered_once)

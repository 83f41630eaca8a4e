"""What the hot path costs in statements and transactions: it does not depend on the machine, so
nobody makes it longer unseen."""

from __future__ import annotations

import pytest

from holdfast import Engine, step, workflow
from holdfast.testing import internals


@step
async def cheap(n: int) -> int:
    return n


@workflow
async def counted(steps: int) -> int:
    for n in range(steps):
        await cheap(n)
    return steps


@pytest.fixture
def statements(tmp_path):
    """Return a function that runs the workflow of *n* steps and tells what was said to the database
    meanwhile."""
    with Engine(tmp_path / "cost.db", poll="1h", session_ttl="1h", driver="sqlite3") as engine:
        engine.start(counted, 1).result(timeout=20)
        said: list[str] = []
        internals(engine).store.database._db.raw.set_trace_callback(said.append)

        def once(n: int) -> list[str]:
            said.clear()
            engine.start(counted, n).result(timeout=60)
            return [
                statement.split()[0]
                for statement in said
                if not statement.startswith("PRAGMA data_version")
            ]

        def run(n: int) -> list[str]:
            """Of three times, the one in which the worker did the least besides."""
            return min((once(n) for _ in range(3)), key=len)

        yield run
        internals(engine).store.database._db.raw.set_trace_callback(None)


START = ["BEGIN", "SELECT", "INSERT", "COMMIT"]
STEP = ["INSERT"]  # which begins and commits by itself
LAST_STEP_AND_END = ["BEGIN", "UPDATE", "INSERT", "INSERT", "COMMIT"]


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_a_run_is_one_transaction_per_step_and_one_more(statements, steps):
    assert statements(steps) == START + STEP * (steps - 1) + LAST_STEP_AND_END


def test_step_ten_thousand_costs_what_step_ten_does(statements):
    assert len(statements(1000)) == len(START) + 999 * len(STEP) + len(LAST_STEP_AND_END)

"""An agent with a token budget: it reserves tokens before each call. When none are left, its run is
blocked until an operator raises the budget.

A blocked run costs a row and nothing else. The model is a local function, so that nothing leaves
this machine.

    python examples/token_budget/workflow.py
"""

from __future__ import annotations

import sys
import time

from holdfast import Engine, step, workflow
from holdfast.budgets import reserve, spend
from holdfast.errors import BudgetExceeded

MOST = 1000
"""Tokens that a call may take at most."""


def complete(prompt: str) -> tuple[str, int]:
    """Stand for a model: return an answer and the tokens that it cost."""
    return f"notes on {prompt}", 600


@step(retries=3, delay="50ms")
async def research(topic: str) -> str:
    """Ask the model. Without room for the longest answer, the run waits until the budget is
    raised."""
    async with reserve(tokens=MOST):
        answer, tokens = complete(topic)
        spend(tokens=tokens)
    return answer


@step
async def title(topics: list[str]) -> str:
    """Find a title: by the model if there is room, otherwise by a rule."""
    try:
        async with reserve(tokens=MOST):
            spend(tokens=50)
            return f"All about {topics[0]}"
    except BudgetExceeded:
        return "Untitled"


@workflow
async def report(topics: list[str]) -> str:
    """Research each topic, then put it all together."""
    notes = [await research(topic) for topic in topics]
    return f"{await title(topics)}: {'; '.join(notes)}"


def main(path: str = "token_budget.db") -> None:
    """Run an agent into its limit, raise the limit, and let the agent continue."""
    with Engine(path) as engine:
        run = engine.start(report, ["kelp", "tides", "rocks"], budget={"tokens": 2000})
        while run.status != "blocked":
            time.sleep(0.01)
        print(run.why().reason.replace(run.id, "RUN"))
        engine.budgets.raise_limits(f"tree:{run.id}", {"tokens": 1000})
        print(run.result())
        print(engine.budgets.usage(run.id).total["tokens"])


if __name__ == "__main__":
    main(*sys.argv[1:])

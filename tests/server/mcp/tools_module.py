"""Workflows that the MCP tests offer as tools, also in processes of their own."""

from __future__ import annotations

from typing import Any

from holdfast import gate, step, workflow


@workflow(tool=True, name="mcp.add")
async def add(left: int, right: int = 1) -> dict[str, int]:
    """Add two numbers."""
    return {"sum": left + right}


@step
async def note(line: str) -> str:
    return line


@workflow(tool=True, name="mcp.ship")
async def ship(order: str) -> str:
    """Ship an order if a person agrees."""
    line = await note(f"packed {order}")
    answer = await gate(f"Ship {order}?", timeout="1h")
    return f"{line}, {answer.choice}"


@workflow(tool="task", name="mcp.long")
async def long() -> str:
    """Run only as a task."""
    return "done"


@workflow(tool="call", name="mcp.fails")
async def fails(**arguments: Any) -> str:
    """Fail."""
    raise ValueError("no such order")


@workflow(name="mcp.hidden")
async def hidden() -> str:
    return "hidden"


WORKFLOWS = [add, ship, long, fails, hidden]

"""The handler of each command.

A handler executes a command: it returns the outcome if there is one at once, otherwise it leaves a
pending command behind.
"""

from __future__ import annotations

from holdfast.core.commands import Command
from holdfast.core.events import Event
from holdfast.engine.execution.pending import (
    budgets,
    children,
    conditions,
    gates,
    graphs,
    incidents,
    instructions,
    messages,
    program,
    signals,
    steps,
    subscriptions,
    timers,
    tokens,
)
from holdfast.engine.execution.pending.base import Execution, Handler

_KINDS = (
    steps,
    timers,
    signals,
    conditions,
    gates,
    children,
    budgets,
    graphs,
    messages,
    subscriptions,
    incidents,
    instructions,
    tokens,
    program,
)
HANDLERS: dict[type, Handler] = {
    command: handler for kind in _KINDS for command, handler in kind.HANDLERS.items()
}


def execute(run: Execution, command: Command) -> Event | None:
    """Execute a command; return its outcome if it has one at once."""
    return HANDLERS[type(command)](run, command)

"""What a task does when a token reaches it, decided by the model and the handlers of a process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from holdfast.authoring.bpmn.compile import NodeSpec


class TaskBinding(msgspec.Struct, frozen=True):
    """The behaviour of a task."""

    kind: str
    """``handler``, ``external``, ``expression``, ``send``, ``pass`` or ``missing``."""
    handler: Any = None
    """The function that does the work, with its options."""
    parameters: tuple[str, ...] | None = None
    """The variables that the handler needs; None for all that are visible."""
    retries: int | None = None


BindTask = Callable[[NodeSpec, str | None], TaskBinding]
"""Decides what a task does, given the topic that its model has computed, or None."""

"""Bind tasks as a history shows that they were done, to see a run without its handlers."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.authoring.bpmn.binding import BindTask, TaskBinding
from holdfast.authoring.bpmn.compile import NodeSpec
from holdfast.core.event_table import STEP_ENDS
from holdfast.core.events import Event, EventKind

_STEPS = STEP_ENDS | {EventKind.STEP_STARTED, EventKind.STEP_RETRIED, EventKind.STEP_CALLED}


class RecordedBinder:
    """Decides what each task has done from the events of a run; tasks without events are bound as
    in this process."""

    def __init__(self, bind: BindTask, history: Sequence[Event]) -> None:
        self._bind: BindTask = bind
        self._kinds: dict[str, str] = {}
        for event in history:
            element = (event.step or "").partition("#")[0]
            if event.kind in _STEPS:
                self._kinds.setdefault(element, "handler")
            elif event.kind == EventKind.CHILD_STARTED:
                self._kinds.setdefault(element, "external")

    def __call__(self, node: NodeSpec, topic: str | None = None) -> TaskBinding:
        kind = self._kinds.get(node.id)
        if kind is not None:
            return TaskBinding(kind, parameters=())
        binding = self._bind(node, topic)
        if binding.kind == "missing":
            return TaskBinding("handler", parameters=())
        return binding

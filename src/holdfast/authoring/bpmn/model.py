"""The model of a BPMN file: what it states, without any judgement about it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

ACTIVITIES = frozenset(
    {
        "task",
        "userTask",
        "serviceTask",
        "scriptTask",
        "sendTask",
        "receiveTask",
        "manualTask",
        "businessRuleTask",
        "callActivity",
        "subProcess",
        "transaction",
        "adHocSubProcess",
    }
)
SUBPROCESSES = frozenset({"subProcess", "transaction", "adHocSubProcess"})
EVENTS = frozenset(
    {"startEvent", "endEvent", "intermediateCatchEvent", "intermediateThrowEvent", "boundaryEvent"}
)
GATEWAYS = frozenset(
    {
        "exclusiveGateway",
        "parallelGateway",
        "inclusiveGateway",
        "eventBasedGateway",
        "complexGateway",
    }
)
NODES = ACTIVITIES | EVENTS | GATEWAYS
"""The tags of flow nodes: a token can be at each of them."""

WAITING = frozenset({"timer", "message", "signal", "conditional"})
"""The triggers that something outside, or time, sets off."""

CHOREOGRAPHY = frozenset({"choreographyTask", "subChoreography", "callChoreography"})


class ModelExpression(msgspec.Struct, frozen=True):
    """A text to evaluate: ``juel``, ``feel``, ``condition`` (of the JSON form) or ``literal``; any
    other language cannot be evaluated. A ``list`` or ``map`` has the values of its parts."""

    text: str
    language: str
    parts: tuple[tuple[str, ModelExpression], ...] = ()
    """The entries of a list or map, with their keys."""


class Assignment(msgspec.Struct, frozen=True):
    """One line of a mapping: the value of an expression becomes the variable *target*."""

    source: ModelExpression
    target: str


class EventDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """The trigger of an event."""

    event: str
    """``timer``, ``message``, ``signal``, ``error``, ``escalation``, ``conditional``, ``link``,
    ``terminate``, ``cancel`` or ``compensate``."""
    ref: str | None = None
    name: str | None = None
    """The name of the message, signal or link; of an error or escalation its own name."""
    code: str | None = None
    timer: str | None = None
    """``timeDuration``, ``timeDate`` or ``timeCycle``."""
    expression: ModelExpression | None = None
    """The time, or the condition."""
    key: ModelExpression | None = None
    """The correlation key of a message."""
    activity: str | None = None
    waits: bool = True
    """Whether a token that throws compensation waits until it is done."""
    is_declared: bool = True
    """Whether the file declares the message, signal, error or escalation that *ref* names."""
    line: int = 0


class LoopCharacteristics(msgspec.Struct, frozen=True, kw_only=True):
    """How often an activity runs: ``parallel`` or ``sequential`` (multi-instance), ``standard``."""

    kind: str
    cardinality: ModelExpression | None = None
    collection: ModelExpression | None = None
    item: str | None = None
    completion: ModelExpression | None = None
    condition: ModelExpression | None = None
    maximum: int | None = None
    test_before: bool = False
    output: str | None = None
    """The variable that collects the results, by item."""
    output_item: ModelExpression | None = None


class FormField(msgspec.Struct, frozen=True, kw_only=True):
    """One field of the form of a user task."""

    id: str
    label: str | None = None
    type: str = "string"
    required: bool = False
    default: str | None = None
    options: tuple[tuple[str, str], ...] = ()
    """The values of an enumeration, with their labels."""
    minimum: str | None = None
    maximum: str | None = None
    shortest: str | None = None
    longest: str | None = None
    """The limits of the length of a text."""


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """What the extensions of a dialect say about an activity or event."""

    names: tuple[str, ...] = ()
    """The names under which a handler is looked for, in order."""
    topic: str | None = None
    """The topic that remote workers serve."""
    computed_topic: ModelExpression | None = None
    """Gives the topic, and the name of the handler, when a token reaches the task."""
    headers: tuple[tuple[str, str], ...] = ()
    retries: int | None = None
    delay: str | None = None
    computed_retries: ModelExpression | None = None
    """Gives the number of attempts, or a cycle such as ``R3/PT10M``."""
    expression: ModelExpression | None = None
    """An expression that is the whole work."""
    script: ModelExpression | None = None
    decision: str | None = None
    decision_result: str | None = None
    """How the value of the decision becomes a variable, such as ``singleEntry``."""
    result: str | None = None
    inputs: tuple[Assignment, ...] = ()
    outputs: tuple[Assignment, ...] = ()
    passes_all_in: bool = False
    passes_all_out: bool = False
    business_key: ModelExpression | None = None
    version: str | None = None
    """The version of a called process; None for the latest one."""
    assignee: ModelExpression | None = None
    users: tuple[ModelExpression, ...] = ()
    groups: tuple[ModelExpression, ...] = ()
    due: ModelExpression | None = None
    form_key: str | None = None
    form: tuple[FormField, ...] = ()
    form_schema: str | None = None
    """The JSON text of a form of a modeller."""
    saga: str | None = None
    ignored: tuple[str, ...] = ()
    """Extensions that would change what the element does, and have no effect here."""
    error_code_variable: str | None = None
    error_message_variable: str | None = None
    missed: str | None = None
    """``each`` or ``once``: what a cycle does about firings that it missed."""


class Element(msgspec.Struct, frozen=True, kw_only=True):
    """One flow node, sequence flow, data object or other part of a model."""

    id: str
    tag: str
    kind: str
    """The tag, with the event if there is one: ``boundaryEvent:timer``."""
    name: str | None = None
    parent: str | None = None
    """The id of the process or sub-process that it belongs to."""
    process: str | None = None
    line: int = 0
    has_id: bool = True
    source: str | None = None
    target: str | None = None
    condition: ModelExpression | None = None
    has_empty_condition: bool = False
    default: str | None = None
    events: tuple[EventDefinition, ...] = ()
    attached_to: str | None = None
    interrupting: bool = True
    states_interrupting: bool = False
    """Whether the file states it, or the default of the standard applies."""
    is_event_subprocess: bool = False
    is_for_compensation: bool = False
    called: str | None = None
    data: str | None = None
    """The id of the data object that a reference stands for."""
    message: str | None = None
    """The name of the message of a send or receive task."""
    message_key: ModelExpression | None = None
    """The correlation key of that message."""
    message_ref: str | None = None
    loop: LoopCharacteristics | None = None
    is_sequential: bool = False
    """Whether an ad hoc sub-process runs one activity at a time."""
    completion: ModelExpression | None = None
    """The completion condition of an ad hoc sub-process."""
    cancels_remaining: bool = True
    instantiates: bool = False
    needs_all: bool = False
    """Whether an event with several triggers waits for all of them, not for the first one."""
    incoming: tuple[str, ...] = ()
    outgoing: tuple[str, ...] = ()
    work: Work = Work()


class ProcessInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One process of a model."""

    id: str
    name: str | None = None
    executable: bool = False
    """Whether the file declares it executable."""
    line: int = 0
    saga: str | None = None


class ModelProblem(msgspec.Struct, frozen=True, kw_only=True):
    """Something in a model that prevents the execution of a process, or that is ignored."""

    severity: str
    """``error`` or ``warning``."""
    code: str
    message: str
    process: str | None = None
    element: str | None = None
    line: int | None = None
    hint: str | None = None

    def __str__(self) -> str:
        place = "" if self.line is None else f"{self.line}: "
        element = "" if self.element is None else f" {self.element}"
        hint = f" ({self.hint})" if self.hint else ""
        return f"{place}{self.severity}{element}: {self.message}{hint}"


class Model:
    """What a file contains: processes, elements by id, counts by label, and problems."""

    def __init__(
        self,
        *,
        xml: str,
        processes: tuple[ProcessInfo, ...],
        elements: Mapping[str, Element],
        counts: Mapping[str, int],
        associations: tuple[tuple[str, str], ...] = (),
        notes: tuple[ModelProblem, ...] = (),
    ) -> None:
        self.xml: str = xml
        self.processes: tuple[ProcessInfo, ...] = processes
        self.elements: Mapping[str, Element] = elements
        self.counts: Mapping[str, int] = counts
        self.associations: tuple[tuple[str, str], ...] = associations
        """Pairs of ids: from a compensation event to its handler, or any other association."""
        self.notes: tuple[ModelProblem, ...] = notes
        """Problems that the reader itself has noticed."""
        self.problems: list[ModelProblem] = []
        """All problems, in the order of lines."""

    def __repr__(self) -> str:
        names = ", ".join(process.id for process in self.processes)
        return f"<model of {names}, {len(self.elements)} elements>"

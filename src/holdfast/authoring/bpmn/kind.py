"""BPMN models as a kind of definition: how they are read, stored and loaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import msgspec

from holdfast.authoring import registry
from holdfast.authoring.bpmn.decisions import decision_handler
from holdfast.authoring.bpmn.definition import ModelDefinition, ProcessContent
from holdfast.authoring.bpmn.handlers import BoundHandler, HandlerBinder
from holdfast.authoring.bpmn.json_form import is_json_form
from holdfast.authoring.bpmn.loading import is_model, load_model
from holdfast.authoring.bpmn.model import Model, ModelProblem, Work
from holdfast.authoring.bpmn.starts import start_schedules, start_triggers
from holdfast.authoring.registry import LoadContext
from holdfast.core import typed_json
from holdfast.core.definitions import CompiledDefinition, StoredDefinition
from holdfast.core.schedules.model import ScheduleDeclaration
from holdfast.errors import ModelRefused, UnknownWorkflow


class BpmnKind:
    """The kind ``bpmn``: each process of a file is a definition of its own."""

    kind: str = "bpmn"

    def accepts(self, source: Any) -> bool:
        return is_model(source)

    def compile(
        self, sources: Sequence[Any], options: Mapping[str, Any], context: LoadContext
    ) -> list[CompiledDefinition]:
        binder = HandlerBinder("", context.handlers)
        compiled: list[CompiledDefinition] = []
        problems: list[ModelProblem] = []
        for source in sources:
            model = load_model(source, binder.knows)
            problems += model.problems
            form = dict(source) if is_json_form(source) else None
            compiled += [_compiled(model, process.id, form, options) for process in executed(model)]
        if any(problem.severity == "error" for problem in problems):
            raise ModelRefused(problems)
        return compiled

    def load(self, stored: StoredDefinition, context: LoadContext) -> ModelDefinition:
        definition = load_definition(stored, context)
        missing = definition.missing_handlers()
        if missing:
            raise UnknownWorkflow(
                workflow=stored.name,
                why=f"this process has no handler for {', '.join(missing)}",
            )
        return definition

    def view(self, stored: StoredDefinition, context: LoadContext) -> ModelDefinition:
        """Return the definition, whether or not its handlers are known here."""
        return load_definition(stored, context)

    def describe(self, stored: StoredDefinition) -> Mapping[str, Any]:
        content = typed_json.decode(stored.content, ProcessContent)
        model = load_model(content.form or content.xml, lambda name: True)
        return {"xml": content.xml, "problems": model.problems}

    def schedules(self, stored: StoredDefinition) -> Sequence[ScheduleDeclaration]:
        """Return the schedules of the timer start events of a deployed process."""
        content = typed_json.decode(stored.content, ProcessContent)
        model = load_model(content.form or content.xml, lambda name: True)
        return start_schedules(model, content.process)


def load_definition(stored: StoredDefinition, context: LoadContext) -> ModelDefinition:
    """Return the definition of stored content, whether or not its handlers are known here: to see
    its runs, not to execute them."""
    content = typed_json.decode(stored.content, ProcessContent)
    model = load_model(content.form or content.xml, lambda name: True)

    def decide(work: Work) -> BoundHandler:
        return decision_handler(work, context)

    @cache
    def other(version: str) -> ModelDefinition | None:
        """Return another version of the process, for runs that were migrated."""
        another = context.find(content.process, version, stored.kind)
        return None if another is None else load_definition(another, context)

    binder = HandlerBinder(content.process, context.handlers, decide)
    return ModelDefinition(content, model, stored.version, binder, context.find, other)


def executed(model: Model) -> list[Any]:
    """Return the processes to deploy: the ones that the file declares executable, or all of them
    if it declares none."""
    declared = [process for process in model.processes if process.executable]
    return declared or list(model.processes)


def _compiled(
    model: Model, process: str, form: dict[str, Any] | None, options: Mapping[str, Any]
) -> CompiledDefinition:
    content = ProcessContent(
        process=process,
        xml="" if form is not None else model.xml,
        form=form,
        saga=options.get("saga"),
        records_elements=bool(options.get("element_events")),
    )
    return CompiledDefinition(
        kind="bpmn",
        name=process,
        content=msgspec.json.encode(content),
        starts=start_triggers(model, process),
        schedules=start_schedules(model, process),
    )


registry.register_kind(BpmnKind())

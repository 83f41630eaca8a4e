"""Procedures of ``engine.models`` that read and write more than once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from holdfast.connect.components import Components
from holdfast.core.definitions import CompiledDefinition, DefinitionState
from holdfast.core.gates.model import ANONYMOUS
from holdfast.core.validation import checked_flag, checked_text
from holdfast.errors import BadOption, DecisionNotFound, ModelKindUnknown
from holdfast.errors.base import safe_repr
from holdfast.service.requests import Request
from holdfast.service.runs import WITHOUT_RUNS
from holdfast.views.models import DeploymentView

T = TypeVar("T")

SAGA = ("scope", "instance")
"""The parts of a run that can be compensated when a task has used up its retries."""


def deploy(
    parts: Components,
    sources: Sequence[Any],
    options: Mapping[str, Any],
    by: str | None,
    reason: str | None = None,
) -> DeploymentView:
    """Compile all sources and deploy their definitions in one transaction. Raises ModelUnreadable,
    ModelRefused, ModelKindUnknown, BadOption, WorkflowExists."""
    if not sources:
        raise BadOption(option="sources", why="give at least one file")
    saga = checked_text("saga", options.get("saga"))
    if saga not in (None, *SAGA):
        raise BadOption(option="saga", value=saga, known=", ".join(SAGA))
    checked_flag("element_events", options.get("element_events"))
    compiled = compile_sources(parts, sources, options)
    parts.shared_names.check_deployment(compiled)
    schedules = {
        each.name: parts.schedules.of_model(each.name, each.schedules)
        for each in compiled
        if each.kind not in WITHOUT_RUNS
    }
    names = ", ".join(each.name for each in compiled)
    request = parts.models.deploy(compiled, schedules, by)
    deployed = parts.commit(_recorded(parts, request, by, reason, "models.deploy", names))
    parts.stored_definitions.refresh()
    versions = [(each.kind, each.name, int(each.version)) for each in deployed]
    return DeploymentView(
        processes={name: version for kind, name, version in versions if kind not in WITHOUT_RUNS},
        decisions={name: version for kind, name, version in versions if kind in WITHOUT_RUNS},
        created=tuple(each.name for each in deployed if each.created),
    )


def decide(
    parts: Components,
    decision: str,
    variables: Mapping[str, Any] | None,
    version: int | str | None,
) -> Any:
    """Evaluate a deployed decision. Raises ModelNotFound, DecisionNotFound, RulesOverlap,
    RulesDisagree, BadExpression, BadOption."""
    # Here, so that an engine without decisions does not load the expression language.
    from holdfast.authoring.dmn.kind import KIND as DMN
    from holdfast.authoring.dmn.kind import model_of

    context = parts.kinds.context(parts.client.namespace)
    stored = None
    if version is None and isinstance(decision, str):
        stored = context.find(decision, None, DMN)
    if stored is None:
        stored = parts.models.get(decision, version)
    if stored.kind != DMN:
        raise DecisionNotFound(decision=decision, why=f"it is a model of kind {stored.kind}")
    return model_of(stored).evaluate(decision, variables, now=context.time())


def set_state(
    parts: Components,
    name: str,
    version: Any,
    state: DefinitionState,
    by: str | None = None,
    reason: str | None = None,
) -> None:
    """Activate or deprecate one version; the schedules of the version that new runs use then
    replace the others. Raises ModelNotFound, BadOption."""
    stored = parts.models.get(name, version)
    if state is DefinitionState.ACTIVE:
        parts.shared_names.check_deployment([stored])
    versions = parts.store.definitions.deployed(stored.namespace, name=stored.name)
    schedules = {
        each.version: parts.schedules.of_model(each.name, parts.kinds.schedules_of(each))
        for each in versions
        if each.kind == stored.kind and each.kind not in WITHOUT_RUNS
    }
    request = parts.models.set_state(name, version, state, schedules)
    verb = "models.activate" if state is DefinitionState.ACTIVE else "models.deprecate"
    parts.commit(_recorded(parts, request, by, reason, verb, name, version=stored.version))


def _recorded(
    parts: Components,
    request: Request[T],
    by: str | None,
    reason: str | None,
    action: str,
    subject: str,
    **details: Any,
) -> Request[T]:
    """Return a request that the audit log records; a reason without a name is recorded, too. Raises
    BadOption."""
    why = checked_text("reason", reason)
    person = checked_text("by", by)
    if person is None and why is not None:
        person = ANONYMOUS
    return parts.audit.record(request, person, action, subject, **details, reason=why)


def compile_sources(
    parts: Components, sources: Sequence[Any], options: Mapping[str, Any]
) -> list[CompiledDefinition]:
    """Return the definitions of sources of any kinds. Raises ModelUnreadable, ModelRefused,
    ModelKindUnknown."""
    by_kind: dict[str, list[Any]] = {}
    for source in sources:
        kind = parts.kinds.reading(source)
        if kind is None:
            raise ModelKindUnknown(source=source if isinstance(source, str) else safe_repr(source))
        by_kind.setdefault(kind.kind, []).append(source)
    context = parts.kinds.context(parts.client.namespace)
    compiled: list[CompiledDefinition] = []
    for name, own in by_kind.items():
        kind = parts.kinds.find(name)
        assert kind is not None, "it has just been found by its source"
        compiled += kind.compile(own, options, context)
    return compiled

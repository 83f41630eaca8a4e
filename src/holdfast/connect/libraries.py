"""Connect the libraries of text workflows with an engine: the worker asks their resolvers, and
their providers list its runs."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.core.codec import Codec
from holdfast.core.gates.model import Gate
from holdfast.core.signature import split_arguments
from holdfast.engine.worker.worker import Worker
from holdfast.errors import HoldfastError
from holdfast.payloads.sealer import PayloadSealer
from holdfast.service.runs import RunService

REGISTRATIONS = "holdfast.authoring.wf.registrations"


def bind_resolvers(
    worker: Worker, libraries: Sequence[Any], codec: Codec, sealer: PayloadSealer
) -> None:
    """Let a worker ask the resolvers of these libraries, or those registered for all."""

    def resolvers() -> Mapping[str, Any]:
        module = sys.modules.get(REGISTRATIONS)
        if module is None:
            return {}  # the process has no text workflows
        known = dict(module.GLOBAL.resolvers)
        for library in libraries:
            known.update(library.own.resolvers)
        return known

    def question(gate: Gate) -> Any:
        return sys.modules[REGISTRATIONS].GateAsk(
            gate=gate.terms.kind,
            prompt=gate.prompt,
            options=[option.value for option in gate.terms.options],
            min_approvals=gate.terms.quorum,
            mode=gate.terms.mode,
            identity=gate.terms.identity,
            run=gate.run_id,
            id=gate.id,
            inputs=_inputs(worker, gate, codec, sealer),
        )

    worker.resolvers.resolvers = resolvers
    worker.resolvers.ask_of = question


def bind_query(client: RunService, libraries: Sequence[Any]) -> None:
    """Let the provider ``runs`` of these libraries list the runs of an engine, oldest first."""

    def query(wanted: Mapping[str, str], limit: int) -> list[dict[str, str]]:
        page = client.page(client.filter(wanted), after=None, limit=limit)
        return [
            {
                "id": run.id,
                "workflow": run.workflow,
                "status": run.status.value,
                "version": run.version,
                "lane": run.lane,
            }
            for run in reversed(page.runs)
        ]

    for library in libraries:
        library.query = query


def _inputs(worker: Worker, gate: Gate, codec: Codec, sealer: PayloadSealer) -> dict[str, str]:
    """Return the inputs and variables of the run of a gate, as far as they are texts."""
    run = worker.store.runs.get(gate.run_id)
    if run is None:
        return {}
    try:
        stored = split_arguments(codec.decode(sealer.opener.run(run).input), "the arguments")
    except HoldfastError:
        return {}
    inputs = stored.args[0] if stored.args and isinstance(stored.args[0], dict) else {}
    values = {**inputs, **(stored.kwargs.get("variables") or {})}
    return {str(name): value for name, value in values.items() if isinstance(value, str)}

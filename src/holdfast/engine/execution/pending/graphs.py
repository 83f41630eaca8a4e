"""Extending the graph of a run from inside the run."""

from __future__ import annotations

import msgspec

from holdfast.core.commands import ExtendGraph
from holdfast.core.definitions import StoredDefinition, frozen_definition
from holdfast.core.events import Event, EventKind
from holdfast.engine.execution.pending.base import Execution, Handler
from holdfast.engine.execution.pending.graph_growth import with_stage
from holdfast.payloads.compose import composer, seal_patch
from holdfast.store.graphs.operations import AddMembers


def _extend_graph(run: Execution, command: ExtendGraph) -> Event:
    context = run.context
    for target in command.targets:
        if target.definition is not None:
            context.learn(target.definition)
    op = AddMembers(
        graph_id=command.graph_id,
        namespace=run.state.run.namespace,
        patch=seal_patch(command.patch, command.graph_id, context.sealer),
        compose=composer(context.sealer, context.codec),
        lease=context.lease_member,
        definitions=_kept(run, command),
    )
    run.commit.add(with_stage(op, run.state.run.id, command.fingerprint))
    members = [member.name for member in command.patch.members]
    added: dict[str, object] = {"graph": command.graph_id, "members": members}
    if command.patch.joins:
        added["joined"] = {join.name: join.run_id for join in command.patch.joins}
    return Event(EventKind.GRAPH_EXTENDED, command.id, msgspec.json.encode(added))


def _kept(run: Execution, command: ExtendGraph) -> list[StoredDefinition]:
    """Return the definitions that the runs of the new members keep."""
    namespace = run.state.run.namespace
    definitions = [frozen_definition(each.definition, namespace) for each in command.targets]
    return [each for each in definitions if each is not None]


HANDLERS: dict[type, Handler] = {ExtendGraph: _extend_graph}

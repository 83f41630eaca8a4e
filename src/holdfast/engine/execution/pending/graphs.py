"""Extending the graph of a run from inside the run."""

from __future__ import annotations

import msgspec

from holdfast.core.commands import ExtendGraph
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
    )
    run.commit.add(with_stage(op, run.state.run.id, command.fingerprint))
    members = [member.name for member in command.patch.members]
    data = msgspec.json.encode({"graph": command.graph_id, "members": members})
    return Event(EventKind.GRAPH_EXTENDED, command.id, data)


HANDLERS: dict[type, Handler] = {ExtendGraph: _extend_graph}

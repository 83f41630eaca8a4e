"""Operations on graphs: start, extend, resolve the ends of members, cancel and replay."""

from holdfast.store.transitions.graphs.cancelling import cancel_graph
from holdfast.store.transitions.graphs.copying import import_graph
from holdfast.store.transitions.graphs.pruning import prune, prune_graphs, prune_of
from holdfast.store.transitions.graphs.replaying import replay_member
from holdfast.store.transitions.graphs.settling import resolve_graphs
from holdfast.store.transitions.graphs.staging import (
    extend_graph,
    reseal_member,
    stage_graphs,
    stage_part,
)
from holdfast.store.transitions.graphs.sweeping import sweep_stages

__all__ = [
    "cancel_graph",
    "extend_graph",
    "import_graph",
    "prune",
    "prune_graphs",
    "prune_of",
    "replay_member",
    "reseal_member",
    "resolve_graphs",
    "stage_graphs",
    "stage_part",
    "sweep_stages",
]

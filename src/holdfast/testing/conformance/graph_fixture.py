"""Helpers of the conformance tests of graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from holdfast.core.graphs.builder import fill_places
from holdfast.core.graphs.model import (
    CancelPolicy,
    GraphPatch,
    MemberSpec,
    NewGroup,
    NewMember,
    RemainderPolicy,
    name_of,
    run_of,
)
from holdfast.core.graphs.validation import replay_roots
from holdfast.core.payload import Fetch, Payload
from holdfast.core.status import Status
from holdfast.errors import (
    KeyMissing,
)
from holdfast.store.graphs.operations import (
    AddMembers,
    CancelGraph,
    GraphStage,
    ReplayMember,
    ResolvedGraphs,
    ResolveGraphs,
    StagedGraph,
    StageGraphs,
)
from holdfast.store.runs.operations import (
    ReplayRun,
)
from holdfast.store.store import Store
from holdfast.testing.conformance.fixture import ROUTE, StoreFixture

Groups = Sequence[tuple[Sequence[str], int] | tuple[Sequence[str], int, str]]


def raise_error(
    run_id: str, data: bytes, results: Mapping[str, tuple[str, bytes]], fetch: Fetch
) -> tuple[bytes, list[Payload]]:
    """Compose an input by raising an unexpected error."""
    raise ZeroDivisionError


def compose(
    run_id: str, data: bytes, results: Mapping[str, tuple[str, bytes]], fetch: Fetch
) -> tuple[bytes, list[Payload]]:
    """Compose the input of a member: replace placeholders by the results of its dependencies."""
    values = {name: msgspec.json.decode(result) for name, (_, result) in results.items()}
    return msgspec.json.encode(fill_places(msgspec.json.decode(data), values)), []


def refuse(
    run_id: str, data: bytes, results: Mapping[str, tuple[str, bytes]], fetch: Fetch
) -> tuple[bytes, list[Payload]]:
    """Compose an input as a process without the key of the results: raise ``KeyMissing``."""
    raise KeyMissing(key="k2")


class GraphFixture(StoreFixture):
    """Helpers that stage, extend, resolve, cancel and replay graphs."""

    def new_member(
        self,
        name: str,
        groups: Groups = (),
        *,
        data: Any = (),
        takes: Sequence[str] = (),
        **options: Any,
    ) -> NewMember:
        spec = MemberSpec(route=options.pop("route", ROUTE), takes=tuple(takes), **options)
        made = tuple(
            NewGroup(
                tuple(group[0]), group[1], RemainderPolicy(group[2] if len(group) > 2 else "run")
            )
            for group in groups
        )
        return NewMember(name=name, spec=spec, input=msgspec.json.encode(list(data)), groups=made)

    def stage_graph(
        self,
        store: Store,
        *members: NewMember,
        graph: str = "g",
        fingerprint: str = "f",
        **options: Any,
    ) -> StagedGraph:
        stage = GraphStage(
            id=graph,
            namespace="default",
            name="test",
            fingerprint=fingerprint,
            patch=GraphPatch(members),
        )
        staged: list[StagedGraph] = self.do(
            store, StageGraphs(stages=[stage], compose=compose, **options)
        )
        return staged[0]

    def extend_graph(
        self,
        store: Store,
        *members: NewMember,
        more: Sequence[tuple[str, NewGroup]] = (),
        revision: int | None = None,
        graph: str = "g",
    ) -> StagedGraph:
        op = AddMembers(
            graph_id=graph,
            namespace="default",
            patch=GraphPatch(members, tuple(more)),
            compose=compose,
            revision=revision,
        )
        staged: StagedGraph = self.do(store, op)
        return staged

    def resolve_graphs(self, store: Store) -> ResolvedGraphs:
        resolved: ResolvedGraphs = self.do(store, ResolveGraphs(compose=compose))
        return resolved

    def end_members(
        self, store: Store, *names: str, status: Status = Status.COMPLETED, graph: str = "g"
    ) -> None:
        """End the runs of the named members, then resolve their graph once."""
        self.claim(store)
        for name in names:
            self.finish(store, self.get(store, run_of(graph, name)), status)
        self.resolve_graphs(store)

    def member_states(self, store: Store, graph: str = "g") -> dict[str, str]:
        whole = store.graphs.snapshot(graph)
        assert whole is not None
        return {member.name: member.state.value for member in whole.members.values()}

    def graph_status(self, store: Store, graph: str = "g") -> str:
        record = store.graphs.get(graph)
        assert record is not None
        return record.status.value

    def graph_trail(self, store: Store, graph: str = "g") -> list[str]:
        return [
            f"{event.kind} {event.member or ''}".strip() for event in store.graphs.events(graph)
        ]

    def cancel_graph(self, store: Store, policy: str = "all", graph: str = "g") -> Any:
        op = CancelGraph(
            graph_id=graph, namespace="default", policy=CancelPolicy(policy), reason="enough"
        )
        return self.do(store, op)

    def replay_member(self, store: Store, name: str, graph: str = "g") -> Any:
        whole = store.graphs.snapshot(graph)
        assert whole is not None
        run_id = run_of(graph, name)
        roots = replay_roots(whole, run_id) if run_id in whole.members else set[str]()
        replays = {root: ReplayRun(root, []) for root in roots}
        names = [name_of(root) for root in roots]
        op = ReplayMember(
            graph_id=graph,
            namespace="default",
            name=name,
            roots=names,
            replays=replays,
            compose=compose,
        )
        return self.do(store, op)

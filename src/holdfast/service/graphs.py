"""Requests about graphs: start, extend, cancel, replay and prune them, and read them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from holdfast.core.definitions import StoredDefinition
from holdfast.core.graphs.builder import Graph
from holdfast.core.graphs.compile import GraphCompiler, encode_unchecked
from holdfast.core.graphs.model import (
    LOST,
    MARK,
    OPEN_GRAPHS,
    CancelPolicy,
    GraphEvent,
    GraphPatch,
    GraphRecord,
    GraphSnapshot,
    GraphStatus,
    MemberRecord,
    MemberState,
    name_of,
    run_of,
)
from holdfast.core.graphs.validation import check_patch, checked_name, replay_roots
from holdfast.core.runs import RunRecord
from holdfast.core.status import Status
from holdfast.core.text import is_one_of
from holdfast.core.validation import checked_count, checked_reason, checked_string, checked_text
from holdfast.engine.runtime.graph_stages import Owned, checked_revision, is_large, stage_id_of
from holdfast.engine.runtime.ids import new_id
from holdfast.errors import (
    BadOption,
    GraphCancelled,
    GraphFailed,
    GraphNotFound,
    HoldfastError,
    MemberNotFound,
    RunNotFound,
)
from holdfast.payloads.compose import composer, seal_patch
from holdfast.service.graph_stages import Do, after_sweeping, commit_stage, write_stage
from holdfast.service.instants import Moment, moment
from holdfast.service.replay import plan_replay
from holdfast.service.requests import Request, identity
from holdfast.service.runs import RunService
from holdfast.service.starts import StartService
from holdfast.store.graphs.operations import (
    AddMembers,
    CancelGraph,
    GraphStage,
    Lease,
    PreparedMember,
    PruneGraphs,
    ReplayMember,
    ResolvedGraphs,
    ResolveGraphs,
    StagedGraph,
    StageGraphs,
)

TRIES = 5
"""How often a replay is tried if other processes change the graph meanwhile."""

ROOTS = 200
"""Members that one transaction puts back to work, at most."""

CAUSE = ("type", "message", "cause", "step", "origin")
"""The facts of an error that describe the exception of user code, and its place."""


class GraphEnded(msgspec.Struct):
    """A graph that has ended, and the runs of its last members: those without dependents."""

    id: str
    status: GraphStatus
    graph: GraphRecord
    last: list[RunRecord]


class MemberTargets:
    """The workflows of the members of graphs: the name of a deployed text stands for that text,
    which is looked up once."""

    def __init__(self, starts: StartService) -> None:
        self._starts: StartService = starts
        self._named: dict[tuple[str, Any], Any] = {}
        self._kept: dict[int, tuple[Any, Mapping[str, Any]]] = {}
        """The workflows whose source is data, by identity, with the options of a member."""

    def find(self, workflow: Any, options: Mapping[str, Any]) -> Any:
        """Return the workflow of a member. Raises NamespaceBound."""
        target = workflow
        if isinstance(workflow, str):
            key = (workflow, options.get("version"))
            if key not in self._named:
                self._named[key] = self._starts.resolved(workflow, options)
            target = self._named[key]
        if getattr(target, "frozen", None) is not None:
            self._kept.setdefault(id(target), (target, options))
        return target

    def kept(self) -> list[StoredDefinition]:
        """Return the definitions that the runs of the members keep, unless they are stored."""
        definitions = [
            self._starts.kept_definition(target, options) for target, options in self._kept.values()
        ]
        return [each for each in definitions if each is not None]


class GraphService:
    """Builds the operations on graphs, and reads graphs."""

    def __init__(self, client: RunService) -> None:
        self.client = client
        self._store = client.store
        self._compose = composer(client.sealer, client.codec)
        self._starts = StartService(client)

    @property
    def namespace(self) -> str:
        """The namespace of all graphs that can be read or changed here."""
        return self.client.namespace

    def _unchecked(self, workflow: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bytes:
        definition = self.client.definition_of(workflow)
        return encode_unchecked(self.client.codec, definition, args, kwargs)

    def _patch(
        self, graph: Graph, graph_id: str, targets: MemberTargets | None = None
    ) -> tuple[GraphPatch, str]:
        starts = self._starts
        targets = targets or MemberTargets(starts)
        compiler = GraphCompiler(
            lambda workflow, options: starts.route(targets.find(workflow, options), options),
            lambda workflow, args, kwargs: starts.encode_input(
                targets.find(workflow, {}), args, kwargs
            ),
            lambda workflow, args, kwargs: self._unchecked(
                targets.find(workflow, {}), args, kwargs
            ),
        )
        patch, fingerprint = compiler.patch(graph, graph_id)
        return seal_patch(patch, graph_id, self.client.sealer), fingerprint

    # Writing

    def start(
        self, graphs: Sequence[tuple[Graph, str | None]], lease: Lease | None, do: Do
    ) -> list[StagedGraph]:
        """Start graphs, each with the given id or a new one, all or none. Raises MemberNotFound,
        BadOption."""
        stages = []
        targets = MemberTargets(self._starts)
        for graph, chosen_id in graphs:
            graph_id = new_id()
            if chosen_id is not None:
                graph_id = checked_graph_id(chosen_id)
            patch, fingerprint = self._patch(graph, graph_id, targets)
            if patch.groups:
                raise MemberNotFound(
                    member=patch.groups[0][0],
                    why="a new graph has only the members that are added to it",
                )
            stages.append(
                GraphStage(
                    id=graph_id,
                    namespace=self.namespace,
                    name=graph.name,
                    fingerprint=fingerprint,
                    patch=patch,
                )
            )
        members = [(stage.id, member) for stage in stages for member in stage.patch.members]
        op = StageGraphs(
            stages=stages, compose=self._compose, lease=lease, definitions=targets.kept()
        )
        if is_large(members):
            return self._start_large(op, members, do)
        answers: list[StagedGraph] = after_sweeping(do, lambda: do(Request(op, identity)))
        return answers

    def _start_large(self, op: StageGraphs, members: Sequence[Owned], do: Do) -> list[StagedGraph]:
        """Start graphs whose members are too many for one transaction. The checks that the
        transaction would make are made before."""
        stages = op.stages
        for stage in stages:
            check_patch(stage.id, stage.namespace, stage.patch, {})
        bare = [
            msgspec.structs.replace(stage, patch=GraphPatch((), joins=stage.patch.joins))
            for stage in stages
        ]
        stage_id = stage_id_of(
            stages[0].id, [f"{stage.id} {stage.fingerprint}" for stage in stages]
        )

        def begin() -> list[StagedGraph]:
            exist = all(self._store.graphs.get(stage.id) is not None for stage in stages)
            prepared = (
                PreparedMember(stage_id, {})
                if exist  # a repeated call: saves writing the members again
                else write_stage(do, stage_id, members, namespace=self.namespace)
            )
            last = msgspec.structs.replace(op, stages=bare, prepared=prepared)
            answers: list[StagedGraph] = do(Request(last, identity))
            return answers

        return commit_stage(do, stage_id, begin)

    def extend(
        self, graph_id: str, graph: Graph, revision: int | None, lease: Lease | None, do: Do
    ) -> StagedGraph:
        """Add members and groups to a graph; with *revision*, only if the graph still has that
        revision. Raises GraphNotFound."""
        graph_id = _graph_id(graph_id)
        if revision is not None:
            revision = checked_count("revision", revision)
        targets = MemberTargets(self._starts)
        patch, fingerprint = self._patch(graph, graph_id, targets)
        op = AddMembers(
            graph_id=graph_id,
            namespace=self.namespace,
            patch=patch,
            compose=self._compose,
            revision=revision,
            lease=lease,
            definitions=targets.kept(),
        )
        members = [(graph_id, member) for member in patch.members]
        if is_large(members):
            return self._extend_large(op, members, fingerprint, do)
        answer: StagedGraph = after_sweeping(do, lambda: do(Request(op, identity)))
        return answer

    def _extend_large(
        self, op: AddMembers, members: Sequence[Owned], fingerprint: str, do: Do
    ) -> StagedGraph:
        """Add members that are too many for one transaction. They are checked against a revision of
        the graph, which must be unchanged when they become visible."""
        stage_id = stage_id_of(op.graph_id, [fingerprint])

        def extend() -> StagedGraph:
            revision = checked_revision(self._store, op)
            stage = write_stage(do, stage_id, members, namespace=op.namespace, extends=op.graph_id)
            last = msgspec.structs.replace(
                op,
                patch=GraphPatch((), op.patch.groups, op.patch.joins),
                revision=revision,
                prepared=stage,
            )
            answer: StagedGraph = do(Request(last, identity))
            return answer

        return commit_stage(do, stage_id, extend)

    def cancel(self, graph_id: str, policy: str, reason: str) -> Request[GraphStatus]:
        """Cancel a graph. The answer is its status. Raises BadOption."""
        if not is_one_of(policy, list(CancelPolicy)):
            raise BadOption(option="policy", value=policy, known=", ".join(CancelPolicy))
        if reason is None:
            raise BadOption(option="reason", value=reason, why="give the reason as a text")
        reason = checked_reason(reason)
        op = CancelGraph(
            graph_id=_graph_id(graph_id),
            namespace=self.namespace,
            policy=CancelPolicy(policy),
            reason=reason,
        )
        return Request(op, lambda graph: graph.status)

    def replay(
        self,
        graph_id: str,
        name: str,
        lease: Lease | None,
        from_step: str | None = None,
        *,
        namespace: str | None = None,
    ) -> Iterator[Request[Any]]:
        """Yield the requests that replay a member, in parts. Each part is complete in itself; its
        answer is StagedGraph. *namespace* is the one of the graph, if it is another than the one of
        this engine. Raises GraphNotFound, MemberNotFound."""
        from_step = checked_string("from_step", from_step)
        namespace = namespace or self.namespace
        whole = self._whole(graph_id, namespace)
        run_id = run_of(graph_id, checked_name(name))
        if run_id not in whole.members:
            raise MemberNotFound(graph=graph_id, member=name)
        roots = sorted(replay_roots(whole, run_id))
        for first in range(0, max(len(roots), 1), ROOTS):
            part = roots[first : first + ROOTS]
            started = [id for id in part if whole.members[id].started_at is not None]
            op = ReplayMember(
                graph_id=graph_id,
                namespace=namespace,
                name=name,
                roots=[name_of(id) for id in part],
                replays={
                    id: plan_replay(
                        self._store,
                        whole.members[id].actual_run_id,
                        from_step if id == run_id else None,
                    )
                    for id in started
                },
                compose=self._compose,
                lease=lease,
            )
            yield Request(op, identity)

    def resolve(self, lease: Lease | None) -> Request[ResolvedGraphs]:
        """Process the recorded outcomes of members. The answer is ResolvedGraphs."""
        return Request(ResolveGraphs(compose=self._compose, lease=lease), identity)

    def prune(self, older_than: Moment, batch: int) -> Request[int]:
        """Delete up to *batch* graphs that ended before *older_than*. The answer is their
        number."""
        before = moment(older_than, self._store.now(), sign=-1)
        op = PruneGraphs(before, self.namespace, checked_count("batch", batch, least=1))
        return Request(op, identity)

    # Reading

    def record(self, graph_id: str, namespace: str | None = None) -> GraphRecord:
        """Return a graph as it is stored. Raises GraphNotFound."""
        graph = self._store.graphs.get(_graph_id(graph_id))
        if graph is None or graph.namespace != (namespace or self.namespace):
            raise GraphNotFound(graph=graph_id)
        return graph

    def member(self, graph_id: str, name: str) -> MemberRecord:
        """Return a member as it is stored. Raises GraphNotFound, MemberNotFound."""
        member = self._store.graphs.member(run_of(self.record(graph_id).id, checked_name(name)))
        if member is None:
            raise MemberNotFound(graph=graph_id, member=name)
        return member

    def is_unresolved(self, graph_id: str) -> bool:
        """Return whether member outcomes or other work of a graph wait to be processed."""
        return self._store.graphs.is_unresolved(_graph_id(graph_id))

    def _whole(self, graph_id: str, namespace: str | None = None) -> GraphSnapshot:
        self.record(graph_id, namespace)
        whole = self._store.graphs.snapshot(graph_id)
        if whole is None:
            raise GraphNotFound(graph=graph_id)
        return whole

    def with_members(self, graph_id: str, *names: str | None) -> GraphSnapshot:
        """Return a graph that has members of these names; None counts as no name. Raises
        GraphNotFound, MemberNotFound."""
        whole = self._whole(graph_id)
        for name in names:
            if name is not None and run_of(graph_id, checked_name(name)) not in whole.members:
                raise MemberNotFound(graph=graph_id, member=name)
        return whole

    def get(self, graph_id: str) -> tuple[GraphSnapshot, dict[str, Status]]:
        """Return a graph with its members, and the statuses of their runs by the id of the member.
        Raises GraphNotFound."""
        whole = self._whole(graph_id)
        statuses = {}
        for member in whole.members.values():
            if member.started_at is None:
                continue
            run = self._store.runs.get(member.actual_run_id)
            if run is not None:
                statuses[member.run_id] = run.status
        return whole, statuses

    def find(self, status: str | None, before: str | None, limit: int) -> list[GraphRecord]:
        """Return graphs from new to old. *before* is the id of the last graph of the previous page.
        Raises BadOption, GraphNotFound."""
        if status is not None and not is_one_of(status, list(GraphStatus)):
            raise BadOption(option="status", value=status, known=", ".join(GraphStatus))
        before = None if before is None else self.record(before).id
        limit = checked_count("limit", limit)
        return self._store.graphs.find(self.namespace, status=status, before=before, limit=limit)

    def ids_by_prefix(self, prefix: str, limit: int) -> list[str]:
        """Return the ids of graphs that begin with *prefix*, in their order."""
        return self._store.graphs.ids_by_prefix(self.namespace, prefix, limit)

    def events(self, graph_id: str, after: int, limit: int) -> list[GraphEvent]:
        """Return the audit trail of a graph, in order."""
        self.record(graph_id)
        after = checked_count("after", after)
        limit = checked_count("limit", limit)
        return self._store.graphs.events(graph_id, after, limit)

    def ended(self, graph_ids: Sequence[str]) -> list[GraphEnded]:
        """Return the graphs among *graph_ids* that have ended, with the runs of their last
        members."""
        graphs = [
            graph
            for graph in self._store.graphs.by_id(graph_ids)
            if graph.namespace == self.namespace and graph.status not in OPEN_GRAPHS
        ]
        last: dict[str, list[RunRecord]] = {}
        for run in self._store.graphs.last_runs([graph.id for graph in graphs]):
            last.setdefault(run.graph_id or "", []).append(run)
        return [
            GraphEnded(graph.id, graph.status, graph, last.get(graph.id, [])) for graph in graphs
        ]

    def value(self, graph: GraphRecord, last: Sequence[RunRecord] | None = None) -> dict[str, Any]:
        """Return the results of the last members of a graph, by name. Raises GraphCancelled,
        GraphFailed; RunNotFound if their runs were pruned."""
        if graph.status is GraphStatus.CANCELLED:
            raise GraphCancelled(graph=graph.id, reason=graph.reason)
        if graph.status is not GraphStatus.COMPLETED:
            raise self._failure(graph)
        runs = self._store.graphs.last_runs([graph.id]) if last is None else last
        if not runs:
            raise RunNotFound(
                graph=graph.id,
                why="the graph has completed, and the runs of its last members were pruned",
            )
        return {self._name_in(graph.id, run): self.client.value(run) for run in runs}

    def _name_in(self, graph_id: str, run: RunRecord) -> str:
        """Return the name of the member that a run is in its graph."""
        if run.id.startswith(run_of(graph_id, "")):
            return name_of(run.id)
        member = self._store.graphs.member(run.id)  # the run has joined the graph
        if member is None:
            raise GraphNotFound(graph=graph_id, run=run.id, why="the graph was deleted meanwhile")
        return member.name

    def _failure(self, graph: GraphRecord) -> GraphFailed:
        """Return the error of a graph that has failed, with the exception of its first failed
        member."""
        whole = self._whole(graph.id)
        lost = {
            state: [member.name for member in whole.members.values() if member.state == state]
            for state in sorted(LOST)
        }
        names = {state.value: ", ".join(lost[state][:5]) for state in lost if lost[state]}
        failed = lost.get(MemberState.FAILED) or [""]
        member = whole.members.get(run_of(graph.id, failed[0]))
        run = None if member is None else self._store.runs.get(member.actual_run_id)
        if run is None or run.status is not Status.FAILED:
            return GraphFailed(graph=graph.id, **names)
        cause = {}
        try:
            self.client.value(run)
        except HoldfastError as error:  # RunFailed, or the reason why its error cannot be opened
            cause = {name: error.facts[name] for name in CAUSE if error.facts.get(name)}
        return GraphFailed(graph=graph.id, member=failed[0], **names, **cause)


def _graph_id(graph_id: str) -> str:
    if not isinstance(graph_id, str) or "\x00" in graph_id:
        raise GraphNotFound(graph=graph_id)
    return graph_id


def checked_graph_id(graph_id: Any) -> str:
    """Return the id that a user chose for a graph. Raises BadOption."""
    text = checked_text("id", graph_id) or ""
    if MARK in text or text.endswith(":") or len(text) > 90:
        raise BadOption(
            option="id",
            value=graph_id,
            why=f"the id of a graph has at most 90 characters, no {MARK} and no : at its end",
        )
    return text

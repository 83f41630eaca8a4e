"""Start members of graphs: compose their inputs from results, and create their runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from holdfast.core.graphs.model import MemberSpec, graph_of
from holdfast.core.payload import Payload
from holdfast.core.runs import NewRun, Route
from holdfast.core.status import Status
from holdfast.errors import BudgetNotFound, HoldfastError, KeyMissing
from holdfast.store.database import MemberOutcome, Row, Started, Transaction
from holdfast.store.graphs.operations import Compose, Lease, StartedMember
from holdfast.store.graphs.queued_writes import QueuedWrites
from holdfast.store.graphs.rows import sources_of, spec_of
from holdfast.store.payloads.apply import fetch
from holdfast.store.runs.operations import StartRuns
from holdfast.store.runs.start import start_runs


class MemberStarter:
    """Starts members within one resolution.

    *startable* are rows of members that were read with the links to them, which saves reading them
    again. With *strict* false, a graph whose inputs cannot be opened here is noted in
    *unresolvable* instead of failing the transaction.
    """

    def __init__(
        self,
        tx: Transaction,
        writes: QueuedWrites,
        startable: Mapping[str, Row],
        unresolvable: dict[str, str],
        compose: Compose,
        lease: Lease | None,
        *,
        strict: bool,
    ) -> None:
        self._tx: Transaction = tx
        self._writes: QueuedWrites = writes
        self._startable: Mapping[str, Row] = startable
        self._unresolvable: dict[str, str] = unresolvable
        self._compose: Compose = compose
        self._lease: Lease | None = lease
        self._strict: bool = strict
        self._results: dict[str, tuple[str, bytes]] = {}
        """By member: the id of its run, under which the result is sealed, and the result."""
        self.born: list[StartedMember] = []

    def keep_results(self, outcomes: Iterable[MemberOutcome]) -> None:
        """Keep the results that came with outcomes, which saves reading them from the runs."""
        for outcome in outcomes:
            if outcome.result is not None:
                self._results[outcome.run_id] = (outcome.run_id, outcome.result)

    # Composing

    def compose(self, run_ids: Sequence[str]) -> tuple[list[NewRun], dict[str, str]]:
        """Return the runs of members to be started, and the reasons of members that cannot
        start."""
        if not run_ids:
            return [], {}
        known = [self._startable[run_id] for run_id in run_ids if run_id in self._startable]
        others = [run_id for run_id in run_ids if run_id not in self._startable]
        unread = self._writes.ask("members_by_id", ids=self._tx.as_list(others)) if others else []
        return self.compose_read(
            [(row["run_id"], bytes(row["spec"]), bytes(row["input"])) for row in [*known, *unread]]
        )

    def compose_read(
        self, members: Sequence[tuple[str, bytes, bytes]]
    ) -> tuple[list[NewRun], dict[str, str]]:
        """Do the same for members that were read already: id, specification and input of each."""
        specs = [spec_of(run_id, spec) for run_id, spec, _ in members]
        takes = [
            sources_of(run_id, spec) for (run_id, _, _), spec in zip(members, specs, strict=True)
        ]
        self._read_results({source for sources in takes for source in sources})
        runs = []
        failed = {}
        for (run_id, _, template), spec, names in zip(members, specs, takes, strict=True):
            taken = {
                name: self._results[source]
                for source, name in names.items()
                if source in self._results
            }
            try:
                data, payloads = self._compose(run_id, template, taken, self._fetch)
            except KeyMissing as missing:
                if self._strict:
                    raise
                self._unresolvable[graph_of(run_id) or ""] = str(missing)
                continue
            except HoldfastError as broken:
                failed[run_id] = f"its input cannot be composed: {broken}"
                continue
            runs.append(self._new_run(run_id, spec, data, payloads))
        return runs, failed

    def _fetch(self, digest: bytes) -> Payload | None:
        return fetch(self._tx.rows, digest)

    def _read_results(self, run_ids: Iterable[str]) -> None:
        """Read the results that inputs need, unless they came with the outcomes."""
        unknown = sorted(run_id for run_id in run_ids if run_id not in self._results)
        rows = self._tx.rows("results_by_id", ids=self._tx.as_list(unknown)) if unknown else []
        for row in rows:
            if row["status"] == Status.COMPLETED:
                self._results[row["member_id"]] = (row["id"], bytes(row["result"] or b"null"))

    def _new_run(
        self, run_id: str, spec: MemberSpec, data: bytes, payloads: Sequence[Payload]
    ) -> NewRun:
        now = self._tx.now
        return NewRun(
            id=run_id,
            route=spec.route,
            input=data,
            priority=spec.priority,
            tags=spec.tags,
            available_at=None if spec.delay is None else now + spec.delay,
            deadline=None if spec.deadline is None else now + spec.deadline,
            session_id=None if spec.delay is not None else self._session(spec.route),
            policy=None if spec.policy is None else msgspec.json.encode(spec.policy),
            budgets=spec.budgets,
            limits=spec.limits,
            share=spec.share,
            graph_id=graph_of(run_id),
            payloads=tuple(payloads),
        )

    def _session(self, route: Route) -> str | None:
        """Return the session that the next run of the route can be leased to at its start."""
        return None if self._lease is None else self._lease(route)

    # Creating runs

    def start(self, runs: Sequence[NewRun]) -> tuple[list[NewRun], dict[str, str]]:
        """Create the runs of members. Return the runs that were created, and the members that
        cannot start, with the reason."""
        if not runs:
            return [], {}
        # Checked before the start: a run of the same id would otherwise be recognised as the
        # member.
        existing = self._existing([run.id for run in runs])
        failed = dict.fromkeys(existing, "another run has its id")
        ready = [run for run in runs if run.id not in existing]
        try:
            answers = start_runs(self._tx, StartRuns(ready)) if ready else []
            started = list(zip(ready, answers, strict=True))
        except BudgetNotFound:
            if self._strict:
                raise
            # One by one: only the members that name the missing budget fail, not the whole graph.
            attempts = [(run, self._start_alone(run, failed)) for run in ready]
            started = [(run, answer) for run, answer in attempts if answer is not None]
        self.born += [StartedMember(run, answer) for run, answer in started]
        return [run for run, _ in started], failed

    def _existing(self, run_ids: Sequence[str]) -> set[str]:
        """Return the ids that existing runs have."""
        unknown = [run_id for run_id in run_ids if run_id not in self._startable]
        known = {
            run_id
            for run_id in run_ids
            if run_id in self._startable and self._startable[run_id]["there"]
        }
        if not unknown:
            return known
        rows = self._tx.rows("runs_there", ids=self._tx.as_list(unknown))
        return known | {row["id"] for row in rows}

    def _start_alone(self, run: NewRun, failed: dict[str, str]) -> Started | None:
        try:
            return start_runs(self._tx, StartRuns([run]))[0]
        except BudgetNotFound as missing:  # raised before anything was written
            failed[run.id] = str(missing)
            return None

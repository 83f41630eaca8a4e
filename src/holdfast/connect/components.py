"""The components that ``Engine`` and ``AsyncEngine`` share, and the checks of their options."""

from __future__ import annotations

import copy
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.authoring import registry
from holdfast.connect.definition_kinds import DefinitionKinds
from holdfast.connect.engine_options import EngineOptions
from holdfast.connect.libraries import bind_query, bind_resolvers
from holdfast.connect.open_store import open_store
from holdfast.connect.outlines import HistoryOutlines
from holdfast.connect.services import Services
from holdfast.connect.shared_names import SharedNames
from holdfast.core.codec import JsonCodec
from holdfast.core.program import Definition, is_workflow_code
from holdfast.core.runs import NewRun, Route, RunRecord
from holdfast.core.schedules.model import GONE
from holdfast.core.validation import checked_text
from holdfast.engine.runtime.ended_runs import DONE, EndedRuns
from holdfast.engine.runtime.graph_follow_up import GraphFollowUp
from holdfast.engine.runtime.group_commit import GroupCommit
from holdfast.engine.runtime.program_loop import ProgramLoop
from holdfast.engine.runtime.stored_definitions import StoredDefinitions
from holdfast.engine.worker.worker import Worker
from holdfast.errors import BadOption, CodecMismatch, EngineClosed, StoreError
from holdfast.payloads.compose import composer
from holdfast.payloads.sealer import PayloadSealer
from holdfast.service.requests import Request, identity
from holdfast.service.runs import RunService
from holdfast.service.starts import StartService
from holdfast.service.streams import StreamService
from holdfast.store.clear_values import GUARDED
from holdfast.store.clock import Clock
from holdfast.store.database import CheckProgress, Operation, SettingsChanged
from holdfast.store.installation import ENCRYPTION
from holdfast.store.payloads.operations import EncryptStore
from holdfast.store.schedules.operations import PauseSchedule, SetSchedule

if TYPE_CHECKING:
    from holdfast.connect.migrations import MigrationPlanner
    from holdfast.connect.token_check import TokenCheck
    from holdfast.core.why.model import Why
    from holdfast.service.audit import AuditService
    from holdfast.service.definitions import DefinitionService
    from holdfast.service.flows import FlowService
    from holdfast.service.gates import GateService
    from holdfast.service.graphs import GraphService
    from holdfast.service.messages import MessageService
    from holdfast.service.operations import OperationService
    from holdfast.service.schedules import ScheduleService
    from holdfast.service.subscriptions import SubscriptionService
    from holdfast.service.tasks.service import TaskService
    from holdfast.views.workers import UnservedView, WorkerView

T = TypeVar("T")

log = logging.getLogger("holdfast")

UNEASY = 5.0
"""Seconds after which a program without a worker that waits for a run gets a log message with the
reason why the run has not ended."""


class Components:
    """Opens the database; has the store, the writer, the services and the worker of an engine."""

    # The services, which ``Services`` creates when they are first used.
    models: DefinitionService
    messages: MessageService
    audit: AuditService
    subscriptions: SubscriptionService
    schedules: ScheduleService
    gates: GateService
    graphs: GraphService
    flows: FlowService
    token_check: TokenCheck
    migrations: MigrationPlanner
    operations: OperationService
    tasks: TaskService

    def __init__(self, plan: EngineOptions) -> None:
        self.codec = plan.codec
        self.settings = plan.settings
        self._workflows = plan.workflows
        self._libraries = plan.libraries
        self._started: dict[str, Definition] = {}
        self.store = plan.store or open_store(
            plan.url, clock=plan.clock, codec=self.codec.name, **plan.driver
        )
        self.sealer = self._new_sealer(
            plan.inline_limit, owns_store=plan.store is None, read_only_values=plan.read_only_values
        )
        self.clock: Clock = plan.clock or self.store.clock
        self.writer = GroupCommit(self.store)
        self.notifier = self.writer.notifier
        self.ended_runs = EndedRuns(self.notifier)
        self.outlines = HistoryOutlines(self.store)
        self.frames = StreamService(self.store, self.codec, self.sealer)
        self.kinds = DefinitionKinds(self.store, plan.handlers)
        self.stored_definitions = StoredDefinitions(
            self.store, self.definitions, self.kinds.load, self.kinds.startable
        )
        self.shared_names = SharedNames(self.store, self._named_code)
        self._max_signals: int = plan.max_signals
        self._make_services(plan.namespace)
        self.writer.follow_up = GraphFollowUp(self.store, composer(self.sealer, self.codec))
        self.ended_graphs = EndedRuns(self.notifier)
        """The graphs that were started here together: their ends are read together."""
        self.on_close: list[Callable[[], None]] = []
        """Called before the store is closed, to end what works in the background."""
        self.worker: Worker | None = None
        self.closed: bool = False

    def _make_services(self, namespace: str | None) -> None:
        """Create the services, which read and change nothing outside *namespace*, if it is set."""
        self.client = RunService(
            self.store,
            self.codec,
            self.definitions,
            namespace,
            self.sealer,
            self.stored_definitions,
        )
        self.client.max_signals = self._max_signals
        self.starts = StartService(self.client)
        self.services = Services(self.client, self.kinds, self.settings.crash_limit)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Return one of the services."""
            if name not in Components.__annotations__:
                raise AttributeError(f"'Components' object has no attribute {name!r}")
            return getattr(self.services, name)

    def bound_to(self, namespace: str) -> Components:
        """Return components that share the database, the writer and the worker of these, and are
        bound to a namespace."""
        bound = copy.copy(self)
        bound._make_services(namespace)
        return bound

    def commit(self, request: Request[T]) -> T:
        """Commit the operation of a request and return its decoded answer. This blocks the calling
        thread. Raises EngineClosed."""
        if self.closed:
            raise EngineClosed(database=self.store.url)
        return request.decode(self.writer.call(self.sealer.seal(request.op)))

    def merge(self, make_request: Callable[[], Request[T]]) -> T:
        """Commit a request that merges settings with the stored ones, and return its decoded
        answer. If these have changed meanwhile, make the request again. Raises EngineClosed."""
        while True:
            request = make_request()
            answer = self.commit(Request(request.op, identity))
            if not isinstance(answer, SettingsChanged):
                return request.decode(answer)

    def note_action(self, by: str | None, action: str, subject: object, **details: Any) -> None:
        """Record in the audit log that a procedure of several transactions begins, if the person or
        program that asks for it is named. Raises BadOption, EngineClosed."""
        person = checked_text("by", by)
        if person is not None:
            self.commit(self.audit.note(person, action, subject, **details))

    def commit_all(self, requests: Sequence[Request[Any]]) -> list[Any]:
        """Commit several requests together, and return their answers; the answer of a refused
        request is its error."""
        answers = self.writer.call_all([self.sealer.seal(request.op) for request in requests])
        return [
            answer if isinstance(answer, BaseException) else request.decode(answer)
            for request, answer in zip(requests, answers, strict=True)
        ]

    def change_finished(self, request: Request[T]) -> T:
        """Commit a request that may change finished runs, and discard the results of such runs that
        this process has read ahead."""
        try:
            return self.commit(request)
        finally:
            # After the commit, not before: a read before it would be kept, and be outdated.
            self.ended_runs.discard_reads()

    def why(self, run: RunRecord | str) -> Why:
        """Explain the status of a run: what blocks it, and what would let it continue."""
        from holdfast.service.why import why  # on use: saves the import at start-up

        return why(self.store, run, self.sealer, self.client.only, self.kinds.handlers_of)

    def check(self, progress: CheckProgress | None = None) -> list[str]:
        """Check the database and return a message for each damaged value and violated invariant."""
        damaged = self.store.damaged_values() if self.codec.name == JsonCodec.name else []
        return damaged + self.store.check(progress) + self.token_check.faults()

    def unserved(self) -> list[UnservedView]:
        """Return the routes with claimable runs that no live worker serves."""
        from holdfast.service.why import unserved
        from holdfast.views.workers import unserved_of

        return [unserved_of(route) for route in unserved(self.store, only=self.client.only)]

    def workers(self) -> list[WorkerView]:
        """Return the workers that serve the namespace of this engine, alive or dead; without a
        namespace, all workers."""
        from holdfast.service.why import look_at_workers
        from holdfast.views import workers as views

        at_work = self.store.sessions.at_work()
        workers = look_at_workers(self.store, self.client.only)
        for worker in workers:
            worker.at_work = at_work.get(worker.session.id, 0)
        return [views.of(worker) for worker in workers]

    def reader_of(self, run_id: str) -> Callable[[], RunRecord]:
        """Return a function that reads a run for a caller that waits for its end. It logs once,
        after UNEASY seconds, why the run has not ended."""
        warning = LateWarning(self)

        def read() -> RunRecord:
            run = self.ended_runs.fetch(run_id, self.store.runs.by_id) or self.client.get(run_id)
            if warning.is_due(run):
                warning.log_blocker(run)
            return run

        return read

    def _new_sealer(
        self, inline_limit: int, *, owns_store: bool, read_only_values: bool
    ) -> PayloadSealer:
        """Return the sealer of stored values.

        An encrypted database is never used in clear: an engine without keys may only read it, and
        only if the caller passed *read_only_values*. Raises CodecMismatch. On errors the store
        is closed, unless the caller passed it in.
        """
        cipher = getattr(self.codec, "cipher", None)
        packing = getattr(self.codec, "packing", None)
        try:
            encrypted = self.store.installation.setting(ENCRYPTION) is not None
            if cipher is None and encrypted and not read_only_values:
                raise CodecMismatch(
                    database=self.store.url,
                    stored=f"{self.codec.name}, encrypted",
                    given=self.codec.name,
                )
            sealer = PayloadSealer(
                self.store,
                cipher,
                packing,
                inline_limit,
                json=self.codec.name == JsonCodec.name,
                locked=cipher is None and encrypted,
            )
            if cipher is not None:
                self._encrypt(sealer, self.store.installation.setting(ENCRYPTION))
        except BaseException:
            if owns_store:
                self.store.close()
            raise
        return sealer

    def _encrypt(self, sealer: PayloadSealer, recorded: str | None) -> None:
        """Record that the database is encrypted, so that it refuses unencrypted values, and encrypt
        the secrets that an engine without a key has stored in clear."""
        if recorded is None:
            (answer,) = self.store.apply([EncryptStore()])
            if isinstance(answer, BaseException):
                raise answer
        elif recorded != GUARDED:  # a copy, or a database that an older Holdfast has encrypted
            with suppress(StoreError):  # a read-only file cannot be changed, and can still be read
                self.store.apply([EncryptStore()])
        ops: list[Operation] = [*sealer.secrets.unencrypted(self.store)]
        for answer in self.store.apply(ops) if ops else ():
            if isinstance(answer, BaseException):
                raise answer

    def definitions(self) -> Mapping[str, Definition]:
        """Return the workflows that this engine can execute, by name: the workflows passed to it,
        or else all workflows that the process defines, and in both cases the workflows started
        here."""
        known = registry.unique_definitions() if self._workflows is None else self._workflows
        return {**known, **self._started} if self._started else known

    def _named_code(self) -> Mapping[str, Definition]:
        """Return the workflows whose names no deployed definition may have."""
        if self._workflows is None and registry.is_test_process():
            return {}
        return self.definitions()

    def know(self, workflow: Any) -> None:
        """Register a workflow that is started here, so that the worker of this engine can execute
        it.

        Raises BadOption inside workflow code, which would start the run again at every replay, and
        WorkflowExists for a name that several workflows have, or a deployed definition too.
        """
        if is_workflow_code():
            raise BadOption(
                option="start",
                why="a workflow starts runs with holdfast.start, so that it does so only once",
            )
        if not isinstance(workflow, str):
            self.learn(workflow)
            return
        if self._workflows is None and workflow not in self._started:
            registry.check_name(workflow)
        self.shared_names.check_start(self.client.namespace, workflow)

    def learn(self, workflow: Any) -> None:
        """Register a workflow, in place of another one of that name. Raises WorkflowExists."""
        name = getattr(workflow, "name", None)
        if name is not None and self.definitions().get(name) is not workflow:
            if self._workflows is None:
                registry.require_unique(name)  # the other module may have been imported since then
            self._started[name] = workflow

    def new_worker(self, program_loop: ProgramLoop | None = None) -> Worker:
        """Create the worker of this engine, not yet started. Async user code runs on
        *program_loop*, if that is given. Raises WorkflowExists if the process defines several
        workflows of one name, and the engine was given none, or if a deployed definition has the
        name of one."""
        if self._workflows is None:
            registry.require_unique()
            for name, places in registry.ambiguous().items():
                log.info("workflow %s is not served by its name: %s", name, ", ".join(places))
        self.shared_names.check_all(self.client.only)
        self.worker = Worker(
            self.store,
            self.writer,
            self.codec,
            self.definitions,
            self.clock,
            self.settings,
            self.learn,
            self.sealer,
            program_loop,
            self.stored_definitions,
        )
        bind_resolvers(self.worker, self._libraries, self.codec, self.sealer)
        bind_query(self.client, self._libraries)
        self.worker.declare = self._declarations
        self.ended_runs.is_held = self.worker.capacity.has
        return self.worker

    def _declarations(self) -> list[Operation]:
        """Return the operations that make the stored schedules equal to the schedules that the code
        declares."""
        declared, undeclared, errors = self.schedules.declared(self.definitions())
        for reason in errors:
            log.error("a schedule in the code is not used: %s", reason)
        for schedule in undeclared:
            log.warning("schedule %s is paused: %s", schedule.name, GONE)
        return [
            *map(SetSchedule, declared),
            *(PauseSchedule(schedule.namespace, schedule.name, GONE) for schedule in undeclared),
        ]

    def lease(self, route: Route) -> str | None:
        """Return the session to which a new run of *route* can be leased at its start; None if this
        engine has no worker that can execute it."""
        if self.worker is None or self.worker.stopping:
            return None
        return self.worker.lease_for(route)

    def lease_member(self, route: Route) -> str | None:
        """Return the session to which a new graph member of *route* can be leased; None if there is
        none. Members are created inside a transaction."""
        if self.worker is None or self.worker.stopping:
            return None
        return self.worker.lease_member(route)

    def adopt(self, runs: list[NewRun], answers: list[Any]) -> None:
        """Execute the runs that were leased to this engine's worker at their start."""
        worker = self.worker
        for run in runs:
            if run.definition is not None:
                self.stored_definitions.kept.note(run.definition)
        leased = [
            (run, answer.now) for run, answer in zip(runs, answers, strict=True) if answer.leased
        ]
        if worker is not None:  # also for runs without a lease: the worker may claim them next
            self.ended_runs.expect(answer.id for answer in answers if answer.created)
        if worker is not None and leased:
            # The engine may have been closed meanwhile. The runs are committed, and other workers
            # can claim them.
            with suppress(RuntimeError):
                worker.loop.call_soon_threadsafe(worker.adopt_all, leased)

    def close(self) -> None:
        """End the background work, close the writer, then the store."""
        for stop in list(self.on_close):
            stop()
        self.writer.close()
        self.store.close()


class LateWarning:
    """Logs once why a run has not ended, for a program that waits for it and has no worker."""

    def __init__(self, parts: Components) -> None:
        self._parts = parts
        self._at: float | None = time.monotonic() + UNEASY

    def is_due(self, run: RunRecord) -> bool:
        """Return whether the warning is due. It is due at most once: the caller must log it."""
        if self._at is None or time.monotonic() < self._at:
            return False
        self._at = None
        return self._parts.worker is None and run.status not in DONE

    def log_blocker(self, run: RunRecord) -> None:
        """Log what blocks the run, and the remedy."""
        why = self._parts.why(run)
        log.warning(
            "run %s has not ended yet: %s (%s)",
            run.id,
            why.reason,
            why.remedy or f"holdfast why {run.id}",
        )

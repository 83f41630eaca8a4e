"""What can be asked of a store by whoever is no worker: start, signal, cancel, look, repair.

A request is a transition and what its answer means, so that blocking and asynchronous callers share it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from holdfast.core import budgets, duration
from holdfast.core.codec import Codec
from holdfast.core.duration import Duration
from holdfast.core.leases import policy_of
from holdfast.core.options import checked_capabilities, checked_count, checked_tags, checked_text, priority_of
from holdfast.core.rate import parse_rate
from holdfast.core.records import DEFAULT_NAMESPACE, Event, Fetch, Kind, Lane, NewRun, Payload, Route, Run
from holdfast.core.shares import checked_weights
from holdfast.core.status import FINAL, Status
from holdfast.core.texts import is_storable
from holdfast.engine import past
from holdfast.engine.failure import as_error
from holdfast.engine.ids import new_id
from holdfast.engine.payloads.retention import checked_rule, checked_statuses
from holdfast.engine.payloads.vault import Vault
from holdfast.errors import BadOption, HistoryGone, RunNotFinished, RunNotFound, StepNotFound, UnknownWorkflow
from holdfast.store import contract as c

_EPOCH, _MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)

Moment = Duration | datetime
Lease = Callable[[Route], str | None]
Options = Mapping[str, Any]


class Request(NamedTuple):
    """A transition, and what to make of its answer."""

    op: c.Transition
    understand: Callable[[Any], Any]


Start = tuple[list[NewRun], Request]


class Client:
    """Turns what people ask into transitions, and reads what is stored."""

    def __init__(
        self, store: c.Store, codec: Codec, definitions: Callable[[], Mapping[str, Any]],
        namespace: str | None = None, vault: Vault | None = None,
    ) -> None:  # fmt: skip
        self.store, self.codec, self.definitions = store, codec, definitions
        self.namespace, self._only = namespace or DEFAULT_NAMESPACE, namespace
        self.max_signals = c.MOST_SIGNALS
        self.vault = vault or Vault(store)

    # Starting

    def start(self, workflow: Any, args: Sequence[Any], kwargs: Mapping[str, Any], options: Options, lease: Lease) -> Start:
        """Start one run; the answer is its id."""
        if any(options.get(name) is not None for name in GATHERING):
            return self._gather(workflow, args, kwargs, options)
        runs = [self._new_run(workflow, args, kwargs, options, lease)]
        return runs, Request(c.StartRuns(runs), lambda answer: answer)

    def _gather(self, workflow: Any, args: Sequence[Any], kwargs: Mapping[str, Any], options: Options) -> Start:
        """Start a run into which further starts of its key go until it begins."""
        how = gathering_from(options)
        if how.size is not None:
            if len(args) != 1 or kwargs:
                raise BadOption(option="batch", why="each start gives one item: the workflow is given the list of them")
            args = ([args[0]],)
        run = self._new_run(workflow, args, kwargs, {**options, "key": None}, lambda route: None)

        def add(old: bytes) -> bytes:
            whole = self.codec.decode(old)
            whole[0].extend(self.codec.decode(run.input)[0])
            return self.codec.encode(whole, what="the arguments")

        def merge(old: bytes, fetch: Fetch) -> tuple[bytes, list[Payload]]:
            return self.vault.remake(old, add, fetch)

        op = c.GatherStart(
            run=run, key=how.key, quiet=how.quiet, longest=how.longest, size=how.size, merge=None if how.size is None else merge
        )
        return [run], Request(op, lambda answer: answer)

    def start_many(self, workflow: Any, items: Iterable[Any], options: Options, lease: Lease) -> Start:
        """Start one run per item, all or none; the answer is their ids."""
        if any(options.get(name) is not None for name in ("id", "key", *GATHERING)):
            raise BadOption(option="id", why="many runs cannot share an id or a key: start them one by one")
        known = self.known(workflow)
        runs: list[NewRun] = []
        for item in items:
            if runs:
                runs.append(self._like(runs[0], self._encoded(known, (item,), {}), options))
            else:
                runs.append(self._new_run(workflow, (item,), {}, options, lease))
        return runs, Request(c.StartRuns(runs), lambda answer: answer)

    def _like(self, first: NewRun, data: bytes, options: Options) -> NewRun:
        """Return a run that is started as another one is, with other arguments: the options are read once for all."""
        run_id = new_id()
        drawn, limits = (first.budgets, None) if first.limits is None else budgets.drawn_on(options["budget"], run_id)
        return msgspec.structs.replace(first, id=run_id, input=data, budgets=drawn, limits=limits)

    def _new_run(self, workflow: Any, args: Sequence[Any], kwargs: Mapping[str, Any], options: Options, lease: Lease) -> NewRun:
        route, data = self.route(workflow, options), self.input_of(workflow, args, kwargs)
        now = self.store.now()
        delay = options.get("delay")
        run_id = checked_text("id", options.get("id")) or new_id()
        drawn, limits = budgets.drawn_on(options.get("budget"), run_id)
        return NewRun(
            id=run_id,
            route=route,
            input=data,
            priority=priority_of(options.get("priority", 0)),
            key=checked_text("key", options.get("key")),
            tags=checked_tags(options.get("tags") or {}),
            available_at=None if delay is None else instant(delay, now),
            deadline=None if options.get("deadline") is None else instant(options["deadline"], now),
            session_id=None if delay is not None else lease(route),
            policy=None if options.get("policy") is None else msgspec.json.encode(policy_of(options["policy"])),
            budgets=drawn,
            limits=limits,
            share=checked_text("share", options.get("share")),
            same=self.vault.is_same,
        )

    def route(self, workflow: Any, options: Mapping[str, Any]) -> Route:
        """Return what a worker must offer to serve a run of this workflow."""
        if isinstance(workflow, str):
            known = self.definitions().get(workflow)
            name, version, lane, capabilities = workflow, "1", "default", ()
            if known is None and (not name.strip() or not checked_text("workflow", name)):
                raise BadOption(option="workflow", value=name, why="a workflow has a name")
        else:
            known, name, version, lane, capabilities = workflow, "", "", "", ()
            if known is None:
                raise UnknownWorkflow(workflow=None, why="name one")
        if known is not None:
            if not hasattr(known, "program"):
                raise UnknownWorkflow(workflow=getattr(known, "__name__", repr(known)), why="it is no @workflow")
            name, version, lane, capabilities = known.name, known.version, known.lane, known.capabilities
        wanted = options.get("capabilities")
        return Route(
            checked_text("namespace", options.get("namespace")) or self.namespace,
            name,
            str(options.get("version") or version),
            checked_text("lane", options.get("lane")) or lane,
            tuple(capabilities) if wanted is None else checked_capabilities(wanted),
        )

    def input_of(self, workflow: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bytes:
        """Return arguments as they are stored, checked against the signature if it is known."""
        return self._encoded(self.known(workflow), args, kwargs)

    def known(self, workflow: Any) -> Any:
        """Return the definition of a workflow, if it is known here."""
        return self.definitions().get(workflow) if isinstance(workflow, str) else workflow

    def _encoded(self, known: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bytes:
        signature = getattr(known, "signature", None)
        if signature is None:
            return self.codec.encode({"args": list(args), "kwargs": dict(kwargs)} if kwargs else list(args), what="the arguments")
        data: bytes = signature.encode_checked(self.codec, tuple(args), dict(kwargs))
        return data

    # Touching a run

    def mine(self, run_id: Any) -> str:
        """Return the id of a run that may be touched: whoever was opened for a namespace touches no other. Raises RunNotFound."""
        if self._only is not None and self.get(run_id).namespace != self._only:
            raise RunNotFound(run=run_id)
        return run_named(run_id)

    def signal(
        self, run_id: str, name: str, payload: Any, key: str | None, source: str | None = None, wait: str | None = None
    ) -> Request:
        """Send a signal; the answer is Delivery."""
        if not isinstance(name, str) or not name.strip() or not is_storable(name):
            raise BadOption(option="name", value=name, why="a signal has a name")
        run_id, data = self.mine(run_id), self.codec.encode(payload, what=f"signal {name!r}")
        key, source = checked_text("key", key), checked_text("source", source)
        return Request(c.SignalRun(run_id, name, data, key, source, wait, self.max_signals), lambda answer: answer)

    def cancel(self, run_id: str, reason: str, *, force: bool) -> Request:
        """Ask a run to stop; the answer is its status."""
        if reason is not None and (not isinstance(reason, str) or not is_storable(reason)):
            raise BadOption(option="reason", value=reason, why="it must be a text")
        return Request(c.RequestCancel(self.mine(run_id), reason, force), Status)

    def resume(self, run_id: str) -> Request:
        """Put a stuck run back to work."""
        return Request(c.ResumeRun(self.mine(run_id)), Status)

    def replay(self, run_id: str, from_step: str | None) -> Request:
        """Put a finished run back to work: what completed stands, what failed is done again."""
        run = self.get(self.mine(run_id))
        if run.status not in FINAL:
            raise RunNotFinished(run=run_id, status=run.status.value)
        void = past.voided_by_replay(self.whole_history(run_id), from_step)
        if void is None:
            raise StepNotFound(run=run_id, step=from_step)
        return Request(c.ReplayRun(run_id, void), Status)

    def fork(self, run_id: str, from_step: str | None) -> Request:
        """Make a new run with the history of another up to, and without, a step."""
        run = self.get(self.mine(run_id))
        events = past.valid(self.whole_history(run_id))
        if from_step is not None:
            cut = next((place for place, event in enumerate(events) if event.step == from_step), None)
            if cut is None:
                raise StepNotFound(run=run_id, step=from_step)
            events = events[:cut]
        else:
            events = []
        kept = without_open_gates(self._without_open_waits(self._without_open_children(events)))
        data = msgspec.json.encode({"run": run_id, "step": from_step})
        kept.append(Event(Kind.RUN_FORKED, data=data, at=self.store.now()))
        for seq, event in enumerate(kept, start=1):
            event.seq = seq
        fork = Run(
            id=new_id(), namespace=run.namespace, workflow=run.workflow, version=run.version, lane=run.lane,
            capabilities=run.capabilities, status=Status.PENDING, priority=run.priority, input=run.input, generation=0,
            revision=0, crashes=0, created_at=self.store.now(), forked_from=run_id, started_at=run.started_at,
            budgets=tuple(name for name in run.budgets if not name.startswith(budgets.TREE)), share=run.share,
        )  # fmt: skip
        return Request(c.ImportRun(fork, self.store.tags(run_id), kept), lambda answer: fork.id)

    def whole_history(self, run_id: str) -> list[Event]:
        """Return the events of a run, sealed. Raises HistoryGone: without them it would be done all over again."""
        events = self.store.history(run_id)
        if any(event.kind == Kind.HISTORY_DELETED for event in events):
            raise HistoryGone(run=run_id)
        return events

    def _without_open_children(self, events: list[Event]) -> list[Event]:
        """A child that has not ended tells its own parent, not the fork: the fork starts one of its own."""
        return [event for event in events if event.kind != Kind.CHILD_STARTED or self._has_ended(event)]

    def _without_open_waits(self, events: list[Event]) -> list[Event]:
        """Signals to a wait of the run that was forked reach that run: the fork opens a wait of its own."""
        return [event for event in events if event.kind != Kind.WAIT_CREATED or self._has_closed(event)]

    def _has_closed(self, event: Event) -> bool:
        wait = self.store.wait(msgspec.json.decode(event.data or b"{}").get("id", ""))
        return wait is None or wait.closed_at is not None

    def _has_ended(self, event: Event) -> bool:
        child = self.store.run(msgspec.json.decode(event.data or b"{}").get("run", ""))
        return child is not None and child.status in FINAL

    # Looking

    def get(self, run_id: str) -> Run:
        """Return a run. Raises RunNotFound."""
        run = self.store.run(run_named(run_id))
        if run is None:
            raise RunNotFound(run=run_id)
        return run

    def record(self, run_id: str) -> Run:
        """Return a run with all of its values that can be read here. Raises RunNotFound."""
        return self.vault.readable(self.get(run_id), large=True)

    def history(self, run_id: str) -> list[Event]:
        """Return the events of a run, opened. Raises RunNotFound, KeyMissing."""
        return self.vault.events(run_id, self.store.history(self.get(run_id).id))

    def find(self, **filters: Any) -> list[Run]:
        """Return the runs that match, from new to old; what is kept apart of them is not loaded."""
        return [self.vault.readable(run) for run in self.store.runs(self._filter(filters))]

    def _filter(self, given: dict[str, Any]) -> c.Filter:
        status = given.pop("status", None)
        statuses = [status] if isinstance(status, str) else list(status or ())
        unknown = [one for one in statuses if one not in set(Status)]
        if unknown:
            raise BadOption(option="status", value=unknown[0], known=", ".join(Status))
        for name in ("since", "until"):
            if given.get(name) is not None:
                given[name] = moment(given[name], self.store.now(), sign=-1)
        given = {name: value for name, value in given.items() if value is not None}
        for name in {"namespace", "workflow", "worker", "parent_id", "before"} & set(given):
            if not isinstance(given[name], str):
                raise BadOption(option=name, value=given[name], why="it is a text")
        if "limit" in given:
            given["limit"] = checked_count("limit", given["limit"])
        if "tags" in given:
            given["tags"] = checked_tags(given["tags"])
        try:
            return c.Filter(statuses=statuses, **given)
        except TypeError as error:
            raise BadOption(option="filter", why=str(error)) from None

    def value(self, run: Run) -> Any:
        """Return the result of a finished run, or raise why there is none. Raises KeyMissing when it cannot be read here."""
        result = None if run.result is None else self.vault.open(run.result, f"the result of run {run.id}")
        if run.status is not Status.COMPLETED:
            error = self.vault.maybe(run.error, f"the error of run {run.id}")
            raise as_error(msgspec.structs.replace(run, error=error))
        definition = self.definitions().get(run.workflow)
        signature = getattr(definition, "signature", None)
        if signature is None:
            return self.codec.decode(result or b"null")
        return signature.decode_result(self.codec, result or b"null")

    # Keeping house

    def prune(
        self, older_than: Moment, statuses: Sequence[str], *, batch: int, after: str, workflow: str | None = None
    ) -> Request:
        """Delete a batch of old finished runs; the answer is Pruned."""
        checked_statuses(statuses)
        before = moment(older_than, self.store.now(), sign=-1)
        wanted = list(statuses) or sorted(FINAL)
        return Request(
            c.Prune(before, wanted, limit=batch, namespace=None, after=after, workflow=workflow), lambda answer: answer
        )

    def retention(self, name: str, **options: Any) -> Request:
        """Make a retention rule, or another one of it."""
        known = {route.workflow for route in self.store.routes().values()} | set(self.definitions())
        return Request(c.SaveRetention(checked_rule(name, known=known, **options)), lambda answer: None)

    def remove_retention(self, name: str) -> Request:
        """Remove a retention rule."""
        return Request(c.RemoveRetention(name), lambda answer: None)

    def lane(
        self, name: str, concurrency: int | None, rate: str | None, *, paused: bool, per_share: int | None = None,
        rate_per_share: str | None = None, weights: Mapping[str, Any] | None = None, draining: bool = False,
    ) -> Request:  # fmt: skip
        """Set the limits of a lane."""
        if checked_text("lane", name) is None:
            raise BadOption(option="lane", value=name, why="a lane has a name")
        for option, flag in (("paused", paused), ("draining", draining)):
            if not isinstance(flag, bool):
                raise BadOption(option=option, value=flag, why="it is True or False")
        if per_share is not None and (not isinstance(per_share, int) or isinstance(per_share, bool) or per_share < 0):
            raise BadOption(option="per_share", value=per_share, why="it is a number of runs")
        each = None if rate_per_share is None else parse_rate(rate_per_share, "rate_per_share")
        if concurrency is not None and (not isinstance(concurrency, int) or isinstance(concurrency, bool) or concurrency < 0):
            raise BadOption(option="concurrency", value=concurrency, why="it is a number of runs")
        limits = None if rate is None else parse_rate(rate)
        lane = Lane(
            name=name, concurrency=concurrency, rate_limit=limits.limit if limits else None,
            rate_per=limits.per if limits else None, paused=paused, per_share=per_share,
            share_rate_limit=each.limit if each else None, share_rate_per=each.per if each else None,
            weights=checked_weights(weights), draining=draining,
        )  # fmt: skip
        return Request(c.SetLane(lane), lambda answer: None)


GATHERING = ("debounce", "max_wait", "batch", "within")


class Gathering(NamedTuple):
    """How starts of a key are gathered: for how long, and how many at most."""

    key: str
    quiet: int
    longest: int
    size: int | None


def refuse_gathering(options: Options) -> None:
    """Starts in a transaction of the caller's own cannot be gathered. Raises BadOption."""
    for name in GATHERING:
        if options.get(name) is not None:
            raise BadOption(option=name, why="starts within your own transaction cannot be gathered")


def gathering_from(options: Options) -> Gathering:
    """Read the options by which starts are gathered. Raises BadOption."""
    key, debounce, size = checked_text("key", options.get("key")), options.get("debounce"), options.get("batch")
    if key is None:
        raise BadOption(option="key", why="starts are gathered by their key")
    if (debounce is None) == (size is None):
        raise BadOption(option="debounce", why="say debounce (with max_wait), or batch with within")
    if options.get("id") is not None or options.get("delay") is not None:
        raise BadOption(option="delay", why="when a run that gathers starts begins is not said by id or delay")
    if debounce is not None:
        quiet = duration.parse(debounce)
        longest = 10 * quiet if options.get("max_wait") is None else duration.parse(options["max_wait"])
        return Gathering(key, quiet, longest, None)
    if isinstance(size, bool) or not isinstance(size, int) or size < 1 or options.get("within") is None:
        raise BadOption(
            option="batch", value=size, why='it is a number of starts, with within="2s" for how long they are gathered'
        )
    within = duration.parse(options["within"])
    return Gathering(key, within, within, size)


def without_open_gates(events: list[Event]) -> list[Event]:
    """A gate that is not closed asks for another run: the fork asks for itself."""
    closed = {event.step for event in events if event.kind == Kind.GATE_CLOSED}
    return [event for event in events if event.kind not in _OF_OPEN_GATES or event.step in closed]


_OF_OPEN_GATES = {Kind.GATE_OPENED, Kind.GATE_REMINDED, Kind.GATE_ESCALATED, Kind.GATE_WITHDRAWN}


def run_named(run_id: Any) -> str:
    """Return the id of a run, which may not be there; what no database could store names none. Raises RunNotFound."""
    if not isinstance(run_id, str) or not is_storable(run_id):
        raise RunNotFound(run=run_id)
    return run_id


def instant(when: Moment, now: int) -> int:
    """Return the instant that lies *when* after now, or that *when* is."""
    return moment(when, now, sign=1)


def moment(when: Moment, now: int, *, sign: int) -> int:
    """Return a datetime as an instant, or the instant that lies a duration before or after now."""
    if isinstance(when, datetime):
        aware = when if when.tzinfo is not None else when.replace(tzinfo=UTC)
        return (aware - _EPOCH) // _MICROSECOND
    return now + sign * duration.parse(when)

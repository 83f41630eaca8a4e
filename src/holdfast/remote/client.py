"""``Client``: a server, with the same namespaces and calls as an ``Engine``."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any

from holdfast.core.duration import Duration
from holdfast.core.status import FINAL, Status
from holdfast.errors import NotRemote, ResultTimeout
from holdfast.remote.calls import OPERATIONS, HttpCalls
from holdfast.remote.graphs import RemoteGraphs
from holdfast.remote.namespaces import NAMESPACES, RemoteNamespace, call
from holdfast.remote.polling import POLL, ends_at
from holdfast.remote.reading import RemoteEvents, RemoteStreams
from holdfast.remote.tasks import RemoteTasks
from holdfast.views.events import EventView
from holdfast.views.pages import Page
from holdfast.views.runs import RunView


class RemoteRun:
    """A handle to a run of a server."""

    def __init__(self, calls: HttpCalls, run_id: str) -> None:
        self.id: str = run_id
        self._calls: HttpCalls = calls
        self._own = RemoteNamespace(calls, "run", id=run_id)

    def __getattr__(self, verb: str) -> Any:
        return getattr(self._own, verb)

    @property
    def status(self) -> Status:
        """The current status of the run. Raises RunNotFound."""
        return Status(self._own.status())

    @property
    def record(self) -> RunView:
        """The run as it is now. Raises RunNotFound."""
        view: RunView = self._own.record()
        return view

    def history(self, *, after: int = 0, limit: int | None = None) -> list[EventView]:
        """Return the history of the run, or a part of it, in pages of the server."""
        events: list[EventView] = []
        while limit is None or len(events) < limit:
            wanted = 500
            if limit is not None:
                wanted = min(500, limit - len(events))
            page = self._own.history(after=after, limit=wanted)
            events += page
            if len(page) < wanted:
                break
            after = page[-1].seq
        return events

    def fork(self, *, id: str | None = None, **options: Any) -> RemoteRun:
        """Start a fork of the run. The options are those of ``run.fork``."""
        return RemoteRun(self._calls, self._own.fork(fork_id=id, **options)["id"])

    def result(self, timeout: Duration | None = None) -> Any:
        """Wait for the run to end and return its result. Raises RunFailed, RunCancelled,
        RunExpired, RunStuck, ResultTimeout, RunNotFound."""
        until = ends_at(timeout)
        while True:
            left = min(POLL, until - time.monotonic())
            answer = call(self._calls, "run.result", {"id": self.id}, wait=f"{max(left, 0.0):.3f}s")
            if answer["done"]:
                return answer["result"]
            if time.monotonic() >= until:
                raise ResultTimeout(run=self.id, status=answer["status"])

    def wait_until(self, status: str | Iterable[str], timeout: Duration | None = None) -> Status:
        """Wait until the run has one of these statuses, or has ended, and return its status."""
        wanted = {status} if isinstance(status, str) else {*status}
        wanted |= FINAL
        until = ends_at(timeout)
        while True:
            current = self.status
            if current in wanted:
                return current
            if time.monotonic() >= until:
                raise ResultTimeout(run=self.id, status=current.value)
            time.sleep(0.2)

    def __repr__(self) -> str:
        return f"<run {self.id}>"


class RemoteRunQuery:
    """The runs of a server that match some filters, newest first."""

    def __init__(self, calls: HttpCalls, filters: dict[str, Any]) -> None:
        self._calls: HttpCalls = calls
        self._filters: dict[str, Any] = {
            name: value for name, value in filters.items() if value is not None
        }

    def __iter__(self) -> Iterator[RunView]:
        after: str | None = None
        while True:
            page = self.page(after=after)
            yield from page
            if page.next is None:
                return
            after = page.next

    def page(self, *, after: str | None = None, limit: int = 100) -> Page[RunView]:
        """Return up to *limit* runs; *after* is the ``next`` of the previous page."""
        page: Page[RunView] = call(
            self._calls, "runs.page", {}, cursor=after, limit=limit, **self._filters
        )
        return page

    def first(self) -> RunView | None:
        """Return the newest run; None if no run matches."""
        page = self.page(limit=1)
        return page[0] if page else None

    def count(self) -> int:
        """Return the number of runs that match."""
        return int(call(self._calls, "runs.count", {}, **self._filters)["count"])

    def group(self, by: str = "error", **options: Any) -> Any:
        """Return the runs grouped by root cause, workflow and step."""
        return call(self._calls, "runs.group", {}, by=by, **self._filters)

    def __getattr__(self, verb: str) -> Any:
        if f"runs.{verb}" not in OPERATIONS:
            raise AttributeError(f"a query has no verb {verb}")

        def apply(*args: Any, wait: bool = True, **options: Any) -> Any:
            bound = {"filters": self._filters}
            return call(self._calls, f"runs.{verb}", bound, *args, wait=wait, **options)

        return apply


class Client:
    """A server at *url*, called with an API key; without one, with HOLDFAST_API_KEY."""

    def __init__(self, url: str, api_key: str | None = None) -> None:
        self._calls = HttpCalls(url, api_key)
        self.events = RemoteEvents(self._calls)
        """The events of all runs."""
        self.streams = RemoteStreams(self._calls)
        """The output of runs."""
        self.tasks = RemoteTasks(self._calls, lambda run_id: RemoteRun(self._calls, run_id))
        """The leased runs."""
        self.graphs = RemoteGraphs(self._calls)
        """The runs that depend on each other."""

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Do nothing: a client keeps no connection open."""

    def __getattr__(self, name: str) -> RemoteNamespace:
        if name not in NAMESPACES:
            raise AttributeError(f"a client has no namespace {name}")
        return RemoteNamespace(self._calls, name)

    def start(self, workflow: Any, *args: Any, **options: Any) -> RemoteRun:
        """Start a run, by the name of its workflow. The options are those of ``engine.start``;
        other keywords are arguments of the workflow."""
        known = OPERATIONS["engine.start"].parameters
        named = {name: value for name, value in options.items() if name in known}
        kwargs = {name: value for name, value in options.items() if name not in known}
        name = getattr(workflow, "name", workflow)
        arguments = {"workflow": name, "args": list(args), "kwargs": kwargs, **named}
        answer = self._calls.call(OPERATIONS["engine.start"], arguments)
        return RemoteRun(self._calls, answer["id"])

    def start_many(self, workflow: Any, items: Iterable[Any], **options: Any) -> list[RemoteRun]:
        """Start one run per item."""
        name = getattr(workflow, "name", workflow)
        arguments = {"workflow": name, "items": list(items), **options}
        started = self._calls.call(OPERATIONS["engine.start_many"], arguments)
        return [RemoteRun(self._calls, run["id"]) for run in started]

    def run(self, run_id: str) -> RemoteRun:
        """Return a handle to a run. Raises RunNotFound."""
        run = RemoteRun(self._calls, run_id)
        run.status  # noqa: B018  raises RunNotFound
        return run

    def runs(self, **filters: Any) -> RemoteRunQuery:
        """Return the query for the runs that match, as ``engine.runs`` does."""
        return RemoteRunQuery(self._calls, filters)

    def signal(self, run_id: str, name: str, payload: Any = None, **options: Any) -> bool:
        """Send a signal to a run. Return False if one with the same key was sent before."""
        return bool(RemoteRun(self._calls, run_id).signal(name, payload, **options))

    def cancel(self, run_id: str, *args: Any, **options: Any) -> Status:
        """Request the cancellation of a run."""
        return Status(RemoteRun(self._calls, run_id)._own.cancel(*args, **options))

    def resume(self, run_id: str, **options: Any) -> Status:
        """Make a stuck run claimable again."""
        return Status(RemoteRun(self._calls, run_id)._own.resume(**options))

    def replay(self, run_id: str, **options: Any) -> Status:
        """Make a finished run claimable again."""
        return Status(RemoteRun(self._calls, run_id)._own.replay(**options))

    def fork(self, run_id: str, **options: Any) -> RemoteRun:
        """Start a fork of a run."""
        return RemoteRun(self._calls, run_id).fork(**options)

    def why(self, run_id: str) -> Any:
        """Explain what a run waits for."""
        return RemoteRun(self._calls, run_id)._own.why()

    def work(self) -> None:
        """Raise NotRemote: a worker executes code, and needs the database itself."""
        raise NotRemote(call="work", why="use a remote worker, or a worker with the database")

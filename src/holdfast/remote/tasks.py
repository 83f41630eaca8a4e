"""Submit and lease tasks over HTTP."""

from __future__ import annotations

from typing import Any, NamedTuple

from holdfast.remote.calls import OPERATIONS, HttpCalls
from holdfast.remote.leases import RemoteLease
from holdfast.remote.namespaces import RemoteNamespace
from holdfast.remote.task_worker import RemoteTaskWorker


class Submitted(NamedTuple):
    """A submitted task, and whether this submission has created it."""

    run: Any
    created: bool


class RemoteTasks(RemoteNamespace):
    """The tasks of a server."""

    def __init__(self, calls: HttpCalls, run: Any) -> None:
        super().__init__(calls, "tasks")
        self._run = run

    def submit(self, task: Any, *args: Any, **options: Any) -> Submitted:
        """Start a run of a task, by its name, and tell whether this call has created it. Other
        keywords than the options of ``engine.start`` are arguments of the task."""
        known = OPERATIONS["tasks.submit"].parameters
        named = {name: value for name, value in options.items() if name in known}
        kwargs = {name: value for name, value in options.items() if name not in known}
        arguments = {"task": task, "args": list(args), "kwargs": kwargs, **named}
        answer = self._calls.call(OPERATIONS["tasks.submit"], arguments)
        return Submitted(self._run(answer["id"]), bool(answer["created"]))

    def lease(self, proof: str, **options: Any) -> RemoteLease:
        """Continue a lease by its proof. A server renews it for as long as its worker asked."""
        return RemoteLease(self._calls, proof)

    def worker(self, worker: str = "", **offer: Any) -> RemoteTaskWorker:
        """Open a holder of leases. The options are those of ``engine.tasks.worker``."""
        return RemoteTaskWorker(self._calls, worker, **offer)

    def claim(
        self, limit: int = 1, *, wait: Any = None, renew: bool = True, **offer: Any
    ) -> list[RemoteLease]:
        """Lease up to *limit* runs once, for a program that claims no more."""
        holder = self.worker(claims=wait is not None, renew=renew, **offer)
        leases = holder.claim(limit, wait=wait)
        if not leases:
            holder.close()
        elif wait is not None:
            holder.rest()
        return leases

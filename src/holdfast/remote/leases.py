"""Hold leases over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from holdfast.core import typed_json
from holdfast.remote.calls import HttpCalls
from holdfast.remote.namespaces import RemoteNamespace, call
from holdfast.service.tasks.lease_state import Retried, RunEnded
from holdfast.views.runs import RunView

ENDS = frozenset({"cancel", "complete", "delay", "suspend", "throw", "wait_children"})
"""The calls after which a lease is over; ``fail`` is another."""


class RemoteLease(RemoteNamespace):
    """A lease of a server, by its proof. Its calls are those of a lease of an engine."""

    def __init__(
        self,
        calls: HttpCalls,
        proof: str,
        leased: dict[str, Any] | None = None,
        on_end: Callable[[str], None] | None = None,
    ) -> None:
        super().__init__(calls, "lease", proof=proof)
        self.proof: str = proof
        self.run_id: str = proof.rsplit(".", 2)[0]
        self.view: dict[str, Any] = leased or {}
        """The lease as the claim has answered it."""
        self._on_end: Callable[[str], None] | None = on_end

    def __getattr__(self, verb: str) -> Any:
        if verb not in ENDS:
            return super().__getattr__(verb)
        return partial(self._end, verb)

    def _end(self, verb: str, *args: Any, **options: Any) -> Any:
        """Make a call after which the lease is over."""
        answer = call(self._calls, f"lease.{verb}", self._bound, *args, **options)
        if self._on_end is not None:
            self._on_end(self.proof)
        return answer

    @property
    def run(self) -> RunView:
        """The leased run."""
        run: RunView = call(self._calls, "run.record", {"id": self.run_id})
        return run

    @property
    def input(self) -> Any:
        """The arguments of the run as one value, if this lease was claimed here."""
        return self.view.get("input")

    @property
    def cancel_reason(self) -> str | None:
        """Why the run was asked to stop; None if it was not."""
        reason: str | None = call(self._calls, "lease.cancel_reason", self._bound)
        return reason

    def fail(self, *args: Any, **options: Any) -> Retried | RunEnded:
        """Report a failed attempt, and return what happens to the run."""
        answer = self._end("fail", *args, **options)
        if answer.get("at") is not None:
            return typed_json.convert(answer, Retried)
        return typed_json.convert(answer, RunEnded)

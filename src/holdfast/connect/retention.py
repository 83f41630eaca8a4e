"""The calls of an engine on retention rules and on stored payloads: retain, rekey, check."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from holdfast.connect.calls import AsyncCalls, Calls, on_this_loop
from holdfast.core.duration import Duration
from holdfast.core.retention import RetentionRule
from holdfast.core.validation import checked_call
from holdfast.payloads.rekey import Rekeyed, rekey
from holdfast.payloads.verify import PayloadReport, check_payloads
from holdfast.service.runs import Request, identity
from holdfast.store.retention import batches as retention_plan

BATCH = 100
Progress = Callable[[int], None]


class PayloadCalls(Calls):
    """The calls of ``Engine`` on retention rules and payloads."""

    def retention(
        self,
        name: str,
        *,
        what: str = "runs",
        workflow: str | None = None,
        status: str | Sequence[str] = (),
        older_than: Duration | None = None,
        keep_last: int | None = None,
        max_bytes: int | None = None,
    ) -> None:
        """Create a rule by which workers delete finished runs, or the part *what* of their history;
        a rule of the same name is replaced.

        Raises BadOption if the rule has no bound or is inconsistent, UnknownWorkflow,
        NamespaceBound.
        """
        self._do(
            self._parts.client.retention(
                name,
                what=what,
                workflow=workflow,
                status=status,
                older_than=older_than,
                keep_last=keep_last,
                max_bytes=max_bytes,
            )
        )

    def retentions(self) -> list[RetentionRule]:
        """Return all retention rules. Raises NamespaceBound."""
        self._parts.client.unbound("retentions")
        return self._parts.store.retention.rules()

    def remove_retention(self, name: str) -> None:
        """Remove a retention rule. Raises RetentionNotFound."""
        self._do(self._parts.client.remove_retention(name))

    def preview_retention(self) -> list[retention_plan.RetentionPreview]:
        """Return how much each rule would delete now. Raises NamespaceBound."""
        self._parts.client.unbound("preview_retention")
        return [
            retention_plan.preview(self._parts.store.retention, rule)
            for rule in self._parts.store.retention.rules()
        ]

    def retain(self, progress: Progress | None = None) -> int:
        """Apply the retention rules now, in this process, batch by batch, and return how many runs
        were deleted or trimmed. *progress* is called with the size of each batch. Raises
        NamespaceBound."""
        self._parts.client.unbound("retain")
        checked_call("progress", progress)
        deleted = 0
        for rule in self._parts.store.retention.rules():
            for portion in retention_plan.portions(self._parts.store.retention, rule):
                after: str | None = ""
                while after is not None:
                    done = self._do(
                        Request(retention_plan.batch_of(rule, portion, after, BATCH), identity)
                    )
                    deleted += done.runs
                    after = done.last
                    if progress is not None:
                        progress(done.runs)
        return deleted

    def rekey(self, progress: Progress | None = None) -> Rekeyed:
        """Encrypt with the current key all values that another key encrypts or that are in clear.
        *progress* is called with numbers of runs. The call can be interrupted and repeated. Raises
        NamespaceBound."""
        self._parts.client.unbound("rekey")
        checked_call("progress", progress)
        return rekey(
            self._parts.store,
            self._parts.sealer,
            lambda op: self._do(Request(op, identity)),
            progress,
        )

    def check_payloads(self, progress: Progress | None = None) -> PayloadReport:
        """Read and decrypt every payload that is stored apart from its row, and report the damaged
        ones. Raises NamespaceBound."""
        self._parts.client.unbound("check_payloads")
        checked_call("progress", progress)
        return check_payloads(self._parts.store, self._parts.sealer, progress)


class AsyncPayloadCalls(AsyncCalls):
    """The calls of ``AsyncEngine`` on retention rules and payloads. *progress* is called on the
    program's loop."""

    async def retention(
        self,
        name: str,
        *,
        what: str = "runs",
        workflow: str | None = None,
        status: str | Sequence[str] = (),
        older_than: Duration | None = None,
        keep_last: int | None = None,
        max_bytes: int | None = None,
    ) -> None:
        """Create or replace a retention rule, as ``Engine.retention`` does."""
        await self._call(
            PayloadCalls.retention,
            name,
            what=what,
            workflow=workflow,
            status=status,
            older_than=older_than,
            keep_last=keep_last,
            max_bytes=max_bytes,
        )

    async def retentions(self) -> list[RetentionRule]:
        """Return all retention rules. Raises NamespaceBound."""
        return await self._call(PayloadCalls.retentions)

    async def remove_retention(self, name: str) -> None:
        """Remove a retention rule. Raises RetentionNotFound."""
        await self._call(PayloadCalls.remove_retention, name)

    async def preview_retention(self) -> list[retention_plan.RetentionPreview]:
        """Return how much each rule would delete now. Raises NamespaceBound."""
        return await self._call(PayloadCalls.preview_retention)

    async def retain(self, progress: Progress | None = None) -> int:
        """Apply the retention rules now, as ``Engine.retain`` does, and return how many runs were
        deleted or trimmed."""
        return await self._call(PayloadCalls.retain, on_this_loop(progress))

    async def rekey(self, progress: Progress | None = None) -> Rekeyed:
        """Encrypt all values with the current key, as ``Engine.rekey`` does."""
        return await self._call(PayloadCalls.rekey, on_this_loop(progress))

    async def check_payloads(self, progress: Progress | None = None) -> PayloadReport:
        """Read and decrypt every payload that is stored apart from its row, and report the damaged
        ones. Raises NamespaceBound."""
        return await self._call(PayloadCalls.check_payloads, on_this_loop(progress))

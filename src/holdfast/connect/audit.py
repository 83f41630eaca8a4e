"""``engine.audit``: the log of the actions of operators."""

from __future__ import annotations

from holdfast.connect.async_calls import AsyncCalls
from holdfast.views import audit as views
from holdfast.views.audit import AuditEntryView


class AsyncAudit:
    """The audit log of an ``AsyncEngine``."""

    def __init__(self, calls: AsyncCalls) -> None:
        self._calls: AsyncCalls = calls

    async def list(
        self,
        *,
        person: str | None = None,
        action: str | None = None,
        subject: str | None = None,
        before: str | None = None,
        limit: int = 50,
    ) -> list[AuditEntryView]:
        """Return the actions that operators have asked for under their names (``by=``), newest
        first. *person* is the name, *action* a method such as "lanes.set", *subject* what it was
        applied to, such as the id of a run; *before* is the id of the last entry of the previous
        page. Entries are kept for 400 days. Raises BadOption."""
        entries = await self._calls.call(
            lambda parts: parts.audit.find(
                by=person, action=action, subject=subject, before=before, limit=limit
            )
        )
        return [views.of(entry) for entry in entries]

"""Requests that the audit log records, and queries about it."""

from __future__ import annotations

from typing import Any, TypeVar

from holdfast.core.audit import AuditEntry, AuditFilter
from holdfast.core.validation import checked_count, checked_string, checked_text
from holdfast.engine.runtime.ids import new_id
from holdfast.errors.base import safe_repr
from holdfast.service.requests import Request, identity
from holdfast.service.runs import RunService
from holdfast.store.audit.operations import Audited

T = TypeVar("T")


class AuditService:
    """Records who asks for a request, in the transaction of the request."""

    def __init__(self, client: RunService) -> None:
        self._client: RunService = client

    def record(
        self, request: Request[T], by: str | None, action: str, subject: object, **details: Any
    ) -> Request[T]:
        """Return a request that is recorded under the name *by*; the same request if no name is
        given. Raises BadOption."""
        person = checked_text("by", by)
        if person is None:
            return request
        entry = self._entry(person, action, subject, details, self._client.only)
        return Request(Audited(request.op, entry), request.decode)

    def record_run(
        self, request: Request[T], by: str | None, action: str, run_id: str, **details: Any
    ) -> Request[T]:
        """Return a request about a run that is recorded under the name *by*, within the namespace
        of the run. Raises BadOption."""
        person = checked_text("by", by)
        if person is None:
            return request
        run = self._client.store.runs.get(run_id)
        namespace = self._client.only if run is None else run.namespace
        entry = self._entry(person, action, run_id, details, namespace)
        return Request(Audited(request.op, entry), request.decode)

    def note(self, by: str, action: str, subject: object, **details: Any) -> Request[None]:
        """Return a request that records the beginning of a procedure of several transactions."""
        entry = self._entry(by, action, subject, details, self._client.only)
        return Request(Audited(None, entry), identity)

    def _entry(
        self,
        by: str,
        action: str,
        subject: object,
        details: dict[str, Any],
        namespace: str | None,
    ) -> AuditEntry:
        return AuditEntry(
            id=new_id(),
            at=0,
            by=by,
            action=action,
            subject=subject if isinstance(subject, str) else safe_repr(subject),
            namespace=namespace,
            details={name: value for name, value in details.items() if value is not None},
        )

    def find(
        self,
        *,
        by: str | None,
        action: str | None,
        subject: str | None,
        before: str | None,
        limit: int,
    ) -> list[AuditEntry]:
        """Return entries from new to old, within the namespace of the engine. Raises BadOption."""
        which = AuditFilter(
            by=checked_text("by", by),
            action=checked_string("action", action),
            subject=checked_string("subject", subject),
            namespace=self._client.only,
            before=checked_string("before", before),
            limit=checked_count("limit", limit),
        )
        return self._client.store.audit.find(which)

# Generated from connect/retention.py by tools/generate_blocking.py: do not edit.
"""``engine.retention``: the rules by which finished runs are deleted, and deletion by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from holdfast.connect.calls import Calls
from holdfast.connect.components import Components
from holdfast.core.duration import Duration
from holdfast.core.unset import UNSET, without_unset
from holdfast.core.validation import checked_string
from holdfast.errors import RetentionNotFound
from holdfast.service.graph_stages import sweep_all
from holdfast.service.instants import Moment
from holdfast.service.requests import Request, identity
from holdfast.store.retention import batches as retention_plan
from holdfast.views import retention as views
from holdfast.views.retention import RetentionPreviewView, RetentionRuleView

BATCH = 100
Progress = Callable[[int], None]


class Retention:
    """The retention rules of an ``Engine``."""

    def __init__(self, calls: Calls) -> None:
        self._calls: Calls = calls

    def set(
        self,
        name: str,
        *,
        target: str = UNSET,
        workflow: str | None = UNSET,
        status: str | Sequence[str] = UNSET,
        older_than: Duration | None = UNSET,
        keep_last: int | None = UNSET,
        max_bytes: int | None = UNSET,
        by: str | None = None,
    ) -> None:
        """Create a rule by which workers delete finished runs, or only the part *target* of their
        history, or change the rule of that name. Settings that are not passed stay as they are;
        None removes a bound. With *by*, the person or program that asks, the change is recorded in
        ``engine.audit``.

        Raises BadOption if the rule has no bound or is inconsistent, UnknownWorkflow,
        NamespaceBound.
        """
        settings: dict[str, Any] = {
            "target": target,
            "workflow": workflow,
            "status": status,
            "older_than": older_than,
            "keep_last": keep_last,
            "max_bytes": max_bytes,
        }

        def make_request(parts: Components) -> Request[None]:
            request = parts.client.retention(name, **settings)
            shown = {option: str(value) for option, value in without_unset(settings).items()}
            return parts.audit.record(request, by, "retention.set", name, **shown)

        self._calls.call(lambda parts: parts.merge(lambda: make_request(parts)))

    def get(self, name: str) -> RetentionRuleView:
        """Return a retention rule. Raises RetentionNotFound, NamespaceBound."""
        checked = checked_string("name", name)
        for rule in self.list():
            if rule.name == checked:
                return rule
        raise RetentionNotFound(name=name)

    def list(self) -> list[RetentionRuleView]:
        """Return all retention rules. Raises NamespaceBound."""

        def read(parts: Components) -> list[RetentionRuleView]:
            parts.client.require_unbound("retention.list")
            return [views.of(rule) for rule in parts.store.retention.rules()]

        return self._calls.call(read)

    def remove(self, name: str, *, by: str | None = None) -> None:
        """Remove a retention rule. Raises RetentionNotFound."""
        self._calls.commit(
            lambda parts: parts.audit.record(
                parts.client.remove_retention(name), by, "retention.remove", name
            )
        )

    def preview(self) -> Sequence[RetentionPreviewView]:
        """Return how much each rule would delete now. Raises NamespaceBound."""

        def read(parts: Components) -> list[RetentionPreviewView]:
            parts.client.require_unbound("retention.preview")
            rules = parts.store.retention.rules()
            previews = [retention_plan.preview(parts.store.retention, rule) for rule in rules]
            return [views.preview_of(preview) for preview in previews]

        return self._calls.call(read)

    def apply(self, progress: Progress | None = None, *, by: str | None = None) -> int:
        """Apply the retention rules now, in this process, batch by batch, and return how many runs
        were deleted or trimmed. *progress* is called with the size of each batch. Raises
        NamespaceBound."""
        report = self._calls.reporter(progress)

        def apply(parts: Components) -> int:
            parts.client.require_unbound("retention.apply")
            parts.note_action(by, "retention.apply", "all rules")
            return apply_rules(parts, report)

        return self._calls.call(apply)

    def prune(
        self,
        older_than: Moment,
        *,
        status: Sequence[str] = (),
        workflow: str | None = None,
        batch: int = 500,
        progress: Progress | None = None,
        by: str | None = None,
    ) -> int:
        """Delete the finished runs that ended before *older_than*, batch by batch, and return their
        number. *progress* is called with the size of each batch."""
        report = self._calls.reporter(progress)

        def prune(parts: Components) -> int:
            after: str | None = ""
            deleted = 0
            while after is not None:
                request = parts.client.prune(
                    older_than, status, batch=batch, after=after, workflow=workflow
                )
                if not after:  # the request is valid: the procedure begins
                    parts.note_action(by, "retention.prune", workflow or "finished runs")
                done = parts.change_finished(request)
                deleted += done.runs
                after = done.last
                if report is not None:
                    report(done.runs)
            sweep_all(parts.commit)
            return deleted

        return self._calls.call(prune)


def apply_rules(parts: Components, report: Progress | None) -> int:
    """Delete what the retention rules select, batch by batch. Return the number of runs."""
    parts.client.require_unbound("retention.apply")
    deleted = 0
    for rule in parts.store.retention.rules():
        for portion in retention_plan.portions(parts.store.retention, rule):
            after: str | None = ""
            while after is not None:
                batch = retention_plan.batch_of(rule, portion, after, BATCH)
                done = parts.commit(Request(batch, identity))
                deleted += done.runs
                after = done.last
                if report is not None:
                    report(done.runs)
    return deleted

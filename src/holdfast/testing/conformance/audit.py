"""Conformance of the audit log."""

from __future__ import annotations

import pytest

from holdfast.core.audit import KEPT, AuditEntry, AuditFilter
from holdfast.core.sessions import Lane
from holdfast.core.status import Status
from holdfast.errors import IllegalMove
from holdfast.store.audit.operations import Audited
from holdfast.store.database import Operation, SettingsChanged
from holdfast.store.lanes.operations import SetLane
from holdfast.store.runs.operations import ResumeRun
from holdfast.store.store import Store
from holdfast.store.tasks.operations import RevokeLease
from holdfast.testing.conformance.fixture import HandClock, StoreFixture

BROKEN_AUDIT = {
    "an_audit_entry_names_a_person_and_an_action": "UPDATE holdfast.audit_entry SET asked_by = ''",
}
"""One statement per law about the audit log that breaks it."""


def _audited(
    op: Operation | None, entry_id: str = "a1", by: str = "ann", subject: str = "r1"
) -> Audited:
    entry = AuditEntry(
        id=entry_id,
        at=0,
        by=by,
        action="run.resume",
        subject=subject,
        namespace="acme",
        details={"reason": "fixed"},
    )
    return Audited(op, entry)


def populate_audit(fixture: StoreFixture, store: Store) -> None:
    """Store an entry of the audit log."""
    fixture.do(store, _audited(None))


class AuditConformance(StoreFixture):
    """An action and its entry are committed together, or neither is."""

    def audit_ids(self, store: Store, **which: object) -> list[str]:
        return [entry.id for entry in store.audit.find(AuditFilter(**which))]  # type: ignore[arg-type]

    def test_an_audited_operation_answers_as_the_operation_does_and_leaves_an_entry(
        self, store: Store
    ) -> None:
        self.stuck(store, "r1")

        assert self.do(store, _audited(ResumeRun("r1", "ann"))) is Status.PENDING

        (entry,) = store.audit.find(AuditFilter())
        assert (entry.by, entry.action, entry.subject) == ("ann", "run.resume", "r1")
        assert (entry.at, entry.namespace) == (store.now(), "acme")
        assert entry.details == {"reason": "fixed"}

    def test_a_refused_operation_leaves_no_entry(self, store: Store) -> None:
        self.hold(store, "r1")

        with pytest.raises(IllegalMove):
            self.do(store, _audited(ResumeRun("r1")))

        assert self.audit_ids(store) == []

    def test_an_operation_that_changes_nothing_leaves_no_entry(self, store: Store) -> None:
        self.start(store, "r1")
        revoke = RevokeLease(run_id="r1", namespace="default", reason="stop")

        assert self.do(store, _audited(revoke)) is False

        assert self.audit_ids(store) == []

    def test_settings_that_changed_meanwhile_leave_no_entry(self, store: Store) -> None:
        self.do(store, SetLane(Lane(name="mail", concurrency=1)))
        lane = SetLane(Lane(name="mail", concurrency=2), Lane(name="mail", concurrency=9))

        assert isinstance(self.do(store, _audited(lane)), SettingsChanged)

        assert self.audit_ids(store) == []

    def test_entries_are_found_by_person_subject_and_place(self, store: Store) -> None:
        for entry_id, by, subject in (("a1", "ann", "x"), ("a2", "bob", "x"), ("a3", "ann", "y")):
            self.do(store, _audited(None, entry_id, by, subject))

        assert self.audit_ids(store) == ["a3", "a2", "a1"]
        assert self.audit_ids(store, by="ann") == ["a3", "a1"]
        assert self.audit_ids(store, subject="x") == ["a2", "a1"]
        assert self.audit_ids(store, before="a3", limit=1) == ["a2"]
        assert self.audit_ids(store, namespace="other") == []
        assert self.audit_ids(store, action="run.cancel") == []

    def test_old_entries_are_deleted(self, store: Store, clock: HandClock) -> None:
        self.do(store, _audited(None, "a1"))
        clock.move(KEPT + 1)

        self.do(store, _audited(None, "a2"))

        assert self.audit_ids(store) == ["a2"]

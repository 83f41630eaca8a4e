"""Conformance of gates: the inbox, and gates of runs that end, move or are deleted."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holdfast.core.events import Event, EventKind
from holdfast.core.gates.model import hash_of
from holdfast.core.gates.rules import GateDecision
from holdfast.core.status import Status
from holdfast.errors import (
    GateClosed,
)
from holdfast.store.gates.operations import (
    ChangeGate,
    DecideGate,
)
from holdfast.store.runs.copy_operations import ImportRun
from holdfast.store.runs.operations import ExpireRuns, Prune, RequestCancel
from holdfast.store.store import Store
from holdfast.store.tasks.operations import OverrideRun
from holdfast.testing.conformance.fixture import MINUTE, SECOND, HandClock, OpenStore
from holdfast.testing.conformance.gate_fixture import YES_NO, GateFixture


class GateInboxConformance(GateFixture):
    """The inbox lists the gates that a person may decide; a gate ends and moves with its run."""

    def test_the_inbox_lists_the_gates_that_a_person_may_decide(
        self, store: Store, clock: HandClock
    ) -> None:
        excluding = msgspec.structs.replace(YES_NO, exclude=("ann",), quorum=2)
        self.open_gates(
            store,
            self.new_gate(store, gate_id="g1", assignees=("ann", "bob")),
            self.new_gate(store, gate_id="g2", roles=("finance",)),
            self.new_gate(store, gate_id="g3"),
            self.new_gate(store, gate_id="g4", terms=excluding),
            self.new_gate(store, gate_id="g5", assignees=("bob",), deadline=store.now() + SECOND),
        )
        self.do(store, DecideGate("r1", "g4", GateDecision(choice="yes", by="carol")))

        assert self.inbox(store, person="ann") == ["g1", "g3"]
        assert self.inbox(store, person="ann", roles=["finance", "other"]) == ["g1", "g2", "g3"]
        assert self.inbox(store, roles=["finance"]) == ["g2"]
        assert self.inbox(store, person="carol") == ["g3"]
        assert self.inbox(store, person="dan") == ["g3", "g4"]
        assert self.inbox(store, late=store.now()) == []
        clock.move(SECOND)
        assert self.inbox(store, late=store.now()) == ["g5"]
        assert self.inbox(store, after="g2", limit=2) == ["g3", "g4"]
        assert self.inbox(store, workflow="greet", namespace="default", run_id="r1") == [
            "g1",
            "g2",
            "g3",
            "g4",
            "g5",
        ]
        assert self.inbox(store, workflow="other") == self.inbox(store, namespace="other") == []
        self.decide(store)
        assert self.inbox(store, statuses=["approved", "expired"]) == ["g1"]
        assert self.inbox(store, statuses=["open"], person="ann") == ["g3"]

    @pytest.mark.parametrize("force", [True, False])
    def test_a_run_that_is_ended_by_force_takes_its_gates_along(
        self, store: Store, force: bool
    ) -> None:
        self.open_gates(store, self.new_gate(store), keep=True)

        self.do(store, RequestCancel("r1", "no more", force))

        gate = store.gates.get("g1")
        assert gate is not None
        assert gate.status == ("withdrawn" if force else "open")
        if force:
            assert self.kinds(store) == [
                EventKind.GATE_OPENED,
                EventKind.GATE_WITHDRAWN,
                EventKind.RUN_CANCELLED,
            ]

    def test_a_stuck_run_that_expires_takes_its_gates_along(
        self, store: Store, clock: HandClock
    ) -> None:
        run = self.hold(store, deadline=store.now() + MINUTE)
        opened = Event(EventKind.GATE_OPENED, "gate g1", b"{}", seq=1)
        self.advance(store, run, events=[opened], effects=[ChangeGate(self.new_gate(store))])
        stuck = [self.event(store, kind=EventKind.RUN_STUCK)]
        self.advance(store, run, status=Status.STUCK, error=b"{}", events=stuck, release=True)
        clock.move(MINUTE)

        assert self.do(store, ExpireRuns()) == 1

        assert self.inbox(store, statuses=["withdrawn"]) == ["g1"]

    def test_a_run_that_is_ended_by_hand_takes_its_gates_along(self, store: Store) -> None:
        self.open_gates(store, self.new_gate(store), keep=True)

        ended: dict[str, Any] = {
            "namespace": "default",
            "status": Status.COMPLETED,
            "reason": "enough",
            "result": b"1",
        }
        self.do(store, OverrideRun(run_id="r1", **ended))

        assert self.inbox(store, statuses=["withdrawn"]) == ["g1"]

    def test_gates_are_pruned_with_their_run(self, store: Store, clock: HandClock) -> None:
        run = self.open_gates(store, self.new_gate(store), keep=True)
        self.decide(store)
        self.finish(store, run)
        clock.move(MINUTE)

        self.do(store, Prune(store.now(), ["completed"]))

        assert store.gates.get("g1") is None
        assert store.run_snapshots.belongings("r1") == {}

    def test_gates_are_imported_with_their_run(self, store: Store) -> None:
        terms = msgspec.structs.replace(YES_NO, quorum=2)
        self.open_gates(
            store,
            self.new_gate(
                store, terms=terms, assignees=("ann", "bob"), data=b"1", hash=hash_of(b"1")
            ),
        )
        self.decide(store)
        snapshot = store.run_snapshots.page("", 10, 10**6)[0]
        gate = store.gates.get("g1")
        entries = store.gates.entries("g1")
        self.do(store, RequestCancel("r1", "moving", True))
        self.do(store, Prune(store.now() + 1, ["cancelled"]))

        self.do(store, ImportRun(snapshot.run, {}, snapshot.events, below=snapshot.below))

        assert (store.gates.get("g1"), store.gates.entries("g1")) == (gate, entries)
        assert self.decide(store, by="bob").status == "approved"

    def test_decisions_of_one_batch_are_made_one_after_another(self, store: Store) -> None:
        self.open_gates(
            store, self.new_gate(store, terms=msgspec.structs.replace(YES_NO, quorum=2))
        )

        votes = [
            DecideGate("r1", "g1", GateDecision(choice=choice, by=by))
            for choice, by in (("yes", "a"), ("no", "b"), ("yes", "c"))
        ]
        answers = store.apply([*votes, votes[0]])

        assert [getattr(answer, "status", None) for answer in answers] == [
            "open",
            "open",
            "approved",
            None,
        ]
        assert isinstance(answers[3], GateClosed)

    def test_a_gate_is_visible_to_another_process_that_opens_the_store(
        self, store: Store, reopen: OpenStore, clock: HandClock
    ) -> None:
        self.open_gates(store, self.new_gate(store))

        assert self.inbox(reopen(clock), person="ann") == ["g1"]

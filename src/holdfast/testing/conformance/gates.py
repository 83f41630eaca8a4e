"""Conformance of gates: opened by the holder of a run, decided by people, closed once."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holdfast.core.events import Event, EventKind
from holdfast.core.gates.model import Escalation, Gate, GateAction, GateTerms, Option, hash_of
from holdfast.core.gates.rules import GateDecision
from holdfast.core.runs import RunRecord
from holdfast.core.status import Status
from holdfast.errors import (
    AlreadyDecided,
    GateChanged,
    GateClosed,
    GateNotFound,
    LeaseLost,
    NotYourGate,
    QuorumImpossible,
    UnknownChoice,
    WrongAnswer,
)
from holdfast.store.effects import RevisionChanged
from holdfast.store.gates.operations import (
    ChangeGate,
    DecideGate,
    DelegateGate,
    ExpireGates,
    GateChange,
    GateFilter,
    ReassignGate,
    UpdateGate,
    WithdrawGate,
)
from holdfast.store.runs.operations import (
    ExpireRuns,
    ImportRun,
    Prune,
    RequestCancel,
)
from holdfast.store.store import Store
from holdfast.store.tasks.operations import OverrideRun
from holdfast.testing.conformance.fixture import MINUTE, SECOND, HandClock, OpenStore, StoreFixture

YES_NO = GateTerms(options=(Option("yes"), Option("no")))
ONLY_GATE = b'[{"kind":"gate","gate":"g1"}]'


class GateConformance(StoreFixture):
    """A gate takes valid decisions only, closes once, and wakes or notifies its run."""

    def new_gate(
        self, store: Store, run_id: str = "r1", gate_id: str = "g1", **options: Any
    ) -> Gate:
        fields: dict[str, Any] = {
            "terms": YES_NO,
            "prompt": "Ship it?",
            "opened_at": store.now(),
            **options,
        }
        return Gate(id=gate_id, run_id=run_id, step=f"gate {gate_id}", **fields)

    def open_gates(
        self, store: Store, *gates: Gate, keep: bool = False, run_id: str = "r1"
    ) -> RunRecord:
        """Start a run, open *gates* in it, and park it; *keep* keeps the lease."""
        run = self.hold(store, run_id)
        events = [
            Event(
                EventKind.GATE_OPENED, gate.step, msgspec.json.encode({"gate": gate.id}), seq=number
            )
            for number, gate in enumerate(gates, start=1)
        ]
        self.park(
            store,
            run,
            keep=keep,
            events=events,
            waits=ONLY_GATE,
            effects=[ChangeGate(gate) for gate in gates],
        )
        return self.get(store, run_id)

    def decide(
        self,
        store: Store,
        choice: str = "yes",
        by: str | None = "ann",
        gate_id: str = "g1",
        **more: Any,
    ) -> Gate:
        gate: Gate = self.do(
            store, DecideGate("r1", gate_id, GateDecision(choice=choice, by=by, **more))
        )
        return gate

    def entries(self, store: Store, gate_id: str = "g1") -> list[tuple[str, str | None]]:
        return [(entry.kind, entry.person) for entry in store.gates.entries(gate_id)]

    def inbox(self, store: Store, **which: Any) -> list[str]:
        return [gate.id for gate in store.gates.find(GateFilter(**which))]

    def test_a_gate_is_as_it_was_opened(self, store: Store) -> None:
        terms = GateTerms(
            options=(Option("yes", "Do it", "approve"), Option("no")),
            quorum=2,
            exclude=("eve",),
            remind=(1, 2),
            escalate=(Escalation(5, ("boss",), ("head",)),),
            form={"type": "object"},
        )
        gate = self.new_gate(
            store,
            terms=terms,
            assignees=("ann", "bob"),
            roles=("finance",),
            data=b'{"a":1}',
            hash=hash_of(b'{"a":1}'),
            deadline=store.now() + MINUTE,
        )

        self.open_gates(store, gate)

        assert store.gates.get("g1") == gate
        assert store.gates.get("g2") is None

    def test_a_gate_is_opened_only_by_the_holder_of_its_run(self, store: Store) -> None:
        run = self.hold(store)
        stale = msgspec.structs.replace(run, generation=run.generation + 1)

        with pytest.raises(LeaseLost):
            self.advance(store, stale, effects=[ChangeGate(self.new_gate(store))])

        assert store.gates.get("g1") is None

    def test_a_decision_wakes_a_run_without_a_holder(self, store: Store) -> None:
        run = self.open_gates(store, self.new_gate(store))

        closed = self.decide(store, feedback="good")

        assert (closed.status, closed.choice, closed.closed_at) == ("approved", "yes", store.now())
        assert store.gates.get("g1") == closed
        assert (self.status(store), self.get(store).revision) == (Status.PENDING, run.revision + 1)
        assert store.gates.entries("g1")[0].feedback == "good"
        assert self.claimed(store) == ["r1"]

    def test_a_decision_notifies_the_holder_of_the_run(self, store: Store) -> None:
        self.open_gates(store, self.new_gate(store), keep=True)
        store.hints()

        self.decide(store, "no")

        assert store.hints().runs == {"r1"}
        assert [run_id for _, run_id in store.runs.notifications("s1", 0)] == ["r1"]
        assert self.get(store).session_id == "s1"

    def test_parking_does_not_miss_a_decision(self, store: Store) -> None:
        run = self.open_gates(store, self.new_gate(store), keep=True)
        self.decide(store)

        answer = self.park(store, run, revision=run.revision, events=[], waits=ONLY_GATE)

        assert isinstance(answer, RevisionChanged)

    def test_a_decision_that_is_not_enough_leaves_the_run_alone(self, store: Store) -> None:
        run = self.open_gates(
            store, self.new_gate(store, terms=msgspec.structs.replace(YES_NO, quorum=2))
        )

        assert self.decide(store).status == "open"
        assert self.get(store) == run
        assert self.decide(store, by="bob").status == "approved"
        assert self.status(store) == Status.PENDING

    @pytest.mark.parametrize(
        ("error", "decision"),
        [
            (UnknownChoice, GateDecision(choice="maybe", by="ann")),
            (UnknownChoice, GateDecision(choice="yes", by="ann", selections=("other",))),
            (NotYourGate, GateDecision(choice="yes", by="bob")),
            (NotYourGate, GateDecision(choice="yes", by="eve", roles=("finance",))),
            (NotYourGate, GateDecision(choice="yes")),
            (GateChanged, GateDecision(choice="yes", by="ann", expect="another hash")),
            (WrongAnswer, GateDecision(choice="yes", by="ann")),
            (WrongAnswer, GateDecision(choice="yes", by="ann", value=b'{"amount":"much"}')),
        ],
    )
    def test_an_invalid_decision_is_refused_and_writes_nothing(
        self, store: Store, error: type[Exception], decision: GateDecision
    ) -> None:
        form = {
            "type": "object",
            "properties": {"amount": {"type": "integer"}},
            "required": ["amount"],
        }
        terms = msgspec.structs.replace(YES_NO, exclude=("eve",), form=form)
        self.open_gates(
            store,
            self.new_gate(
                store,
                terms=terms,
                assignees=("ann",),
                roles=("finance",),
                data=b"1",
                hash=hash_of(b"1"),
            ),
        )
        before = (store.gates.get("g1"), self.get(store), store.runs.belongings("r1"))

        with pytest.raises(error):
            self.do(store, DecideGate("r1", "g1", decision))

        assert (store.gates.get("g1"), self.get(store), store.runs.belongings("r1")) == before

    def test_a_person_decides_once_and_a_closed_gate_takes_no_decision(self, store: Store) -> None:
        self.open_gates(
            store, self.new_gate(store, terms=msgspec.structs.replace(YES_NO, quorum=2))
        )
        self.decide(store)

        with pytest.raises(AlreadyDecided, match="yes"):
            self.decide(store, "no")
        self.decide(store, by="bob")
        with pytest.raises(GateClosed, match="ann, bob"):
            self.decide(store, "no", by="carol")

        assert self.entries(store) == [("decided", "ann"), ("decided", "bob")]

    def test_a_gate_of_another_run_is_not_found(self, store: Store) -> None:
        self.open_gates(store, self.new_gate(store))
        self.start(store, "r2")

        for op in (
            DecideGate("r2", "g1", GateDecision(choice="yes")),
            DecideGate("r1", "g9", GateDecision(choice="yes")),
        ):
            with pytest.raises(GateNotFound):
                self.do(store, op)

    def test_a_gate_past_its_deadline_cannot_be_decided_and_expires(
        self, store: Store, clock: HandClock
    ) -> None:
        terms = msgspec.structs.replace(YES_NO, on_timeout="no")
        self.open_gates(store, self.new_gate(store, terms=terms, deadline=store.now() + MINUTE))
        assert self.do(store, ExpireGates("r1")) == 0
        clock.move(MINUTE)

        with pytest.raises(GateClosed, match="expired"):
            self.decide(store)
        assert self.do(store, ExpireGates("r1")) == 1
        assert self.do(store, ExpireGates("r1")) == 0

        gate = store.gates.get("g1")
        assert gate is not None
        assert (gate.status, gate.choice, self.status(store)) == ("expired", "no", Status.PENDING)

    def test_the_holder_reminds_escalates_and_withdraws(self, store: Store) -> None:
        terms = msgspec.structs.replace(YES_NO, escalate=(Escalation(5, ("boss",), ("head",)),))
        run = self.open_gates(
            store, self.new_gate(store, terms=terms, assignees=("ann",)), keep=True
        )

        self.advance(
            store, run, effects=[ChangeGate(GateChange(kind=GateAction.REMINDED, gate_id="g1"))]
        )
        self.advance(
            store,
            run,
            effects=[ChangeGate(GateChange(kind=GateAction.ESCALATED, gate_id="g1"))] * 2,
        )  # the terms have one escalation: the second changes nothing

        gate = store.gates.get("g1")
        assert gate is not None
        assert (gate.reminded, gate.reminded_at, gate.escalated) == (1, store.now(), 1)
        assert (gate.assignees, gate.roles) == (("ann", "boss"), ("head",))
        assert self.inbox(store, person="boss") == self.inbox(store, roles=["head"]) == ["g1"]

        self.advance(
            store,
            run,
            effects=[
                ChangeGate(
                    GateChange(kind=GateAction.WITHDRAWN, gate_id="g1", reason="it lost a race")
                )
            ],
        )
        self.advance(
            store, run, effects=[ChangeGate(GateChange(kind=GateAction.REMINDED, gate_id="g1"))]
        )

        gate = store.gates.get("g1")
        assert gate is not None
        assert (gate.status, gate.reason, gate.reminded) == ("withdrawn", "it lost a race", 1)
        assert self.inbox(store, person="boss") == []

    def test_a_person_withdraws_a_gate_and_its_run_goes_on(self, store: Store) -> None:
        self.open_gates(store, self.new_gate(store))

        closed: Gate = self.do(store, WithdrawGate("r1", "g1", "root", "not needed"))

        assert (closed.status, closed.reason, self.status(store)) == (
            "withdrawn",
            "not needed",
            Status.PENDING,
        )
        with pytest.raises(GateClosed, match="not needed"):
            self.do(store, WithdrawGate("r1", "g1", "root", "again"))

    def test_a_delegate_decides_instead_of_the_delegator(self, store: Store) -> None:
        terms = msgspec.structs.replace(YES_NO, exclude=("eve",))
        self.open_gates(
            store, self.new_gate(store, terms=terms, assignees=("ann",), roles=("finance",))
        )

        with pytest.raises(NotYourGate, match="excluded"):
            self.do(store, DelegateGate("r1", "g1", "ann", "eve"))
        self.do(store, DelegateGate("r1", "g1", "ann", "bob", reason="away"))
        self.do(store, DelegateGate("r1", "g1", "carl", "dora", roles=("finance",)))

        assert self.entries(store) == [("delegated", "ann"), ("delegated", "carl")]
        for who in ("ann", "carl"):
            with pytest.raises(NotYourGate, match="given this decision"):
                self.decide(store, by=who, roles=("finance",))
        assert self.inbox(store, person="carl", roles=["finance"]) == []
        assert self.inbox(store, person="dora") == ["g1"]
        assert self.decide(store, by="bob").status == "approved"

    def test_others_may_decide_when_it_is_reassigned(self, store: Store) -> None:
        self.open_gates(
            store,
            self.new_gate(
                store, terms=msgspec.structs.replace(YES_NO, quorum=2), assignees=("ann", "bob")
            ),
        )

        with pytest.raises(QuorumImpossible):
            self.do(store, ReassignGate("r1", "g1", ("carol",), ()))
        self.do(store, ReassignGate("r1", "g1", ("carol", "dan"), (), "root"))

        assert (self.inbox(store, person="ann"), self.inbox(store, person="dan")) == ([], ["g1"])
        with pytest.raises(NotYourGate):
            self.decide(store)

    def test_decisions_lapse_when_the_data_of_the_gate_changes(self, store: Store) -> None:
        terms = msgspec.structs.replace(YES_NO, quorum=2)
        old = hash_of(b'{"a":1}')
        new = hash_of(b'{"a":2}')
        self.open_gates(store, self.new_gate(store, terms=terms, data=b'{"a":1}', hash=old))
        self.decide(store, expect=old)

        self.do(store, UpdateGate("r1", "g1", b'{"a":2}', "root"))

        with pytest.raises(GateChanged):
            self.decide(store, by="bob", expect=old)
        assert self.decide(store, by="bob", expect=new).status == "open"
        assert self.decide(store, expect=new).status == "approved"
        assert [entry.lapsed for entry in store.gates.entries("g1")] == [True, False, False, False]

    def test_the_same_data_again_changes_nothing(self, store: Store) -> None:
        self.open_gates(
            store, self.new_gate(store, data=b'{"a":1,"b":2}', hash=hash_of(b'{"a":1,"b":2}'))
        )

        self.do(store, UpdateGate("r1", "g1", b'{"b": 2, "a": 1}'))

        assert self.entries(store) == []

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
        assert store.runs.belongings("r1") == {}

    def test_gates_are_imported_with_their_run(self, store: Store) -> None:
        terms = msgspec.structs.replace(YES_NO, quorum=2)
        self.open_gates(
            store,
            self.new_gate(
                store, terms=terms, assignees=("ann", "bob"), data=b"1", hash=hash_of(b"1")
            ),
        )
        self.decide(store)
        snapshot = store.runs.snapshots("", 10, 10**6)[0]
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

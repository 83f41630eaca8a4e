"""Conformance of gates: opened by the holder of a run, decided by people, closed once."""

from __future__ import annotations

import msgspec
import pytest

from holdfast.core.gates.model import Escalation, Gate, GateAction, GateTerms, Option, hash_of
from holdfast.core.gates.rules import GateDecision
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
    ReassignGate,
    UpdateGate,
    WithdrawGate,
)
from holdfast.store.store import Store
from holdfast.testing.conformance.fixture import MINUTE, HandClock
from holdfast.testing.conformance.gate_fixture import ONLY_GATE, YES_NO, GateFixture


class GateConformance(GateFixture):
    """A gate takes valid decisions only, closes once, and wakes or notifies its run."""

    def test_closed_gates_are_found_by_the_revision_of_their_run(self, store: Store) -> None:
        gates = [self.new_gate(store, gate_id=f"g{number}") for number in range(4)]
        self.open_gates(store, *gates)
        before = self.get(store).revision

        self.decide(store, "yes", by="ann", gate_id="g2")
        first = self.get(store).revision
        self.decide(store, "yes", by="ann", gate_id="g0")

        def closed(revision: int) -> list[str]:
            return sorted(gate.id for gate in store.gates.closed_since("r1", revision))

        assert [closed(before), closed(first), closed(first + 1)] == [["g0", "g2"], ["g0"], []]
        assert sorted(store.gates.of_ids(["g1", "g0", "none"])) == ["g0", "g1"]
        assert store.gates.closed_since("none", 0) == []

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
        assert [run_id for _, run_id in store.sessions.notifications("s1", 0)] == ["r1"]
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
        before = (store.gates.get("g1"), self.get(store), store.run_snapshots.belongings("r1"))

        with pytest.raises(error):
            self.do(store, DecideGate("r1", "g1", decision))

        assert (
            store.gates.get("g1"),
            self.get(store),
            store.run_snapshots.belongings("r1"),
        ) == before

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

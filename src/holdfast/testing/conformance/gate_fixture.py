"""Helpers of the conformance tests of gates."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.core.events import Event, EventKind
from holdfast.core.gates.model import Gate, GateTerms, Option
from holdfast.core.gates.rules import GateDecision
from holdfast.core.runs import RunRecord
from holdfast.store.gates.operations import (
    ChangeGate,
    DecideGate,
    GateFilter,
)
from holdfast.store.store import Store
from holdfast.testing.conformance.fixture import StoreFixture

YES_NO = GateTerms(options=(Option("yes"), Option("no")))


ONLY_GATE = b'[{"kind":"gate","gate":"g1"}]'


class GateFixture(StoreFixture):
    """Helpers that open gates, decide them and list them."""

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

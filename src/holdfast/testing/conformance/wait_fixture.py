"""Helpers of the conformance tests of waits."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.core import tokens
from holdfast.core.conditions import evaluation as of
from holdfast.core.conditions import model as condition_model
from holdfast.core.runs import RunRecord
from holdfast.core.tokens import WAIT_TOKEN
from holdfast.core.waits import WaitRecord
from holdfast.store.keys.operations import NeedKey, OfferedKey
from holdfast.store.signals.operations import SignalRun, WaitDelivery
from holdfast.store.store import Store
from holdfast.store.waits.operations import DeliverSignal, OpenWait
from holdfast.testing.conformance.fixture import StoreFixture

KEY = OfferedKey("k1", b"a secret of 16 bytes or more")


OTHER = OfferedKey("k2", b"another secret, just as long")


class WaitFixture(StoreFixture):
    """Helpers that create waits, park runs on them, and signal them."""

    def create_wait(
        self, store: Store, run: RunRecord, wait_id: str = "w1", **options: Any
    ) -> condition_model.SignalToWait:
        """Create the wait ``w`` in a held run; return it as a condition."""
        if not store.keys.all():
            self.do(store, NeedKey(KEY))
        fresh = {
            "run_id": run.id,
            "step": f"create {wait_id}",
            "id": wait_id,
            "name": "w",
            "kid": "k1",
            "opened_at": store.now(),
        }
        wait = WaitRecord(**{**fresh, **options})
        self.advance(store, run, effects=[OpenWait(wait)])
        return condition_model.SignalToWait(wait_id, wait.step, "w", wait.until)

    def park_on(
        self, store: Store, run: RunRecord, condition: condition_model.Condition, **options: Any
    ) -> None:
        """Park a held run on a condition and release its lease."""
        wait = {
            "kind": "wait",
            "step": "wait",
            "condition": msgspec.to_builtins(condition),
            **options,
        }
        opened = WaitRecord(
            run_id=run.id, step="wait", id=None, name=of.show(condition), opened_at=store.now()
        )
        self.park(store, run, waits=msgspec.json.encode([wait]), effects=[OpenWait(opened)])

    def wait_token(self, store: Store, wait_id: str = "w1", *, purpose: str = WAIT_TOKEN) -> str:
        return tokens.sign(store.keys.all()[0], purpose, {"wait": wait_id})

    def deliver_to(
        self, store: Store, wait_id: str = "w1", token: str | None = None, **options: Any
    ) -> WaitDelivery:
        fields = {
            "name": None,
            "payload": b"1",
            "token": self.wait_token(store, wait_id) if token is None else token,
            **options,
        }
        answer: WaitDelivery = self.do(store, DeliverSignal(wait_id=wait_id, **fields))
        return answer

    def send_signal(self, store: Store, name: str = "paid", **options: Any) -> str:
        answer: WaitDelivery = self.do(store, SignalRun("r1", name, **{"payload": b"1", **options}))
        return answer.effect

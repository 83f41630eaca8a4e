"""Conformance of the idempotency keys of requests."""

from __future__ import annotations

import pytest

from holdfast.errors import RequestKeyReused
from holdfast.store.request_keys.apply import KEPT
from holdfast.store.request_keys.operations import (
    ClaimedRequestKey,
    ClaimRequestKey,
    ReleaseRequestKey,
)
from holdfast.store.store import Store
from holdfast.testing.conformance.fixture import SECOND, HandClock, StoreFixture

FIRST = b"f" * 32
OTHER = b"o" * 32

BROKEN_REQUEST_KEYS = {
    "a_request_key_has_a_digest": "UPDATE holdfast.request_key SET digest = 'short'",
}
"""One statement per law about idempotency keys that breaks it."""


def populate_request_keys(fixture: StoreFixture, store: Store) -> None:
    """Store an idempotency key."""
    fixture.do(store, ClaimRequestKey("once", FIRST))


class RequestKeyConformance(StoreFixture):
    """An idempotency key belongs to the request that has claimed it first."""

    def test_a_repeated_request_gets_the_time_of_the_first(
        self, store: Store, clock: HandClock
    ) -> None:
        began = clock.now()
        first = self.do(store, ClaimRequestKey("once", FIRST))
        clock.move(SECOND)

        assert first == ClaimedRequestKey(began, is_new=True)
        assert self.do(store, ClaimRequestKey("once", FIRST)) == ClaimedRequestKey(began, False)

    def test_another_request_is_refused(self, store: Store) -> None:
        self.do(store, ClaimRequestKey("once", FIRST))

        with pytest.raises(RequestKeyReused):
            self.do(store, ClaimRequestKey("once", OTHER))
        assert self.do(store, ClaimRequestKey("once", FIRST)).is_new is False
        assert self.do(store, ClaimRequestKey("twice", OTHER)).is_new is True

    def test_a_key_is_given_back_by_its_own_request(self, store: Store) -> None:
        self.do(store, ClaimRequestKey("once", FIRST))

        assert self.do(store, ReleaseRequestKey("once", OTHER)) is False
        assert self.do(store, ReleaseRequestKey("once", FIRST)) is True
        assert self.do(store, ClaimRequestKey("once", OTHER)).is_new is True

    def test_an_old_key_is_forgotten(self, store: Store, clock: HandClock) -> None:
        self.do(store, ClaimRequestKey("once", FIRST))
        clock.move(KEPT + SECOND)
        self.do(store, ClaimRequestKey("another", FIRST))

        assert self.do(store, ClaimRequestKey("once", OTHER)).is_new is True

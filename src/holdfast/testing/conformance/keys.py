"""Conformance of signing keys: creation, rotation, expiry and resealing."""

from __future__ import annotations

import pytest

from holdfast.core.sessions import Lane
from holdfast.core.tokens import SigningKey
from holdfast.errors import KeyExists
from holdfast.store.keys.operations import NeedKey, OfferedKey, ResealKey, RotatedKey, RotateKey
from holdfast.store.runs.copy_operations import BeginCopy, EndCopy
from holdfast.store.store import Store
from holdfast.testing.conformance.fixture import SECOND, HandClock, OpenStore, StoreFixture

OFFERED = OfferedKey("k1", b"a secret of 16 bytes or more")
OTHER = OfferedKey("k2", b"another secret, just as long")


class KeyConformance(StoreFixture):
    """A key is created once, and a rotated key stays valid until its grace period is over."""

    def rotate(self, store: Store, key: OfferedKey, grace: int = 0) -> RotatedKey:
        rotation: RotatedKey = self.do(store, RotateKey(key, grace))
        return rotation

    def test_the_first_key_is_made_when_it_is_needed_and_stays(self, store: Store) -> None:
        assert store.keys.all() == []

        made = self.do(store, NeedKey(OFFERED))

        assert (made.kid, made.secret, made.current) == ("k1", OFFERED.secret, True)
        assert self.do(store, NeedKey(OTHER)) == made
        assert store.keys.all() == [made]

    def test_a_rotation_lets_the_new_key_sign_and_the_old_one_be_good_for_a_while(
        self, store: Store
    ) -> None:
        self.do(store, NeedKey(OFFERED))

        done = self.rotate(store, OTHER, 10 * SECOND)

        until = store.now() + 10 * SECOND
        assert done == RotatedKey("k2", True, "k1", until, [])
        assert [(key.kid, key.expires_at) for key in store.keys.all()] == [
            ("k1", until),
            ("k2", None),
        ]

    def test_a_rotation_may_make_the_first_key(self, store: Store) -> None:
        assert self.rotate(store, OFFERED, SECOND) == RotatedKey("k1", True)

    def test_the_same_key_again_changes_nothing(self, store: Store) -> None:
        self.rotate(store, OFFERED)
        self.rotate(store, OTHER, SECOND)
        before = store.keys.all()

        assert not self.rotate(store, OTHER).changed
        assert not self.rotate(store, OFFERED).changed
        assert store.keys.all() == before

    def test_the_name_of_a_key_with_another_secret_is_refused(self, store: Store) -> None:
        self.rotate(store, OFFERED)
        before = store.keys.all()

        with pytest.raises(KeyExists):
            self.rotate(store, OfferedKey("k1", b"not the secret of that key"))

        assert store.keys.all() == before

    def test_expired_keys_are_deleted_by_the_next_rotation(
        self, store: Store, clock: HandClock
    ) -> None:
        self.rotate(store, OFFERED)
        self.rotate(store, OTHER, SECOND)
        clock.move(SECOND)
        assert (
            self.rotate(store, OfferedKey("k3", b"yet another of these secrets"), SECOND).dropped
            == []
        )  # a key is valid up to and including its last instant
        clock.move(1)

        done = self.rotate(store, OfferedKey("k4", b"yet another of those secrets"), SECOND)

        assert done.dropped == ["k1"]
        assert [key.kid for key in store.keys.all()] == ["k2", "k3", "k4"]

    def test_a_copy_keeps_signing_keys(self, store: Store) -> None:
        self.rotate(store, OFFERED)
        before = store.keys.all()
        rows = store.installation.rows()

        self.end_sessions(store)
        self.do(store, BeginCopy([Lane(name="mail")], rows))
        self.do(store, EndCopy())

        assert store.keys.all() == before

    def test_a_refused_rotation_leaves_its_neighbours_alone(self, store: Store) -> None:
        self.rotate(store, OFFERED)

        wrong = RotateKey(OfferedKey("k1", b"not the secret of that key"), 0)
        answers = store.apply([wrong, NeedKey(OTHER), RotateKey(OTHER, 0)])

        assert isinstance(answers[0], KeyExists)
        assert (answers[1].kid, answers[2].kid) == ("k1", "k2")

    def test_a_key_is_visible_to_another_process_that_opens_the_store(
        self, store: Store, reopen: OpenStore
    ) -> None:
        made = self.do(store, NeedKey(OFFERED))

        assert reopen().keys.all() == [made]

    def test_a_secret_gets_another_seal_unless_it_has_changed(self, store: Store) -> None:
        self.rotate(store, OFFERED)

        assert not self.do(store, ResealKey("k1", b"not what is stored there", b"sealed"))
        assert not self.do(store, ResealKey("k2", OFFERED.secret, b"sealed"))
        assert self.do(
            store,
            ResealKey("k1", OFFERED.secret, b"\x00e1\x00psealed and long enough for a secret"),
        )

        assert [key.secret for key in store.keys.all()] == [
            b"\x00e1\x00psealed and long enough for a secret"
        ]
        assert store.payloads.keys_in_use() == {"e1": 1}

    def test_a_rotation_compares_secrets_as_they_are_revealed(self, store: Store) -> None:
        self.rotate(store, OFFERED)
        again = OfferedKey("k1", b"sealed " + OFFERED.secret)

        def reveal(key: SigningKey) -> bytes:
            return key.secret.removeprefix(b"sealed ")

        assert not self.do(store, RotateKey(again, 0, reveal)).changed

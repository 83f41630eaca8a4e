"""Conformance of API keys, login sessions and one-time links."""

from __future__ import annotations

import msgspec
import pytest

from holdfast.core.api_keys import LINK_LASTS, ApiKey, Grant, Login, Role, digest_of
from holdfast.errors import ApiKeyExists, ApiKeyNotFound
from holdfast.store.api_keys.operations import AddApiKey, NoteApiKeyUse, RevokeApiKey
from holdfast.store.logins.operations import AddLogin, EndLogin, TakeLink
from holdfast.store.store import Store
from holdfast.testing.conformance.fixture import SECOND, HandClock, StoreFixture
from holdfast.testing.conformance.request_keys import BROKEN_REQUEST_KEYS, populate_request_keys

GRANT = Grant("ci", (Role.VIEWER, Role.STARTER), "acme", ("finance", "two words"), False)


def _key(key_id: str = "k1", name: str = "ci", expires_at: int | None = None) -> ApiKey:
    grant = Grant(name, GRANT.roles, GRANT.namespace, GRANT.gate_roles, False)
    return ApiKey(key_id, digest_of("secret"), grant, 0, "root", expires_at)


def _login(login_id: str, *, is_link: bool = False, api_key_id: str | None = None) -> Login:
    return Login(login_id, digest_of("cookie"), GRANT, is_link, 0, 0, api_key_id)


BROKEN_API_KEYS = {
    "an_api_key_has_roles_and_a_name": "UPDATE holdfast.api_key SET roles = ''",
    "an_api_key_is_revoked_after_its_creation": "UPDATE holdfast.api_key SET revoked_at = 1",
    "a_login_session_of_a_revoked_api_key_is_gone": (
        "UPDATE holdfast.api_key SET revoked_at = created_at"
    ),
    **BROKEN_REQUEST_KEYS,
}
"""One statement per law about API keys and their requests that breaks it."""


def populate_api_keys(fixture: StoreFixture, store: Store) -> None:
    """Store an API key with a login session and an idempotency key."""
    fixture.do(store, AddApiKey(_key()))
    fixture.do(store, AddLogin(_login("l1", api_key_id="k1"), SECOND))
    populate_request_keys(fixture, store)


class ApiKeyConformance(StoreFixture):
    """An API key has a name of its own until it is revoked; its login sessions end with it."""

    def test_a_key_is_read_as_it_was_added(self, store: Store) -> None:
        added = self.do(store, AddApiKey(_key()))

        assert store.api_keys.get("k1") == added
        assert (added.grant, added.created_at) == (_key().grant, store.now())
        assert store.api_keys.all() == [added]
        assert store.api_keys.get("unknown") is None

    def test_two_usable_keys_do_not_share_a_name(self, store: Store) -> None:
        self.do(store, AddApiKey(_key()))

        with pytest.raises(ApiKeyExists):
            self.do(store, AddApiKey(_key("k2")))

        self.do(store, RevokeApiKey("ci"))
        self.do(store, AddApiKey(_key("k2")))
        assert {key.id: key.revoked_at is None for key in store.api_keys.all()} == {
            "k1": False,
            "k2": True,
        }

    def test_revoking_twice_changes_nothing(self, store: Store, clock: HandClock) -> None:
        self.do(store, AddApiKey(_key()))
        revoked = self.do(store, RevokeApiKey("k1"))
        clock.move(SECOND)

        assert self.do(store, RevokeApiKey("k1")) == revoked
        with pytest.raises(ApiKeyNotFound):
            self.do(store, RevokeApiKey("unknown"))

    def test_only_usable_keys_count(self, store: Store, clock: HandClock) -> None:
        assert not store.api_keys.has_any()
        self.do(store, AddApiKey(_key(expires_at=store.now() + SECOND)))
        assert store.api_keys.has_any()

        clock.move(2 * SECOND)

        assert not store.api_keys.has_any()

    def test_the_use_of_a_key_is_recorded(self, store: Store) -> None:
        self.do(store, AddApiKey(_key()))

        self.do(store, NoteApiKeyUse("k1"))

        key = store.api_keys.get("k1")
        assert key is not None and key.used_at == store.now()

    def test_a_login_ends_with_its_api_key(self, store: Store) -> None:
        self.do(store, AddApiKey(_key()))
        own = self.do(store, AddLogin(_login("l1", api_key_id="k1"), SECOND))
        other = self.do(store, AddLogin(_login("l2"), SECOND))
        assert store.logins.get("l1") == own

        self.do(store, RevokeApiKey("ci"))

        assert store.logins.sessions() == [other]

    def test_no_login_is_opened_with_an_api_key_that_was_revoked_meanwhile(
        self, store: Store
    ) -> None:
        self.do(store, AddApiKey(_key()))
        self.do(store, RevokeApiKey("ci"))

        assert self.do(store, AddLogin(_login("l1", api_key_id="k1"), SECOND)) is None
        assert self.do(store, AddLogin(_login("l2", api_key_id="gone"), SECOND)) is None

        assert store.logins.sessions() == []

    @pytest.mark.parametrize("mark", ["\r", "\v", "\x1c", "\x85", "\u2028"])
    def test_a_gate_role_is_read_as_it_was_given(self, store: Store, mark: str) -> None:
        grant = msgspec.structs.replace(GRANT, gate_roles=(f"helper{mark}finance", "ops"))
        self.do(store, AddApiKey(msgspec.structs.replace(_key(), grant=grant)))

        key = store.api_keys.get("k1")
        assert key is not None and key.grant.gate_roles == grant.gate_roles

    def test_a_link_opens_one_session(self, store: Store) -> None:
        self.do(store, AddLogin(_login("link", is_link=True), LINK_LASTS))
        assert store.logins.sessions() == []

        opened = self.do(store, TakeLink("link", _login("l1"), SECOND))

        assert store.logins.sessions() == [opened]
        assert self.do(store, TakeLink("link", _login("l2"), SECOND)) is None
        assert self.do(store, TakeLink("l1", _login("l3"), SECOND)) is None
        assert self.do(store, EndLogin("l1")) is True
        assert self.do(store, EndLogin("l1")) is False

    def test_an_expired_login_is_gone_and_deleted(self, store: Store, clock: HandClock) -> None:
        self.do(store, AddLogin(_login("l1"), SECOND))
        clock.move(2 * SECOND)

        assert store.logins.get("l1") is None
        self.do(store, AddLogin(_login("l1"), SECOND))  # the expired row does not stand in the way
        assert [login.id for login in store.logins.sessions()] == ["l1"]

"""Encrypt the secrets that sign tokens and webhook deliveries.

A reader of the database who knows such a secret can forge answers to gates, signals to waits and
deliveries to receivers. An engine that encrypts values therefore encrypts these secrets too, each
bound to the name of its signing key or webhook.

Invariants:
- The store keeps a secret as the engine hands it over; only this module opens it.
- A database that was in use before it was encrypted has its secrets encrypted when an engine with a
  key opens it next.
- A secret is opened only to make or check a token or a delivery: listing keys and waits works
  without it.
- One damaged secret stops neither the opening of the database nor the re-encryption of the others.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial

from holdfast.core import associated_data
from holdfast.core.envelope import is_sealed, split
from holdfast.core.subscriptions import WEBHOOK, Subscription
from holdfast.core.tokens import SigningKey
from holdfast.errors import BadData, KeyMissing
from holdfast.payloads.value_format import MARK, ValueFormat
from holdfast.store.keys.operations import ResealKey
from holdfast.store.store import Store
from holdfast.store.subscriptions.operations import ResealWebhook

log = logging.getLogger("holdfast")

ResealSecret = ResealKey | ResealWebhook


class SigningSecrets:
    """Seals and opens the secrets of signing keys and webhooks for one engine."""

    def __init__(self, values: ValueFormat) -> None:
        self._values: ValueFormat = values

    def seal_key(self, kid: str, secret: bytes) -> bytes:
        """Return *secret* sealed as the secret of signing key *kid*. Raises KeyMissing in an
        encrypted database without key."""
        return self._values.seal_secret(secret, associated_data.signing_key(kid))

    def reveal(self, key: SigningKey) -> bytes:
        """Return the secret of a stored signing key. Raises KeyMissing, BadData."""
        return self._values.open(
            key.secret, f"signing key {key.kid}", associated_data.signing_key(key.kid)
        )

    def seal_webhook(self, name: str, secret: str) -> str:
        """Return *secret* sealed as the secret of webhook *name*. Raises KeyMissing in an encrypted
        database without key."""
        return self._values.seal_text(secret, associated_data.webhook_secret(name))

    def reveal_webhook(self, webhook: Subscription) -> str:
        """Return the secret of a stored webhook. Raises KeyMissing, BadData."""
        label = f"the secret of webhook {webhook.name}"
        return self._values.open_text(
            webhook.secret or "", label, associated_data.webhook_secret(webhook.name)
        )

    def unencrypted(self, store: Store) -> Iterator[ResealSecret]:
        """Yield the operations that encrypt the secrets that are stored in clear."""
        return self._resealed(store, lambda key_id: not key_id, {})

    def outdated(
        self, store: Store, current: str, unreadable: dict[str, int]
    ) -> Iterator[ResealSecret]:
        """Yield the operations that encrypt all secrets with the key *current*. Count in
        *unreadable*, by key id, the secrets whose encryption key is not known."""
        return self._resealed(store, lambda key_id: key_id != current, unreadable)

    def _resealed(
        self, store: Store, selects: Callable[[str], bool], unreadable: dict[str, int]
    ) -> Iterator[ResealSecret]:
        secrets: list[tuple[str | None, Callable[[], ResealSecret]]]
        secrets = [(_key_id(key), partial(self._resealed_key, key)) for key in store.keys.all()]
        secrets += [
            (_key_id_of_webhook(webhook), partial(self._resealed_webhook, webhook))
            for webhook in _webhooks(store)
        ]
        for key_id, reseal in secrets:
            if key_id is None or not selects(key_id):
                continue
            try:
                yield reseal()
            except KeyMissing:
                unreadable[key_id] = unreadable.get(key_id, 0) + 1
            except BadData as damage:
                log.warning("a damaged secret was not re-encrypted: %s", damage)

    def _resealed_key(self, key: SigningKey) -> ResealKey:
        return ResealKey(key.kid, key.secret, self.seal_key(key.kid, self.reveal(key)))

    def _resealed_webhook(self, webhook: Subscription) -> ResealWebhook:
        sealed = self.seal_webhook(webhook.name, self.reveal_webhook(webhook))
        return ResealWebhook(webhook.name, webhook.secret or "", sealed)


def _webhooks(store: Store) -> list[Subscription]:
    return [
        subscription for subscription in store.subscriptions.all() if subscription.kind == WEBHOOK
    ]


def _key_id(key: SigningKey) -> str | None:
    """Return the id of the encryption key of a stored secret: empty when the secret is in clear,
    None when it is damaged."""
    if not is_sealed(key.secret):
        return ""
    try:
        return split(key.secret).key
    except BadData as damage:
        log.warning("signing key %s cannot be read: %s", key.kid, damage)
        return None


def _key_id_of_webhook(webhook: Subscription) -> str | None:
    secret = webhook.secret or ""
    if not secret.startswith(MARK):
        return ""
    return secret.split(MARK, 2)[1]

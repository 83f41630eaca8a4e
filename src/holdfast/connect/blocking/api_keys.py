# Generated from connect/api_keys.py by tools/generate_blocking.py: do not edit.
"""``engine.api_keys``: the credentials of programs and people for the server."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.connect.calls import Calls
from holdfast.connect.components import Components
from holdfast.core.validation import checked_words
from holdfast.service import api_keys
from holdfast.service.instants import Moment
from holdfast.views import api_keys as views
from holdfast.views.api_keys import ApiKeyView, NewApiKeyView


class ApiKeys:
    """The API keys of an ``Engine``."""

    def __init__(self, calls: Calls) -> None:
        self._calls: Calls = calls

    def add(
        self,
        name: str,
        *,
        roles: str | Iterable[str],
        namespace: str | None = None,
        gate_roles: str | Iterable[str] = (),
        values: bool = True,
        expires: Moment | None = None,
        by: str | None = None,
    ) -> NewApiKeyView:
        """Add an API key for the server and return it with its text, ``api_key``, which is shown
        this once: the database keeps only a digest of it.

        What the key does is recorded under its *name*. *roles* are some of "viewer", "starter",
        "approver", "worker", "operator" and "admin". With *namespace*, the key reads and changes
        nothing outside it. *gate_roles* are the roles of its person among the deciders of gates.
        Without *values*, it does not see inputs, results and other values of users. *expires* is
        when it ends, *by* the person or program that adds it. Raises BadOption, ApiKeyExists,
        NamespaceBound.
        """

        def add(parts: Components) -> NewApiKeyView:
            request = api_keys.add_api_key(
                parts.client,
                name,
                roles=roles,
                namespace=namespace,
                gate_roles=gate_roles,
                values=values,
                expires=expires,
                by=by,
            )
            request = parts.audit.record(
                request, by, "api_keys.add", name, roles=list(checked_words("roles", roles) or ())
            )
            key, text = parts.commit(request)
            return views.new_of(key, text, parts.store.now())

        return self._calls.call(add)

    def list(self) -> list[ApiKeyView]:
        """Return all API keys, newest first, also revoked ones, without their secrets. Raises
        NamespaceBound."""

        def read(parts: Components) -> list[ApiKeyView]:
            parts.client.require_unbound("api_keys.list")
            now = parts.store.now()
            return [views.of(key, now) for key in parts.store.api_keys.all()]

        return self._calls.call(read)

    def revoke(self, name: str, *, by: str | None = None) -> ApiKeyView:
        """Revoke an API key, by its name or id, and end the login sessions that were opened with
        it: the server refuses both at once. Raises ApiKeyNotFound, NamespaceBound."""

        def revoke(parts: Components) -> ApiKeyView:
            request = api_keys.revoke_api_key(parts.client, name)
            key = parts.commit(parts.audit.record(request, by, "api_keys.revoke", name))
            return views.of(key, parts.store.now())

        return self._calls.call(revoke)

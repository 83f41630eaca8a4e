"""Add and revoke API keys."""

from __future__ import annotations

import msgspec

from holdfast.core.api_keys import ApiKey, Grant, Role
from holdfast.errors import ApiKeyExists, ApiKeyNotFound
from holdfast.store.api_keys.operations import AddApiKey, NoteApiKeyUse, RevokeApiKey
from holdfast.store.database import Row, Transaction


def add_api_key(tx: Transaction, op: AddApiKey) -> ApiKey:
    """Store an API key. Raises ApiKeyExists."""
    key = msgspec.structs.replace(op.key, created_at=tx.now)
    added = tx.change(
        "insert_api_key",
        id=key.id,
        digest=key.digest,
        created_at=key.created_at,
        created_by=key.created_by,
        expires_at=key.expires_at,
        **grant_cells(key.grant),
    )
    if not added:
        raise ApiKeyExists(name=key.grant.name)
    return key


def revoke_api_key(tx: Transaction, op: RevokeApiKey) -> ApiKey:
    """Revoke an API key and end its login sessions. Raises ApiKeyNotFound."""
    rows = tx.rows("api_key_named", name=op.name)
    if not rows:
        raise ApiKeyNotFound(api_key=op.name)
    key = api_key_from(rows[0])
    tx.change("revoke_api_key", id=key.id, now=tx.now)
    # After the update, not before: on PostgreSQL it waits for a login that is just being opened.
    tx.change("delete_logins_of_api_key", api_key_id=key.id)
    if key.revoked_at is not None:
        return key
    return msgspec.structs.replace(key, revoked_at=tx.now)


def note_api_key_use(tx: Transaction, op: NoteApiKeyUse) -> None:
    """Record that an API key is in use now."""
    tx.change("note_api_key_use", id=op.id, now=tx.now)


def api_key_from(row: Row) -> ApiKey:
    """Return the API key of a row."""
    return ApiKey(
        id=row["id"],
        digest=bytes(row["digest"]),
        grant=grant_from(row),
        created_at=row["created_at"],
        created_by=row["created_by"],
        expires_at=row["expires_at"],
        used_at=row["used_at"],
        revoked_at=row["revoked_at"],
    )


def grant_cells(grant: Grant) -> dict[str, object]:
    """Return the columns that hold a grant."""
    return {
        "name": grant.name,
        "roles": ",".join(grant.roles),
        "namespace": grant.namespace,
        "gate_roles": "\n".join(grant.gate_roles),
        "sees_values": int(grant.sees_values),
    }


def grant_from(row: Row) -> Grant:
    """Return the grant of a row."""
    return Grant(
        name=row["name"],
        roles=tuple(Role(role) for role in row["roles"].split(",")),
        namespace=row["namespace"],
        gate_roles=tuple(row["gate_roles"].split("\n")) if row["gate_roles"] else (),
        sees_values=bool(row["sees_values"]),
    )

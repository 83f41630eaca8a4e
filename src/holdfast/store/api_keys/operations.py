"""Operations on API keys."""

from __future__ import annotations

from typing import ClassVar

from holdfast.core.api_keys import ApiKey
from holdfast.store.database import Operation


class AddApiKey(Operation):
    """Store an API key.

    Answers:
        ApiKey  the key, with its time of creation
    Raises:
        ApiKeyExists  a key that is not revoked has this name
    """

    may_refuse_late: ClassVar[bool] = True

    key: ApiKey


class RevokeApiKey(Operation):
    """Revoke an API key by its id or its name, and end the login sessions that were opened with it.
    A key that is revoked already stays as it is.

    Answers:
        ApiKey
    Raises:
        ApiKeyNotFound
    """

    name: str


class NoteApiKeyUse(Operation):
    """Record that an API key is in use now.

    Answers:
        None
    """

    id: str

"""Operations on payloads, retention rules, maintenance locks, and settings of the installation."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.core.payload import Payload
from holdfast.core.retention import RetentionRule


class CopyPayloads(msgspec.Struct):
    """Store payloads to which runs refer that are copied later.

    Answers:
        None
    Raises:
        BadOption  the store is not half-copied: nothing would refer to the payloads
    """

    payloads: Sequence[Payload]


class ValueChange(msgspec.Struct):
    """A value under another seal: its column, the stored bytes and the new ones. ``seq`` is the
    number of the event, signal, stream or frame."""

    column: str
    old: bytes
    new: bytes
    seq: int = 0


class Reseal(msgspec.Struct):
    """Replace values of a run by the same values under another seal. A value that is not ``old``
    any more stays as it is.

    Answers:
        int        how many values were replaced
    Raises:
        BadOption  a change names a column that holds no sealed values
    """

    run_id: str
    changes: Sequence[ValueChange]
    payloads: Sequence[Payload] = ()


class Forget(msgspec.Struct):
    """Delete a part of the history (a key of ``tables.FORGETTABLE``, such as ``events``) of
    finished trees that ended before ``before``. The runs stay, with their inputs and results.

    Answers:
        Pruned
    Raises:
        BadOption  ``what`` is not a part of a history that can be deleted
    """

    what: str
    before: int
    statuses: Sequence[str]
    limit: int = 500
    namespace: str | None = None
    after: str = ""
    workflow: str | None = None


class SaveRetention(msgspec.Struct):
    """Create a retention rule, or replace the rule of that name.

    Answers:
        None
    """

    rule: RetentionRule


class RemoveRetention(msgspec.Struct):
    """Delete a retention rule.

    Answers:
        None
    Raises:
        RetentionNotFound  there is no such rule
    """

    name: str


class TakeMaintenanceLock(msgspec.Struct):
    """Take the lock of a maintenance task for ``lease`` microseconds, if the task is due and no
    other session has it.

    Answers:
        bool  whether this session has the lock
    """

    name: str
    session_id: str
    lease: int


class EndMaintenance(msgspec.Struct):
    """Release the lock of a maintenance task that is done; the task is due again after ``pause``
    microseconds.

    Answers:
        None
    """

    name: str
    session_id: str
    pause: int


class EncryptStore(msgspec.Struct):
    """Mark the database as encrypted, and make it refuse further unencrypted values, of every
    process, with CodecMismatch.

    Answers:
        bool  whether it refuses them: only the owner of the tables can create the triggers for that
    """


ENCRYPTION = "encryption"
"""The setting of a database that is encrypted."""

HALF_COPIED = "half_copied"
"""The setting of a database into which a copy has begun and not ended."""

SEALED = "sealed"
"""The setting of a database that refuses all writes."""


class SaveSetting(msgspec.Struct):
    """Store a setting of the installation, unless it exists.

    Answers:
        None
    """

    name: str
    value: str


class MaintenanceLock(msgspec.Struct):
    """The state of a maintenance task: the session that has the lock and until when, or when the
    task is due (``until`` without a session); and when it was last done."""

    name: str
    session_id: str | None
    until: int
    done_at: int | None


class PrunableRun(msgspec.Struct):
    """A finished tree that a retention rule selects: the id of its root, when the root ended, and
    the number and bytes of its runs. ``runs`` is 0 if a part of the tree has not ended."""

    id: str
    finished_at: int
    runs: int
    bytes: int

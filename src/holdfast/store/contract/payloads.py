"""What can be done to payloads, and what is deleted of finished runs."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.core.payload import Payload
from holdfast.core.retention import RetentionRule


class CopyPayloads(msgspec.Struct):
    """Take in payloads that runs to come refer to. Only a store that is half-copied takes them.
    Answers None."""

    payloads: Sequence[Payload]


class ValueChange(msgspec.Struct):
    """A value in another seal: what stood in a column, and what is to stand there. ``seq`` names
    the event, the signal, the stream or the frame."""

    column: str
    old: bytes
    new: bytes
    seq: int = 0


class Reseal(msgspec.Struct):
    """Put values of a run into another seal. One that has changed meanwhile stays as it is. Answers
    how many were changed."""

    run_id: str
    changes: Sequence[ValueChange]
    payloads: Sequence[Payload] = ()


class Forget(msgspec.Struct):
    """Delete a part of the history (``events``, or what else is named in ``tables.FORGETTABLE``) of
    finished trees that ended before ``before``; the runs stay, with their inputs and results.
    Answers Pruned."""

    what: str
    before: int
    statuses: Sequence[str]
    limit: int = 500
    namespace: str | None = None
    after: str = ""
    workflow: str | None = None


class SaveRetention(msgspec.Struct):
    """Make a retention rule, or another one of it. Answers None."""

    rule: RetentionRule


class RemoveRetention(msgspec.Struct):
    """Remove a retention rule; nothing more is deleted by it. Answers None. Raises
    RetentionNotFound."""

    name: str


class TakeMaintenanceLock(msgspec.Struct):
    """Take a duty that one session at a time does for all, for ``lease`` microseconds. Answers
    whether it is this session's."""

    name: str
    session_id: str
    lease: int


class EndMaintenance(msgspec.Struct):
    """The duty is done; it is due again after ``pause`` microseconds. Answers None."""

    name: str
    session_id: str
    pause: int


class EncryptStore(msgspec.Struct):
    """Note that the database is encrypted, and refuse values in clear from now on with
    CodecMismatch, whichever process writes them. Answers whether they are refused: the owner of the
    tables alone can see to that."""


ENCRYPTION, HALF_COPIED, SEALED = "encryption", "half_copied", "sealed"
"""The settings of a database that is encrypted, of one into which a copy has not come to its end,
and of one that takes no writes."""


class SaveSetting(msgspec.Struct):
    """Note something about the installation, once; what was noted before stays. Answers None."""

    name: str
    value: str


class MaintenanceLock(msgspec.Struct):
    """Who has a duty and until when, or when it is due; and when it was done last."""

    name: str
    session_id: str | None
    until: int
    done_at: int | None


class PrunableRun(msgspec.Struct):
    """A finished tree that a rule is about: its root, when that ended, how many runs it has and how
    many bytes they take."""

    id: str
    finished_at: int
    runs: int
    bytes: int

"""Operations on payloads, seals, and settings of the installation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import msgspec

from holdfast.core.payload import Payload
from holdfast.store.database import Operation


class CopyPayloads(Operation):
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


class Reseal(Operation):
    """Replace values of a run by the same values under another seal. A value that is not ``old``
    any more stays as it is.

    Answers:
        int        how many values were replaced
    Raises:
        BadOption  a change names a column that holds no sealed values
    """

    may_refuse_late: ClassVar[bool] = True

    run_id: str
    changes: Sequence[ValueChange]
    payloads: Sequence[Payload] = ()


class EncryptStore(Operation):
    """Mark the database as encrypted, and make it refuse further unencrypted values, of every
    process, with CodecMismatch.

    Answers:
        bool  whether it refuses them: only the owner of the tables can create the triggers for that
    """

    may_refuse_late: ClassVar[bool] = True


class SaveSetting(Operation):
    """Store a setting of the installation, unless it exists.

    Answers:
        None
    """

    name: str
    value: str

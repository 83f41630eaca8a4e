"""Fencing of external writes: an external system refuses the writes of a holder that has lost its
lease.

The engine refuses every write of an old generation to a run. It cannot see the writes of a step to
another database, a service or an object store. The functions of this package send the generation
with such a write, so that the other side can refuse it.
"""

from holdfast.errors import Fenced
from holdfast.fencing.fence import Fence, fence
from holdfast.fencing.http import headers, read_headers
from holdfast.fencing.objects import Files, HttpObjects, Objects, StoredObject, TooLate, put
from holdfast.fencing.sql import (
    COLUMNS,
    TABLES,
    admit,
    admit_aio,
    first,
    first_aio,
    update,
    update_aio,
    upsert,
    upsert_aio,
)

__all__ = [
    "COLUMNS",
    "TABLES",
    "Fence",
    "Fenced",
    "Files",
    "HttpObjects",
    "Objects",
    "StoredObject",
    "TooLate",
    "admit",
    "admit_aio",
    "fence",
    "first",
    "first_aio",
    "headers",
    "put",
    "read_headers",
    "update",
    "update_aio",
    "upsert",
    "upsert_aio",
]

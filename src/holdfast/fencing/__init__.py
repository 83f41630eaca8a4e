"""Fencing for the world outside: what a holder that was overtaken writes is refused there, too.

The engine refuses whatever an old generation writes to a run. What a step writes elsewhere, to
another database, to a service or to a store of objects, the engine cannot see: here the generation
goes along, so that the other side can refuse it.
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

"""The report of a bulk verb on the runs of a query."""

from __future__ import annotations

import msgspec


class BulkReport(msgspec.Struct, kw_only=True):
    """The outcome of a bulk verb: the ids of the runs that it changed, and the reason of each
    refusal by the id of its run."""

    done: list[str] = []
    refused: dict[str, str] = {}

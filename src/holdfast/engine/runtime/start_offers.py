"""The runs that a message or broadcast would start, prepared before its commit."""

from __future__ import annotations

import hashlib

import msgspec

from holdfast.core.messages import StartSubscription
from holdfast.core.runs import NewRun, Route
from holdfast.engine.runtime.ids import new_id
from holdfast.store.messages.operations import StartOffer
from holdfast.store.store import View

LANE = "default"
"""The lane of runs that a message or broadcast starts."""


def start_offers(
    store: View, namespace: str, kind: str, name: str, payload: bytes, source: str | None = None
) -> list[StartOffer]:
    """Return a new run for each start event of that name. Its arguments are the variables of the
    message, and the start event. *source* is the id of a message that may be sent again: the ids of
    the runs are derived from it."""
    return [
        StartOffer(
            NewRun(
                id=_run_id(source, start),
                route=Route(namespace, start.process, start.version, LANE),
                input=msgspec.json.encode(
                    [msgspec.Raw(payload), {"start": start.element, "kind": kind, "name": name}]
                ),
            ),
            start.element,
        )
        for start in store.messages.starts(namespace, kind, name)
    ]


def _run_id(source: str | None, start: StartSubscription) -> str:
    if source is None:
        return new_id()
    names = "\0".join((source, start.process, start.element))
    return f"{source[:32]}-{hashlib.sha256(names.encode()).hexdigest()[:32]}"

"""The runs that a message or broadcast would start, prepared before its commit."""

from __future__ import annotations

import msgspec

from holdfast.core.runs import NewRun, Route
from holdfast.engine.runtime.ids import new_id
from holdfast.store.messages.operations import StartOffer
from holdfast.store.store import View


def start_offers(
    store: View, namespace: str, kind: str, name: str, payload: bytes
) -> list[StartOffer]:
    """Return a new run for each start event of that name. Its arguments are the variables of the
    message, and the start event."""
    return [
        StartOffer(
            NewRun(
                id=new_id(),
                route=Route(namespace, start.process, start.version, "default"),
                input=msgspec.json.encode(
                    [msgspec.Raw(payload), {"start": start.element, "kind": kind, "name": name}]
                ),
            ),
            start.element,
        )
        for start in store.messages.starts(namespace, kind, name)
    ]

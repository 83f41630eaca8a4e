"""HTTP headers that carry a fence: the idempotency key, the run, and its generation."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from holdfast.errors import BadLease
from holdfast.fencing.fence import Fence, fence_or_current

KEY = "Idempotency-Key"
RUN = "Holdfast-Run"
GENERATION = "Holdfast-Generation"
LONGEST = 255
"""The maximum number of characters that services accept as an idempotency key."""


def headers(fence: Fence | None = None) -> dict[str, str]:
    """Return the headers for a request of the running step: ``Idempotency-Key``, which most
    services understand, and the run and its generation, for services that use fencing."""
    own = fence_or_current(fence)
    return {KEY: plain(own.key), RUN: plain(own.run_id), GENERATION: str(own.generation)}


def read_headers(request_headers: Mapping[str, str]) -> Fence:
    """Return the fence in the headers of a request, for a service to ``admit``. Raises BadLease."""
    by_name = {name.lower(): value for name, value in request_headers.items()}
    key, run_id, generation = (
        by_name.get(name.lower(), "").strip() for name in (KEY, RUN, GENERATION)
    )
    missing = [
        name for name, value in ((KEY, key), (RUN, run_id), (GENERATION, generation)) if not value
    ]
    if missing:
        raise BadLease(missing=", ".join(missing))
    if not generation.isascii() or not generation.isdigit() or len(generation) > 18:
        raise BadLease(header=GENERATION, value=generation, why="the generation must be a number")
    return Fence(run_id, int(generation), key)


def plain(text: str) -> str:
    """Return a text that a header or metadata can hold: the text itself, or its digest if it is too
    long or is not printable ASCII."""
    if len(text) <= LONGEST and text.isascii() and text.isprintable() and text == text.strip():
        return text
    return "sha256-" + hashlib.sha256(text.encode()).hexdigest()

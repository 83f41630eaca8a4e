"""The headers of an HTTP request that tell a service what is done, for which run, and under which
generation."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from holdfast.errors import BadLease
from holdfast.fencing.fence import Fence, given

KEY, RUN, GENERATION = "Idempotency-Key", "Holdfast-Run", "Holdfast-Generation"
LONGEST = 255
"""Characters that services take as an idempotency key."""


def headers(fence: Fence | None = None) -> dict[str, str]:
    """Return the headers for a request of the running step: ``Idempotency-Key``, which most
    services understand, and the run and its generation, for those that fence."""
    found = given(fence)
    return {KEY: plain(found.key), RUN: plain(found.run_id), GENERATION: str(found.generation)}


def read_headers(found: Mapping[str, str]) -> Fence:
    """Return the fence that a request names, for a service to ``admit``. Raises BadLease."""
    told = {name.lower(): value for name, value in found.items()}
    key, run_id, generation = (
        told.get(name.lower(), "").strip() for name in (KEY, RUN, GENERATION)
    )
    missing = [
        name for name, value in ((KEY, key), (RUN, run_id), (GENERATION, generation)) if not value
    ]
    if missing:
        raise BadLease(missing=", ".join(missing))
    if not generation.isascii() or not generation.isdigit() or len(generation) > 18:
        raise BadLease(header=GENERATION, value=generation, why="it is a number")
    return Fence(run_id, int(generation), key)


def plain(text: str) -> str:
    """Return a text as a header or metadata can have it: itself, or its digest if it is too long or
    has other than plain characters."""
    if len(text) <= LONGEST and text.isascii() and text.isprintable() and text == text.strip():
        return text
    return "sha256-" + hashlib.sha256(text.encode()).hexdigest()

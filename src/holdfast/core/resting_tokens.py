"""Tokens at rest: the positions of a model's run, as rows that people and programs can read.

The tokens of a run follow from its history. The rows are a projection of the tokens that rest, for
lists and for SQL; no decision reads them.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec


class TokenStatus(StrEnum):
    """The status of a token."""

    READY = "ready"
    EXECUTING = "executing"
    WAITING = "waiting"
    SUSPENDED = "suspended"


class TokenMode(StrEnum):
    """Whether a token moves through the model, or compensates a completed activity."""

    FORWARD = "forward"
    COMPENSATION = "compensation"


class RestingToken(msgspec.Struct, kw_only=True):
    """A position in a model. Times are microseconds since 1970, UTC."""

    id: str
    """Unique within the run."""
    element: str
    kind: str = ""
    """The kind of the element, such as ``userTask``."""
    scope: str = ""
    """The scope that the token belongs to; empty for the instance."""
    status: str = TokenStatus.WAITING
    mode: str = TokenMode.FORWARD
    attempt: int = 1
    waits_for: str | None = None
    """``user``, ``external``, ``handler``, ``message``, ``signal``, ``timer``, ``condition``,
    ``trigger``, ``join``, ``child``, ``incident`` or ``retry``."""
    until: int | None = None
    since: int = 0
    version: int = 0
    """The number of the event that moved it last."""

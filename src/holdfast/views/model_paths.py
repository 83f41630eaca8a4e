"""The path of a model's run as lines for people: the elements in the order in which the run came to
them, and what each token waits for."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from holdfast.views.model_runs import ElementTraceView, TokenView, TraceView
from holdfast.views.text import Tree, away, seconds

MOST_TOKENS = 10
"""The most tokens of one element that are listed."""


def path_of(trace: TraceView, tokens: Sequence[TokenView], now: datetime) -> list[Tree]:
    """Return a line for each element that the run has entered, with its tokens below."""
    at: dict[str, list[TokenView]] = {}
    for token in tokens:
        at.setdefault(token.element, []).append(token)
    elements = {**trace.elements, **{each: ElementTraceView() for each in at}}
    return [
        _element(id, trace.elements.get(id, entry), at.get(id, []), now)
        for id, entry in elements.items()
    ]


def _element(id: str, entry: ElementTraceView, tokens: Sequence[TokenView], now: datetime) -> Tree:
    times = f"  {entry.completed} times" if entry.completed > 1 else ""
    cancelled = f"  cancelled {entry.cancelled}" if entry.cancelled else ""
    below = [Tree(_token(token, now)) for token in tokens[:MOST_TOKENS]]
    if len(tokens) > MOST_TOKENS:
        below.append(Tree(f"{len(tokens) - MOST_TOKENS} more tokens"))
    return Tree(f"{_mark(entry, tokens)} {id}{times}{cancelled}", below=below)


def _mark(entry: ElementTraceView, tokens: Sequence[TokenView]) -> str:
    if any(token.waits_for == "incident" for token in tokens):
        return "✗"
    if tokens or entry.active > 0:
        return "…"
    return "✓" if entry.completed else "·"


def _token(token: TokenView, now: datetime) -> str:
    parts = [f"token {token.id}", token.status]
    if token.waits_for is not None:
        parts.append(f"waits for {token.waits_for}")
    if token.mode != "forward":
        parts.append(token.mode)
    if token.attempt > 1:
        parts.append(f"attempt {token.attempt}")
    parts.append(f"since {seconds(token.since)}")
    if token.until is not None:
        parts.append(f"due {away(token.until, now)}")
    return ", ".join(parts)

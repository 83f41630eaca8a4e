"""The place of runs in the traces of other programs: hooks that a tracing library fills. Pure.

Without a tracing library every hook is None, and costs one comparison. What concerns callers is set
for the process, and what concerns runs for each engine, because a process may have several.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

import msgspec

from holdfast.core.step_info import StepInfo

TAG = "traceparent"
"""The tag of a run that names the span that has started it, in the form of W3C Trace Context."""


class RunTracing(Protocol):
    """A tracing library as it knows the runs of one engine."""

    def traceparent(self, run_id: str) -> str:
        """Return the ``traceparent`` of the span of a run."""

    def attempt(self, info: StepInfo) -> AbstractContextManager[None]:
        """Return the context in which the code of an attempt runs."""


class TraceHooks(msgspec.Struct):
    """The functions of a tracing library about the code that calls an engine."""

    here: Callable[[], str | None] | None = None
    """Return the ``traceparent`` of the span in which the caller runs; None outside a span."""
    incoming: Callable[[str], AbstractContextManager[None]] | None = None
    """Return the context of a request with this ``traceparent``."""


hooks = TraceHooks()
"""The hooks of this process."""


_UNTRACED: AbstractContextManager[None] = nullcontext()


def span_of(info: StepInfo) -> AbstractContextManager[None]:
    """Return the context in which the code of an attempt runs: its span, if runs are traced."""
    if info.tracing is None:
        return _UNTRACED
    span: AbstractContextManager[None] = info.tracing.attempt(info)
    return span


def traceparent_here() -> str | None:
    """Return the ``traceparent`` of the current span; None if there is none."""
    if hooks.here is None:
        return None
    return hooks.here()


def tags_of_start(tags: dict[str, str]) -> dict[str, str]:
    """Return the tags of a new run, with the span that starts it unless they name one."""
    if hooks.here is None or TAG in tags:
        return tags
    parent = traceparent_here()
    if parent is None:
        return tags
    return {**tags, TAG: parent}


def tags_of_child(
    tags: dict[str, str], parent_id: str, tracing: RunTracing | None
) -> dict[str, str]:
    """Return the tags of a child, with the span of its parent unless they name one."""
    if tracing is None or TAG in tags:
        return tags
    return {**tags, TAG: tracing.traceparent(parent_id)}

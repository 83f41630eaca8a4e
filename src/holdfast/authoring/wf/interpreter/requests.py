"""The request of a call: the facts that are the same for all attempts at it."""

from __future__ import annotations

import msgspec

from holdfast.authoring.wf.ast import Target
from holdfast.authoring.wf.interpreter.state import Place
from holdfast.authoring.wf.variables import VariableMap
from holdfast.core.retry import RetryPolicy

NO_RETRIES = RetryPolicy(retries=0, delay=0, jitter=0.0)


class CallRequest(msgspec.Struct):
    """The facts of a call, the same for all attempts at it."""

    target: Target
    key: str
    """The key of the step."""
    identity: str
    place: Place
    variables: VariableMap
    schema: str | None = None
    snippets: tuple[str, ...] = ()
    actor: str | None = None
    plugin_dirs: tuple[str, ...] = ()
    max_turns: int | None = None
    policy: RetryPolicy = NO_RETRIES
    timeout: int | None = None
    feedback: str | None = None

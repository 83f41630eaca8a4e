"""The information that a step has about itself: its run, its attempt, its idempotency key."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

import msgspec


def idempotency_key(run_id: str, step: str, life: int) -> str:
    """Return the idempotency key of a step for external calls, in the given life of the step."""
    if life == 0:
        return f"{run_id}:{step}"
    return f"{run_id}:{step}~{life + 1}"


class StepInfo(msgspec.Struct, frozen=True):
    """The identity of an attempt at a step. The idempotency key is the same in every attempt; the
    generation grows with every new holder of the run.

    For a step that is called outside a run, as a plain function, the texts are empty, the attempt
    is 1 and the generation is 0."""

    run_id: str
    workflow: str
    step: str
    attempt: int
    generation: int
    sink: Any = None
    """The sink of its output, to which ``holdfast.emit`` and the like write."""
    life: int = 0
    """How often a replay has discarded completed work of this step, or work that it builds on."""
    plain_key: str | None = None
    """The idempotency key of a call outside a run, another one for each call of ``info``."""
    last_error: str | None = None
    """The message of the error of the attempt before this one; None for the first attempt."""
    tracing: Any = None
    """The tracing of the runs of its engine (``RunTracing``); None if nothing is traced."""

    @property
    def idempotency_key(self) -> str:
        """The key to pass to external services: the same for every attempt at this step, and unique
        to it. A step that runs again because a replay discarded its work has a new key. Outside a
        run, each call of ``info`` returns another key."""
        if self.plain_key is not None:
            return self.plain_key
        return idempotency_key(self.run_id, self.step, self.life)


current_step: ContextVar[StepInfo | None] = ContextVar("holdfast_step", default=None)
"""The attempt at a step whose code is running; None outside a step."""

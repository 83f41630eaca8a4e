"""What a step knows about itself: its run, its attempt, its idempotency key."""

from __future__ import annotations

from typing import Any

import msgspec


def idempotency_key(run_id: str, step: str, life: int) -> str:
    """Return the key under which a step acts on the outside world, in the given life of that
    step."""
    return f"{run_id}:{step}" if life == 0 else f"{run_id}:{step}~{life + 1}"


class StepInfo(msgspec.Struct, frozen=True):
    """What a step may know about itself. The key is the same in every attempt; the generation grows
    with every new owner."""

    run_id: str
    workflow: str
    step: str
    attempt: int
    generation: int
    sink: Any = None
    """Where its output goes: ``holdfast.emit`` and the like write there."""
    life: int = 0
    """How often completed work, on which this step builds or which was its own, was declared void
    by a replay."""

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt at this step, and for no other step: give it to the outside
        world. A step that is done again after a replay has declared its work void has a new one."""
        return idempotency_key(self.run_id, self.step, self.life)

"""The fencing token of an external write: the run, its generation, and an idempotency key."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.connect.blocking.lease import Lease
from holdfast.connect.lease import AsyncLease
from holdfast.core.step_info import current_step
from holdfast.core.tasks.policy import read_proof
from holdfast.errors import BadOption, NotInWorkflow


class Fence(msgspec.Struct, frozen=True):
    """The identity of a holder of a run, for external systems. Of two fences of one run, the one
    with the larger generation is newer."""

    run_id: str
    generation: int
    key: str
    """The idempotency key of the write: the same in every attempt, and unique to this write."""

    def part(self, name: str | int) -> Fence:
        """Return the fence for one of several writes of a step; each name has its own key."""
        return Fence(self.run_id, self.generation, f"{self.key}:{name}")


def fence(holder: Lease | AsyncLease | str | None = None) -> Fence:
    """Return the fence of the running step or task, or of a lease or the proof of a lease if one is
    given. Raises NotInWorkflow, BadLease."""
    if holder is None:
        info = current_step.get()
        if info is None:
            raise NotInWorkflow(
                call="fence",
                why="only a running step has a fence: elsewhere pass the lease, or its proof",
            )
        return Fence(info.run_id, info.generation, info.idempotency_key)
    text: Any = holder if isinstance(holder, str) else getattr(holder, "proof", holder)
    proof = read_proof(text)
    key = proof.run_id
    if not isinstance(holder, str):
        # the key of the lease: a proof does not tell that its completed run was replayed
        key = getattr(holder, "idempotency_key", proof.run_id)
    return Fence(proof.run_id, proof.generation, key)


def fence_or_current(value: Any) -> Fence:
    """Return *value* if it is a fence; for None, the fence of the running step. Raises BadOption,
    NotInWorkflow."""
    if value is None:
        return fence()
    if not isinstance(value, Fence):
        raise BadOption(option="fence", value=value, why="make one with fence(), or fence(lease)")
    return value

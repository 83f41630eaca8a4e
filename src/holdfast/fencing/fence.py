"""Who writes, and what: the run and its generation, and a key that is the same in every attempt."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.authoring.python.step import current_step
from holdfast.connect.lease import AsyncLease, Lease
from holdfast.core.tasks.policy import read_proof
from holdfast.errors import BadOption, NotInWorkflow


class Fence(msgspec.Struct, frozen=True):
    """A holder of a run, as the outside world is told of it. Of two fences of one run the larger
    generation is the newer."""

    run_id: str
    generation: int
    key: str
    """What is done: the same in every attempt, and for nothing else."""

    def part(self, name: str | int) -> Fence:
        """Return the fence for one of several things that are done under it; each has a key of its
        own."""
        return Fence(self.run_id, self.generation, f"{self.key}:{name}")


def fence(holder: Lease | AsyncLease | str | None = None) -> Fence:
    """Return the fence of the running step or task, or that of the holder of a lease, or of whom
    the proof of one shows. Raises NotInWorkflow, BadLease."""
    if holder is None:
        info = current_step.get()
        if info is None:
            raise NotInWorkflow(
                call="fence", why="only a running step has one: else give the lease, or its proof"
            )
        return Fence(info.run_id, info.generation, info.idempotency_key)
    text: Any = holder if isinstance(holder, str) else getattr(holder, "proof", holder)
    proof = read_proof(text)
    # A proof does not tell that its run was replayed after it had completed; the lease does.
    key = (
        proof.run_id
        if isinstance(holder, str)
        else getattr(holder, "idempotency_key", proof.run_id)
    )
    return Fence(proof.run_id, proof.generation, key)


def given(fence_or_none: Any) -> Fence:
    """Return the fence that a call was given, or else that of the running step."""
    if fence_or_none is None:
        return fence()
    if not isinstance(fence_or_none, Fence):
        raise BadOption(
            option="fence", value=fence_or_none, why="make one with fence(), or fence(lease)"
        )
    return fence_or_none

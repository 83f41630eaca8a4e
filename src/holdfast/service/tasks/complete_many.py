"""Completing many leases at once: those that are plain travel as one transition, the others as what
they are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.core.graphs.model import MARK
from holdfast.core.schedules.model import tick_of
from holdfast.core.status import Status
from holdfast.errors import HoldfastError, LeaseLost
from holdfast.service.runs import Request
from holdfast.service.tasks.lease_state import LeaseState, LeaseTerm, RunEnded
from holdfast.store.contract.leases import CompleteLeases, TaskCompletion

if TYPE_CHECKING:
    from holdfast.service.tasks.service import TaskService

Answer = RunEnded | BaseException

DONE = RunEnded(Status.COMPLETED)


class _PlainCompletion(NamedTuple):
    place: int
    held: LeaseState


class CompleteMany:
    """Leases to be completed, each with its result. ``requests`` are committed together;
    ``answers`` says what each came to."""

    def __init__(self, desk: TaskService, done: Iterable[tuple[LeaseState, Any]]) -> None:
        self._desk = desk
        self._done = list(done)
        self._plain: list[_PlainCompletion] = []
        self._others: list[int] = []
        self._late: list[int] = []
        self._foreign: list[int] = []
        together, others = self._sorted()
        self.requests = (
            [Request(CompleteLeases(together), self._decode), *others] if together else others
        )
        """What is to be committed."""

    def _sorted(self) -> tuple[list[TaskCompletion], list[Request]]:
        together: list[TaskCompletion] = []
        others: list[Request] = []
        known: set[str] = set()
        encode, is_small = self._desk.codec.encode, self._desk.is_small
        over = {term: self._desk.is_over(session_id, term) for term, session_id in self._terms()}
        for place, (held, result) in enumerate(self._done):
            data = encode(result, "the result")
            if held.run.namespace != self._desk.namespace:
                self._foreign.append(place)
            elif over[held.term]:
                self._late.append(place)
            elif held.run.id not in known and _nobody_must_hear_of(held) and is_small(data):
                known.add(held.run.id)
                self._plain.append(_PlainCompletion(place, held))
                together.append(TaskCompletion(held.run.id, held.proof.generation, held.seq, data))
            else:
                self._others.append(place)
                others.append(self._desk.complete(held, result))
        return together, others

    def _terms(self) -> set[tuple[LeaseTerm, str]]:
        return {(held.term, held.proof.session_id) for held, _ in self._done}

    def _decode(self, answer: list[bool]) -> list[bool]:
        for (_, held), stood in zip(self._plain, answer, strict=True):
            held.seq += stood
        return answer

    def answers(self, answers: Sequence[Any]) -> list[Answer]:
        """Return what each lease came to, from the answers to the requests, refusals among them.
        What was refused for what another of them did, and not for itself, is answered with that
        error: try it alone."""
        found: list[Answer] = [DONE] * len(self._done)
        rest = list(answers)
        if self._plain:
            self._answer_plain(rest.pop(0), found)
        for place, answer in zip(self._others, rest, strict=True):
            found[place] = (
                self._explained(place, answer) if isinstance(answer, LeaseLost) else answer
            )
        for place in self._late:
            found[place] = self._explained(place, LeaseLost(run=self._done[place][0].run.id))
        for place in self._foreign:
            proof = self._done[place][0].proof
            found[place] = LeaseLost(
                run=proof.run_id, generation=proof.generation, why="there is no such lease"
            )
        return found

    def _answer_plain(self, answer: Any, found: list[Answer]) -> None:
        if isinstance(answer, BaseException):
            found[:] = [
                answer if place in {one.place for one in self._plain} else one
                for place, one in enumerate(found)
            ]
            return
        for (place, held), stood in zip(self._plain, answer, strict=True):
            if not stood:
                found[place] = self._explained(
                    place, LeaseLost(run=held.run.id, generation=held.proof.generation)
                )

    def _explained(self, place: int, refused: LeaseLost) -> Answer:
        held, result = self._done[place]
        try:
            ended: RunEnded = self._desk.explain(held, self._desk.complete(held, result), refused)
        except LeaseLost as lost:
            return lost
        return ended


def is_trouble(answer: Answer) -> bool:
    """Say whether something went wrong that says nothing about the lease: it may go well alone."""
    return isinstance(answer, Exception) and not isinstance(answer, HoldfastError)


def _nobody_must_hear_of(held: LeaseState) -> bool:
    run = held.run
    return (
        run.parent_id is None
        and MARK not in run.id
        and (run.key is None or tick_of(run.key) is None)
    )

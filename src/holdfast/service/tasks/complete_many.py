"""Complete many leases at once: plain completions are one operation, the others one each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.core.status import Status
from holdfast.errors import HoldfastError, LeaseLost
from holdfast.service.requests import Request
from holdfast.service.tasks.lease_state import ChildrenLeft, LeaseState, LeaseTerm, RunEnded
from holdfast.store.tasks.operations import CompleteLeases, TaskCompletion

if TYPE_CHECKING:
    from holdfast.service.tasks.service import TaskService

Answer = RunEnded | ChildrenLeft | BaseException

DONE = RunEnded(Status.COMPLETED)


class _PlainCompletion(NamedTuple):
    """A completion that is part of the common operation, and its index in the call."""

    place: int
    held: LeaseState


class CompleteMany:
    """Leases to be completed, each with its result. The caller commits ``requests`` together and
    passes the answers to ``answers``, which returns the outcome of each lease.

    A completion is plain if no parent, schedule or graph must be notified of the end of the run and
    its result is stored unchanged."""

    def __init__(self, tasks: TaskService, done: Iterable[tuple[LeaseState, Any]]) -> None:
        self._tasks = tasks
        self._done = list(done)
        self._plain: list[_PlainCompletion] = []
        self._others: list[int] = []
        self._late: list[int] = []
        self._foreign: list[int] = []
        together, others = self._sort()
        self.requests: list[Request[Any]] = others
        """The requests to commit."""
        if together:
            self.requests = [Request(CompleteLeases(together), self._decode), *others]

    def _sort(self) -> tuple[list[TaskCompletion], list[Request[Any]]]:
        together: list[TaskCompletion] = []
        others: list[Request[Any]] = []
        known: set[str] = set()
        encode = self._tasks.codec.encode
        is_small = self._tasks.is_small
        over = {
            term: self._tasks.terms.is_over(session_id, term) for term, session_id in self._terms()
        }
        for place, (held, result) in enumerate(self._done):
            data = encode(result, "the result")
            if held.run.namespace != self._tasks.namespace:
                self._foreign.append(place)
            elif over[held.term]:
                self._late.append(place)
            elif held.run.id not in known and _ends_unnoticed(held) and is_small(data):
                known.add(held.run.id)
                self._plain.append(_PlainCompletion(place, held))
                together.append(
                    TaskCompletion(
                        held.run.id,
                        held.proof.generation,
                        held.seq,
                        data,
                        held.term.stamp,
                        held.leased_at,
                    )
                )
            else:
                self._others.append(place)
                others.append(self._tasks.complete(held, result))
        return together, others

    def _terms(self) -> set[tuple[LeaseTerm, str]]:
        return {(held.term, held.proof.session_id) for held, _ in self._done}

    def _decode(self, answer: list[bool]) -> list[bool]:
        for (_, held), completed in zip(self._plain, answer, strict=True):
            held.seq += completed
        return answer

    def answers(self, answers: Sequence[Any]) -> list[Answer]:
        """Return the outcome of each lease, from the answers to the requests, which may be errors.

        If the common operation failed as a whole, all its leases have that error, although the
        cause may be only one of them: complete each of them alone."""
        outcomes: list[Answer] = [DONE] * len(self._done)
        rest = list(answers)
        if self._plain:
            self._answer_plain(rest.pop(0), outcomes)
        for place, answer in zip(self._others, rest, strict=True):
            if isinstance(answer, LeaseLost):
                answer = self._explain(place, answer)
            outcomes[place] = answer
        for place in self._late:
            outcomes[place] = self._explain(place, LeaseLost(run=self._done[place][0].run.id))
        for place in self._foreign:
            proof = self._done[place][0].proof
            outcomes[place] = LeaseLost(
                run=proof.run_id, generation=proof.generation, why="there is no such lease"
            )
        return outcomes

    def _answer_plain(self, answer: Any, outcomes: list[Answer]) -> None:
        if isinstance(answer, BaseException):
            for place, _ in self._plain:
                outcomes[place] = answer
            return
        for (place, held), completed in zip(self._plain, answer, strict=True):
            if not completed:
                outcomes[place] = self._explain(
                    place, LeaseLost(run=held.run.id, generation=held.proof.generation)
                )

    def _explain(self, place: int, refused: LeaseLost) -> Answer:
        """Return the first answer if the completion was made before, else the error with its
        reason."""
        held, result = self._done[place]
        try:
            ended: RunEnded = self._tasks.repeats.explain(
                held, self._tasks.complete(held, result), refused
            )
        except LeaseLost as lost:
            return lost
        return ended


def is_unrelated(answer: Answer) -> bool:
    """Return whether an answer says nothing about its lease, because it is another error, or
    because children have still to be asked to stop: the completion may succeed alone."""
    if isinstance(answer, ChildrenLeft):
        return True
    return isinstance(answer, Exception) and not isinstance(answer, HoldfastError)


def _ends_unnoticed(held: LeaseState) -> bool:
    """Return whether the run can end without notifying a parent, children, graph or schedule."""
    run = held.run
    is_alone = run.parent_id is None and not held.has_children
    return is_alone and run.graph_id is None and run.schedule is None

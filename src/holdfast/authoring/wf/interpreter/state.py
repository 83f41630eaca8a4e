"""The state of a run of a text workflow: results, contexts, variables, failures.

A ``FlowState`` belongs to one sequence of nodes. A branch of a parallel block has a fork of it,
which is merged in the order of the text when the block ends. A ``Place`` says where in the text the
interpreter is: the prefix of identities, the iterations, inherited options.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from holdfast.authoring.wf.variables import (
    ContextEntry,
    VariableMap,
    entries_since,
)

HIDDEN_INPUTS = ("prior_context", "prior_contexts", "prior_output", "prior_output_file")
"""The variables of earlier steps: they replace inputs of the same names."""


class StepResult(msgspec.Struct, frozen=True):
    """The latest result of a step, as conditions see it."""

    markers: list[str] = []
    context: str = ""
    output: Any = None
    status: str = "completed"


FAILED = StepResult(status="failed")
SKIPPED = StepResult(status="skipped")


class ChildEnd(NamedTuple):
    """The result of a sub-workflow, and the results and contexts of its own steps."""

    result: StepResult
    steps: Mapping[str, StepResult]
    entries: list[ContextEntry]


class Place(NamedTuple):
    """Where in the text the interpreter is."""

    path: str = ""
    """The prefix of the identities of steps."""
    iterations: tuple[int, ...] = ()
    schema: str | None = None
    snippets: tuple[str, ...] = ()
    extra: Mapping[str, str] | None = None
    """Variables of this part of the text only, such as ``workflow_status``."""
    always: bool = False
    block: BlockToken | None = None
    """The innermost parallel block."""


class BlockToken:
    """A parallel block: whether one of its branches has failed, and which branches are in a step,
    which is allowed to end."""

    __slots__ = ("is_stopped", "outer")

    def __init__(self, outer: BlockToken | None) -> None:
        self.is_stopped: bool = False
        self.outer: BlockToken | None = outer

    @property
    def stopped(self) -> bool:
        """Whether this block or one around it was stopped."""
        token: BlockToken | None = self
        while token is not None:
            if token.is_stopped:
                return True
            token = token.outer
        return False


class FlowState:
    """Results, contexts and variables of one sequence of nodes."""

    __slots__ = (
        "_base",
        "_outer",
        "_plain",
        "_since",
        "extras",
        "failures",
        "feedback",
        "last",
        "last_result",
        "prior_output",
        "results",
    )

    def __init__(self, base: Mapping[str, str], outer: FlowState | None = None) -> None:
        self._base: Mapping[str, str] = base
        """The variables that no step changes."""
        self._outer: FlowState | None = outer
        self._plain: dict[str, str] | None = None
        self.results: dict[str, StepResult] = {}
        """The latest results of steps, by key."""
        self.last: ContextEntry | None = None
        self._since: ContextEntry | None = None
        self.extras: dict[str, str] = {}
        self.feedback: str | None = None
        self.prior_output: Any = None
        self.last_result: StepResult | None = None
        """The result of the last completed step that is not a gate."""
        self.failures: list[Exception] = []
        """Failures that did not stop the run, because it keeps going."""
        if outer is not None:
            self.last = self._since = outer.last
            self.extras = outer.extras
            self.feedback = outer.feedback
            self.prior_output = outer.prior_output

    # Reading

    def result(self, key: str) -> StepResult | None:
        """Return the latest result of a step; None if it has not run."""
        state: FlowState | None = self
        while state is not None:
            result = state.results.get(key)
            if result is not None:
                return result
            state = state._outer
        return None

    def has_marker(self, key: str, marker: str) -> bool:
        """Return whether the latest result of a step has a marker."""
        result = self.result(key)
        return result is not None and marker in result.markers

    def all_results(self) -> dict[str, StepResult]:
        """Return the latest results of all steps, by key."""
        if self._outer is None:
            return self.results
        return {**self._outer.all_results(), **self.results}

    def variables(self, extra: Mapping[str, str] | None = None) -> VariableMap:
        """Return a snapshot of all variables."""
        plain = self._plain
        if plain is None:
            plain = dict(self._base)
            if self.feedback is not None:
                plain["gate_feedback"] = self.feedback
            plain.update(self.extras)
            self._plain = plain
        if extra:
            plain = {**plain, **extra}
        return VariableMap(plain, self.last, self.prior_output)

    # Changing

    def complete(
        self,
        key: str,
        result: StepResult,
        iterations: tuple[int, ...],
        fixed: frozenset[str],
        inner: Iterable[ContextEntry] = (),
    ) -> None:
        """Take in the result of a completed step; *inner* are the contexts of its own steps.
        *fixed* are the variables that no step may change."""
        for entry in inner:
            self.last = entry.after(self.last)
        self.results[key] = result
        self.last_result = result
        self.last = ContextEntry(
            self.last,
            key,
            iterations[-1] if iterations else 0,
            result.context,
            result.markers,
            result.output,
        )
        self.take_output(result.output, fixed)

    def take_output(self, output: Any, fixed: frozenset[str]) -> None:
        """Make a structured output known to later steps: its texts are variables."""
        if output is None:
            return
        self.prior_output = output
        if not isinstance(output, dict):
            return
        texts = {
            name: value
            for name, value in output.items()
            if isinstance(value, str) and name not in fixed
        }
        if texts:
            self.extras = {**self.extras, **texts}
            self._plain = None

    def take_feedback(self, feedback: str | None) -> None:
        """Make the answer of a gate known to later steps."""
        if feedback is not None:
            self.feedback = feedback
            self._plain = None

    def fork(self) -> FlowState:
        """Return the state of a branch, which begins with this one."""
        return FlowState(self._base, self)

    def merge(self, branch: FlowState) -> None:
        """Take in the results of a branch that has ended."""
        self.results.update(branch.results)
        for entry in entries_since(branch.last, branch._since):
            self.last = entry.after(self.last)
        if branch.extras is not self.extras:
            changed = {
                name: value
                for name, value in branch.extras.items()
                if self.extras.get(name) != value
            }
            self.extras = {**self.extras, **changed}
            self._plain = None
        if branch.feedback != self.feedback:
            self.take_feedback(branch.feedback)
        if branch.last_result is not None:
            self.last_result = branch.last_result
            if branch.last_result.output is not None:
                self.prior_output = branch.last_result.output

    def entries(self) -> Iterator[ContextEntry]:
        """Yield all contexts, oldest first."""
        yield from entries_since(self.last)

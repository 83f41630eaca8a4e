"""The machine that runs regular expressions: backtracking on a stack of its own, with a budget.

Every place of the text is visited at most once per instruction, unless the pattern has
back-references: a choice that has failed at a place fails there again. So the time is bounded by
the product of both lengths, and by the steps of the evaluation.
"""

from __future__ import annotations

from typing import Any

from holdfast.core.expressions.regex_parser import (
    BACKREFERENCE,
    CHAR,
    JUMP,
    LINE_END,
    LINE_START,
    MATCH,
    SAVE,
    SET,
    SPLIT,
    RegexProgram,
)
from holdfast.core.expressions.regex_sets import variants
from holdfast.core.expressions.scope import Evaluation

Groups = tuple[int, ...]
"""The start and end of the match and of each group; -1 for a group that did not take part."""

_PER_STEP = 10
"""Instructions of this machine that count as one step of the evaluation."""


def search(program: RegexProgram, text: str, start: int, evaluation: Evaluation) -> Groups | None:
    """Return the first match at or behind *start*, None if there is none."""
    tried: set[Any] = set()
    for place in range(start, len(text) + 1):
        groups = _match(program, text, place, evaluation, tried)
        if groups is not None:
            return groups
    return None


def _match(
    program: RegexProgram, text: str, start: int, evaluation: Evaluation, tried: set[Any]
) -> Groups | None:
    """Return the groups of a match that begins at *start*."""
    code: Any = program.code
    none = (start, -1) + (-1, -1) * program.groups
    stack: list[tuple[int, int, Groups]] = [(0, start, none)]
    count = 0
    while stack:
        pc, place, groups = stack.pop()
        while True:
            count += 1
            if count == _PER_STEP:
                evaluation.step()
                count = 0
            kind, first, second = code[pc]
            if kind == SPLIT:
                key = (pc, place, groups) if program.has_backreferences else (pc, place)
                if key in tried:
                    break
                tried.add(key)
                stack.append((second, place, groups))
                pc = first
            elif kind == JUMP:
                pc = first
            elif kind == SAVE:
                groups = (*groups[:first], place, *groups[first + 1 :])
                pc += 1
            elif kind == MATCH:
                return (start, place, *groups[2:])
            else:
                length = _width(program, kind, first, text, place, groups)
                if length < 0:
                    break
                place += length
                pc += 1
    return None


def _width(
    program: RegexProgram, kind: int, operand: Any, text: str, place: int, groups: Groups
) -> int:
    """Return how many characters an instruction accepts at a place, -1 if it fails."""
    if kind == SET:
        return 2 * (place < len(text) and bool(operand(text[place]))) - 1
    if kind == CHAR:
        return 2 * bool(text[place : place + 1] == operand) - 1
    if kind == LINE_START:
        return _starts_line(program, text, place) - 1
    if kind == LINE_END:
        return _ends_line(program, text, place) - 1
    assert kind == BACKREFERENCE
    return _repeats(program, text[groups[2 * operand] : groups[2 * operand + 1]], text, place)


def _repeats(program: RegexProgram, part: str, text: str, place: int) -> int:
    other = text[place : place + len(part)]
    if part == other or (program.ignore_case and _same_letters(part, other)):
        return len(part)
    return -1


def _same_letters(left: str, right: str) -> bool:
    return len(left) == len(right) and all(
        variants(a) & variants(b) for a, b in zip(left, right, strict=True)
    )


def _starts_line(program: RegexProgram, text: str, place: int) -> bool:
    return place == 0 or (program.multiline and text[place - 1] == "\n" and place < len(text))


def _ends_line(program: RegexProgram, text: str, place: int) -> bool:
    return place == len(text) or (program.multiline and text[place] == "\n")

"""Functions of FEEL with regular expressions."""

from __future__ import annotations

from typing import Any

from holdfast.core.expressions.functions.signature import FunctionTable
from holdfast.core.expressions.regex_machine import Groups, search
from holdfast.core.expressions.regex_parser import BadPattern, RegexProgram, compile_pattern
from holdfast.core.expressions.scope import Evaluation

FUNCTIONS = FunctionTable()


def _compiled(pattern: str, flags: str | None = None) -> RegexProgram | None:
    try:
        return compile_pattern(pattern, flags or "")
    except BadPattern:
        return None


@FUNCTIONS.define("matches", "input:s, pattern:s, flags?:s*")
def _matches(
    evaluation: Evaluation, text: str, pattern: str, flags: str | None = None
) -> bool | None:
    program = _compiled(pattern, flags)
    if program is None:
        return None
    return search(program, text, 0, evaluation) is not None


@FUNCTIONS.define("replace", "input:s, pattern:s, replacement:s, flags?:s*")
def _replace(
    evaluation: Evaluation, text: str, pattern: str, replacement: str, flags: str | None = None
) -> str | None:
    program = _compiled(pattern, flags)
    if program is None:
        return None
    parts: list[Any] = [replacement]
    if "q" not in (flags or ""):
        parts = _replacement_parts(replacement, program.groups)
    return _replaced(evaluation, program, text, parts)


def _replaced(
    evaluation: Evaluation, program: RegexProgram, text: str, parts: list[Any]
) -> str | None:
    pieces = []
    place = 0
    while place <= len(text):
        groups = search(program, text, place, evaluation)
        if groups is None:
            break
        if groups[0] == groups[1]:
            return None  # a pattern that matches nothing has no meaning here
        pieces.append(text[place : groups[0]])
        for part in parts:
            if isinstance(part, int):
                part = _group(text, groups, part)
            evaluation.produce(len(part))
            pieces.append(part)
        place = groups[1]
    pieces.append(text[place:])
    evaluation.produce(len(text))
    return "".join(pieces)


def _group(text: str, groups: Groups, group: int) -> str:
    start = groups[2 * group]
    end = groups[2 * group + 1]
    if start < 0 or end < 0:
        return ""
    return text[start:end]


def _replacement_parts(replacement: str, groups: int) -> list[Any]:
    """Return the texts and the numbers of groups of a replacement: ``$1``, ``\\$``."""
    parts: list[Any] = []
    place = 0
    while place < len(replacement):
        char = replacement[place]
        following = replacement[place + 1 : place + 2]
        place += 1
        if char == "\\" and following in ("\\", "$"):
            parts.append(following)
            place += 1
        elif char == "$" and following.isdigit():
            number = following
            place += 1
            while replacement[place : place + 1].isdigit():
                longer = number + replacement[place]
                if int(longer) > groups:
                    break
                number = longer
                place += 1
            if int(number) <= groups:
                parts.append(int(number))
        else:
            parts.append(char)
    return parts


@FUNCTIONS.define("split", "string:s, delimiter:s")
def _split(evaluation: Evaluation, text: str, delimiter: str) -> list[str] | None:
    program = _compiled(delimiter)
    if program is None:
        return None
    pieces = []
    place = 0
    while (groups := search(program, text, place, evaluation)) is not None:
        if groups[0] == groups[1]:
            return None
        pieces.append(text[place : groups[0]])
        place = groups[1]
    pieces.append(text[place:])
    evaluation.produce(len(text) + len(pieces))
    return pieces

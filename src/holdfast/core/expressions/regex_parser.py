"""Regular expressions of XPath, as FEEL uses them: text to program.

A program is a list of instructions for `regex_machine`. The functions of Python's `re` are not used
for patterns of users, because their time is not bounded and cannot be interrupted.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NoReturn

import msgspec

from holdfast.core.expressions.regex_sets import (
    Test,
    any_case,
    between,
    complement,
    difference,
    escaped_set,
    property_set,
    union,
    variants,
)

CHAR = 0
SET = 1
SPLIT = 2
JUMP = 3
SAVE = 4
LINE_START = 5
LINE_END = 6
BACKREFERENCE = 7
MATCH = 8

Instruction = tuple[int, object, object]
Code = list[Instruction]
"""Instructions whose targets are relative to their beginning."""

_LONGEST_PROGRAM = 20_000
_DEEPEST = 50
_SINGLE = {"n": "\n", "r": "\r", "t": "\t"}
_SYMBOLS: dict[str, Instruction] = {"^": (LINE_START, None, None), "$": (LINE_END, None, None)}
_DOTS: dict[bool, Test] = {False: lambda char: char not in "\n\r", True: lambda char: True}
_COUNTS: dict[str, tuple[int, int | None]] = {"?": (0, 1), "*": (0, None), "+": (1, None)}
_PUNCTUATION = frozenset("\\|.-^?*+{}()[]$")


class BadPattern(Exception):
    """A pattern is not a regular expression of XPath, or too large."""


class RegexProgram(msgspec.Struct, frozen=True):
    """A pattern, ready to be run."""

    code: tuple[Instruction, ...]
    groups: int
    ignore_case: bool
    multiline: bool
    has_backreferences: bool


@lru_cache(maxsize=256)
def compile_pattern(pattern: str, flags: str) -> RegexProgram:
    """Return the program of a pattern. Raises BadPattern."""
    if not set(flags) <= set("smixq"):
        raise BadPattern(flags)
    if "q" in flags:
        literal = [_char(char, "i" in flags) for char in pattern]
        return RegexProgram((*literal, (MATCH, None, None)), 0, "i" in flags, False, False)
    if "x" in flags:
        pattern = _without_blanks(pattern)
    parser = _PatternParser(pattern, flags)
    code = parser.whole()
    return RegexProgram(
        tuple(code), parser.groups, "i" in flags, "m" in flags, parser.has_backreferences
    )


def _without_blanks(pattern: str) -> str:
    """Remove blanks outside of character classes."""
    kept = []
    depth = 0
    escaped = False
    for char in pattern:
        if not escaped and char == "[":
            depth += 1
        elif not escaped and char == "]":
            depth -= 1
        if depth > 0 or char not in " \t\n\r":
            kept.append(char)
            escaped = char == "\\" and not escaped
    return "".join(kept)


def _char(char: str, ignore_case: bool) -> Instruction:
    if ignore_case:
        forms = variants(char)
        return (SET, lambda other: not forms.isdisjoint(variants(other)), None)
    return (CHAR, char, None)


class _PatternParser:
    """Recursive descent; each function returns the instructions of a part."""

    def __init__(self, pattern: str, flags: str) -> None:
        self.pattern: str = pattern
        self.place: int = 0
        self.ignore_case: bool = "i" in flags
        self.dot_all: bool = "s" in flags
        self.groups: int = 0
        self.closed: set[int] = set()
        self.depth: int = 0
        self.has_backreferences: bool = False

    def whole(self) -> Code:
        code = self._alternatives()
        if self.place < len(self.pattern):
            self._fail()
        return [*code, (MATCH, None, None)]

    def _fail(self) -> NoReturn:
        raise BadPattern(self.pattern)

    def _peek(self) -> str:
        return self.pattern[self.place : self.place + 1]

    def _take(self) -> str:
        char = self._peek()
        if not char:
            self._fail()
        self.place += 1
        return char

    def _accept(self, text: str) -> bool:
        if self.pattern.startswith(text, self.place):
            self.place += len(text)
            return True
        return False

    def _sized(self, code: Code) -> Code:
        if len(code) > _LONGEST_PROGRAM:
            self._fail()
        return code

    def _alternatives(self) -> Code:
        self.depth += 1
        if self.depth > _DEEPEST:
            self._fail()
        branches = [self._sequence()]
        while self._accept("|"):
            branches.append(self._sequence())
        self.depth -= 1
        code = branches.pop()
        for branch in reversed(branches):
            split: Instruction = (SPLIT, 1, len(branch) + 2)
            jump: Instruction = (JUMP, len(branch) + 2 + len(code), None)
            code = [split, *_moved(branch, 1), jump, *_moved(code, len(branch) + 2)]
            self._sized(code)
        return code

    def _sequence(self) -> Code:
        code: Code = []
        while self._peek() and self._peek() not in "|)":
            code += _moved(self._quantified(self._atom()), len(code))
            self._sized(code)
        return code

    def _atom(self) -> Code:
        char = self._take()
        if char == "(":
            return self._group()
        if char == "[":
            return [(SET, self._char_class(), None)]
        if char == "\\":
            return [self._escape()]
        if char in _SYMBOLS:
            return [_SYMBOLS[char]]
        if char == ".":
            return [(SET, _DOTS[self.dot_all], None)]
        if char in "?*+{}])":
            self._fail()
        return [_char(char, self.ignore_case)]

    def _group(self) -> Code:
        if self._accept("?:"):
            code = self._alternatives()
        else:
            self.groups += 1
            group = self.groups
            code = [(SAVE, 2 * group, None), *_moved(self._alternatives(), 1)]
            code.append((SAVE, 2 * group + 1, None))
            self.closed.add(group)
        if not self._accept(")"):
            self._fail()
        return code

    def _escape(self) -> Instruction:
        char = self._take()
        if char.isdigit():
            return self._backreference(char)
        if char in _SINGLE:
            return _char(_SINGLE[char], self.ignore_case)
        if char in _PUNCTUATION:
            return _char(char, self.ignore_case)
        return (SET, self._escaped(char), None)

    def _backreference(self, digits: str) -> Instruction:
        while self._peek().isdigit() and int(digits + self._peek()) <= self.groups:
            digits += self._take()
        group = int(digits)
        if group not in self.closed:
            self._fail()
        self.has_backreferences = True
        return (BACKREFERENCE, group, None)

    def _escaped(self, char: str) -> Test:
        if char in "pP" and self._accept("{"):
            end = self.pattern.find("}", self.place)
            test = property_set(self.pattern[self.place : end])
            self.place = end + 1
            if test is not None and char == "P":
                test = complement(test)
        else:
            test = escaped_set(char)
        if test is None:
            self._fail()
        return test

    def _char_class(self) -> Test:
        self.depth += 1
        if self.depth > _DEEPEST:
            self._fail()
        negated = self._accept("^")
        tests: list[Test] = []
        removed: Test | None = None
        while not self._accept("]"):
            if tests and self._accept("-["):
                removed = self._char_class()
                if not self._accept("]"):
                    self._fail()
                break
            tests.append(self._class_part())
        if not tests:
            self._fail()
        test = union(tests)
        if self.ignore_case:
            test = any_case(test)
        if negated:
            test = complement(test)
        if removed is not None:
            test = difference(test, removed)
        self.depth -= 1
        return test

    def _class_part(self) -> Test:
        char = self._take()
        if char == "[":
            self._fail()
        if char == "\\":
            char = self._take()
            if char not in _SINGLE and char not in _PUNCTUATION:
                return self._escaped(char)
            char = _SINGLE.get(char, char)
        if self._peek() != "-" or self.pattern[self.place + 1 : self.place + 2] in ("]", "[", ""):
            return char.__eq__
        self.place += 1
        last = self._take()
        if last == "\\":
            last = self._take()
            last = _SINGLE.get(last, last)
        if last < char:
            self._fail()
        return between(char, last)

    def _quantified(self, atom: Code) -> Code:
        char = self._peek()
        if not char or char not in "?*+{":
            return atom
        self.place += 1
        if char == "{":
            low, high = self._counts()
        else:
            low, high = _COUNTS[char]
        lazy = self._accept("?")
        if self._peek() and self._peek() in "?*+{":
            self._fail()
        if (max(low, high or 0) + 1) * (len(atom) + 1) > _LONGEST_PROGRAM:
            self._fail()
        return _repeated(atom, low, high, lazy)

    def _counts(self) -> tuple[int, int | None]:
        end = self.pattern.find("}", self.place)
        low, comma, high = self.pattern[self.place : end].partition(",")
        self.place = end + 1
        valid = low.isdigit() and (high.isdigit() or not high)
        if end < 0 or not valid or len(low) > 6 or len(high) > 6:
            self._fail()
        if not comma:
            return int(low), int(low)
        if not high:
            return int(low), None
        if int(high) < int(low):
            self._fail()
        return int(low), int(high)


def _repeated(atom: Code, low: int, high: int | None, lazy: bool) -> Code:
    """Return the instructions of an atom for each of its repetitions."""
    code: Code = []
    for _ in range(low):
        code += _moved(atom, len(code))
    if high is None:
        loop = len(code)
        code.append(_split(loop + 1, loop + len(atom) + 2, lazy))
        code += _moved(atom, loop + 1)
        code.append((JUMP, loop, None))
        return code
    end = len(code) + (high - low) * (len(atom) + 1)
    for _ in range(high - low):
        code.append(_split(len(code) + 1, end, lazy))
        code += _moved(atom, len(code))
    return code


def _split(first: int, second: int, lazy: bool) -> Instruction:
    if lazy:
        return (SPLIT, second, first)
    return (SPLIT, first, second)


def _moved(code: Code, distance: int) -> Code:
    """Return instructions for another place: their targets move with them."""
    return [_moved_instruction(instruction, distance) for instruction in code]


def _moved_instruction(instruction: Instruction, distance: int) -> Instruction:
    kind, first, second = instruction
    if kind == SPLIT and isinstance(first, int) and isinstance(second, int):
        return (kind, first + distance, second + distance)
    if kind == JUMP and isinstance(first, int):
        return (kind, first + distance, None)
    return instruction

"""Sets of characters of regular expressions: classes, escapes, categories, blocks."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache

Test = Callable[[str], bool]
"""Whether a character belongs to a set."""

_BLOCKS = {
    "BasicLatin": (0x0000, 0x007F),
    "Latin-1Supplement": (0x0080, 0x00FF),
    "LatinExtended-A": (0x0100, 0x017F),
    "LatinExtended-B": (0x0180, 0x024F),
    "IPAExtensions": (0x0250, 0x02AF),
    "CombiningDiacriticalMarks": (0x0300, 0x036F),
    "Greek": (0x0370, 0x03FF),
    "GreekandCoptic": (0x0370, 0x03FF),
    "Cyrillic": (0x0400, 0x04FF),
    "Armenian": (0x0530, 0x058F),
    "Hebrew": (0x0590, 0x05FF),
    "Arabic": (0x0600, 0x06FF),
    "Devanagari": (0x0900, 0x097F),
    "Thai": (0x0E00, 0x0E7F),
    "GeneralPunctuation": (0x2000, 0x206F),
    "CurrencySymbols": (0x20A0, 0x20CF),
    "Arrows": (0x2190, 0x21FF),
    "MathematicalOperators": (0x2200, 0x22FF),
    "BoxDrawing": (0x2500, 0x257F),
    "Hiragana": (0x3040, 0x309F),
    "Katakana": (0x30A0, 0x30FF),
    "CJKUnifiedIdeographs": (0x4E00, 0x9FFF),
    "HangulSyllables": (0xAC00, 0xD7AF),
}
_CATEGORIES = re.compile(
    "L[ultmo]?|M[nce]?|N[dlo]?|P[cdsepifo]?|Z[slp]?|S[mcko]?|C[cfon]?",
)


def _is_space(char: str) -> bool:
    return char in " \t\n\r"


def _is_digit(char: str) -> bool:
    return unicodedata.category(char) == "Nd"


def _is_word(char: str) -> bool:
    return unicodedata.category(char)[0] not in "PZC"


def _is_name_start(char: str) -> bool:
    return char in "_:" or unicodedata.category(char)[0] == "L"


def _is_name_part(char: str) -> bool:
    return char in "_:.-\u00b7" or unicodedata.category(char)[0] in "LMN"


_ESCAPES: dict[str, Test] = {
    "s": _is_space,
    "d": _is_digit,
    "w": _is_word,
    "i": _is_name_start,
    "c": _is_name_part,
}


def escaped_set(letter: str) -> Test | None:
    """Return the set of an escape such as ``\\d``; an upper-case letter is its complement."""
    test = _ESCAPES.get(letter.lower())
    if test is None or letter.islower():
        return test
    return complement(test)


def complement(test: Test) -> Test:
    """Return the characters outside a set."""

    def outside(char: str) -> bool:
        return not test(char)

    return outside


def property_set(name: str) -> Test | None:
    """Return the set of ``\\p{name}``, None for an unknown name."""
    if name.startswith("Is"):
        block = _BLOCKS.get(name[2:])
        if block is None:
            return None
        return between(chr(block[0]), chr(block[1]))
    if not _CATEGORIES.fullmatch(name):
        return None
    return lambda char: unicodedata.category(char).startswith(name)


def between(first: str, last: str) -> Test:
    """Return the characters from one to another."""
    return lambda char: first <= char <= last


@lru_cache(maxsize=1024)
def variants(char: str) -> frozenset[str]:
    """Return a character in both cases."""
    forms = {char, char.lower(), char.upper(), char.casefold()}
    forms |= {form.upper() for form in forms}
    return frozenset(form for form in forms if len(form) == 1)


def any_case(test: Test) -> Test:
    """Return the characters that belong to a set in one of their cases."""
    return lambda char: any(test(form) for form in variants(char))


def union(tests: list[Test]) -> Test:
    """Return the characters of any of several sets."""
    return lambda char: any(test(char) for test in tests)


def difference(test: Test, removed: Test) -> Test:
    """Return the characters of one set that another lacks."""
    return lambda char: test(char) and not removed(char)

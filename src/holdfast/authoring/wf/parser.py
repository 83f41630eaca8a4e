"""Read a ``.wf`` text. ``read`` never raises for a bad text: it returns the problems, and the
document as far as it could be parsed. ``parse`` raises BadWorkflow if a problem is an error."""

from __future__ import annotations

import msgspec

from holdfast.authoring.wf.cursor import Cursor
from holdfast.authoring.wf.document import Document
from holdfast.authoring.wf.lexer import (
    TokenStream,
    is_open_string,
    tokenize,
    unstorable_characters,
    wrong_tokens,
)
from holdfast.authoring.wf.nodes import NodeParser
from holdfast.authoring.wf.problems import Code, ProblemCollector
from holdfast.core.problems import Problem
from holdfast.errors import BadWorkflow

LARGEST_TEXT = 4 * 1024 * 1024
MOST_BRACES = 500_000
_QUOTES = "\"'"


class ParsedText(msgspec.Struct, frozen=True):
    """The outcome of reading a text. *document* is None if the text has no workflow; if *problems*
    has errors, it lacks the constructs that could not be parsed."""

    document: Document | None
    problems: tuple[Problem, ...]
    is_complete: bool
    """Whether every construct was parsed, possibly with wrong options."""

    @property
    def has_errors(self) -> bool:
        return any(problem.is_error for problem in self.problems)


def parse(text: str, path: str = "<text>") -> Document:
    """Return the document of a text. Raises BadWorkflow with all problems, if one is an error."""
    outcome = read(text, path)
    if outcome.document is None or outcome.has_errors:
        raise BadWorkflow(problems=outcome.problems)
    return outcome.document


def read(text: str, path: str = "<text>", first_line: int = 1) -> ParsedText:
    """Parse a text and return its document and its problems. *first_line* is the line of the file
    that the text begins at."""
    problems = ProblemCollector(text, path, first_line)
    document = None
    if not _is_too_large(text, problems):
        tokens = tokenize(text)
        wrong = wrong_tokens(tokens)
        cursor = Cursor(text, _legal_tokens(tokens, wrong, problems), problems)
        cursor.ran_out = any(is_open_string(tokens.texts[index]) for index in wrong[-1:])
        _report_unstorable(text, problems)
        document = NodeParser(cursor, path).document()
    ordered = tuple(problems.problems())
    if document is not None:
        warnings = tuple(problem for problem in ordered if not problem.is_error)
        document = msgspec.structs.replace(document, warnings=warnings, first_line=first_line)
    is_complete = all(problem.code not in _INCOMPLETE for problem in ordered)
    return ParsedText(document, ordered, is_complete)


def _is_too_large(text: str, problems: ProblemCollector) -> bool:
    """Report a text whose tokens would take too much time and memory."""
    if len(text) > LARGEST_TEXT:
        place = LARGEST_TEXT
        message = f"the text has more than {LARGEST_TEXT:,} characters"
    elif text.count("{") > MOST_BRACES:
        place = 0
        message = f"the text has more than {MOST_BRACES:,} braces"
    else:
        return False
    problems.error(place, Code.SYNTAX, message, "split it into several workflows")
    return True


_INCOMPLETE = (Code.SYNTAX.value, Code.TRAILING_TEXT.value)


def _report_unstorable(text: str, problems: ProblemCollector) -> None:
    for offset in unstorable_characters(text):
        character = text[offset]
        problems.error(offset, Code.SYNTAX, f"the text contains the character {character!r}")
        if problems.is_full:
            return


def _legal_tokens(tokens: TokenStream, wrong: list[int], problems: ProblemCollector) -> TokenStream:
    """Return the tokens without the wrong ones, which become problems. A string that is written
    wrongly is kept as an empty string, so that it is one problem."""
    if not wrong:
        return tokens
    for index in wrong:
        _report_wrong_token(tokens.texts[index], tokens.start(index), problems)
    kept: dict[int, str] = dict(enumerate(tokens.texts))
    for index in wrong:
        if tokens.texts[index][0] in _QUOTES:
            kept[index] = '""'
        else:
            del kept[index]
    return TokenStream(list(kept.values()), [tokens.ends[index] for index in kept])


def _report_wrong_token(token: str, start: int, problems: ProblemCollector) -> None:
    if token[:3] == '"""':
        message = "a string has one double quote at each end"
        hint = 'write "..."; a string may have several lines'
    elif token[:1] == '"':
        message = 'the string is not closed: `"` is missing'
        hint = ""
    elif token[:2] == "--" or token[:1] in "#;":
        message = f"unexpected `{token[:2] if token[:2] == '--' else token[0]}`"
        hint = "comments begin with `//`"
    else:
        message, hint = _wrong_character(token)
    problems.error(start, Code.SYNTAX, message, hint)


def _wrong_character(token: str) -> tuple[str, str]:
    character = token[0]
    if character == "\ufeff":
        return "the text begins with a byte order mark", "save the file as UTF-8 without it"
    if character in "'`\u201c\u201d\u2018\u2019":
        return f"unexpected character `{character}`", 'strings are written in double quotes: "..."'
    if character in "-+":
        return f"unexpected character `{character}`", "numbers have no sign"
    shown = character if character.isprintable() else repr(character)
    return f"unexpected character `{shown}`", ""

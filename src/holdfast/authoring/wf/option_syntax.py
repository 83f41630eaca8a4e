"""The syntax of options: ``KEY = VALUE``. A value is a text, a number, a name, a list or a map.

Common mistakes, such as commas and a missing sign, are reported and skipped, so that the options
behind them are read, too.
"""

from __future__ import annotations

from holdfast.authoring.wf.ast import Word
from holdfast.authoring.wf.cursor import NOT_KEYS, NOT_NAMES, RESERVED, Cursor
from holdfast.authoring.wf.lexer import DIGITS, LETTERS, string_value
from holdfast.authoring.wf.problems import Code
from holdfast.authoring.wf.values import (
    LARGEST_NUMBER,
    ListValue,
    MapValue,
    OptionValue,
    Scalar,
)

GivenOption = tuple[str, int, OptionValue]
"""The key of an option, the offset of the key, and the value."""


def at_option(cursor: Cursor) -> bool:
    """Return whether ``KEY =`` follows."""
    texts = cursor.texts
    index = cursor.index
    token = texts[index]
    return token[:1] in LETTERS and texts[index + 1] == "=" and token not in NOT_KEYS


def parse_leading_options(cursor: Cursor) -> list[GivenOption]:
    """Consume the options at the beginning of a block with nodes."""
    assigned: list[GivenOption] = []
    while True:
        if at_option(cursor):
            assigned.append(_parse_option(cursor))
        elif assigned and cursor.peek() == ",":
            _refuse_comma(cursor)
        elif cursor.peek(1) == "{" and _at_key(cursor) and not _at_contextual_block(cursor):
            assigned.append(_parse_option_without_sign(cursor))
        else:
            return assigned


def _at_contextual_block(cursor: Cursor) -> bool:
    """Return whether a block of the language follows that is not an option."""
    return cursor.peek() in ("inputs", "budget", "outputs")


def parse_options(cursor: Cursor, after: str, keyword: int) -> list[GivenOption]:
    """Consume the options of a block that has nothing else, up to its closing brace."""
    assigned: list[GivenOption] = []
    texts = cursor.texts
    while texts[cursor.index] != "}":
        if at_option(cursor):
            assigned.append(_parse_option(cursor))
        else:
            _report_stray(cursor, assigned, after, keyword)
    return assigned


def _report_stray(cursor: Cursor, assigned: list[GivenOption], after: str, keyword: int) -> None:
    """Report a token that is not an option. Raises Panic unless parsing can go on behind it."""
    token = cursor.peek()
    if token == "," and assigned:
        _refuse_comma(cursor)
    elif _at_key(cursor) and cursor.peek(1) == "{":
        assigned.append(_parse_option_without_sign(cursor))
    elif _at_key(cursor) and _follows_number(cursor):
        hint = f'a duration is written in quotes: `"{cursor.peek(-1)}{token}"`'
        cursor.problems.error(cursor.start(), Code.SYNTAX, f"unexpected `{token}`", hint)
        cursor.index += 1
    elif _at_key(cursor):
        cursor.index += 1
        raise cursor.panic(f"expected `=` after `{token}`, found {cursor.described()}")
    elif not token:
        raise cursor.not_closed(after, keyword)
    elif token in NOT_KEYS and cursor.peek(1) == "=":
        raise cursor.panic(f"`{token}` is a reserved word and cannot be an option")
    else:
        raise cursor.panic(f"expected an option or `}}` in {after}, found {cursor.described()}")


def _at_key(cursor: Cursor) -> bool:
    token = cursor.peek()
    return token[:1] in LETTERS and token not in NOT_KEYS


def _follows_number(cursor: Cursor) -> bool:
    return cursor.index > 0 and cursor.texts[cursor.index - 1][:1] in DIGITS


def _refuse_comma(cursor: Cursor) -> None:
    cursor.problems.error(
        cursor.start(), Code.SYNTAX, "unexpected `,`", "options are separated by blanks"
    )
    cursor.index += 1


def _parse_option(cursor: Cursor) -> GivenOption:
    index = cursor.index
    key = cursor.texts[index]
    cursor.index = index + 2
    return key, cursor.ends[index] - len(key), parse_value(cursor, key)


def _parse_option_without_sign(cursor: Cursor) -> GivenOption:
    """Consume ``KEY { ... }``, a common mistake, as if the sign were there."""
    key = cursor.peek()
    start = cursor.start()
    cursor.index += 1
    cursor.problems.error(
        cursor.start(),
        Code.SYNTAX,
        f"expected `=` after `{key}`, found `{{`",
        f"write `{key} = {{ ... }}`",
    )
    return key, start, parse_value(cursor, key)


def parse_value(cursor: Cursor, key: str) -> OptionValue:
    """Consume the value of an option. Raises Panic."""
    token = cursor.texts[cursor.index]
    if token == "[":
        return _parse_list(cursor)
    if token == "{":
        return _parse_map(cursor, key)
    return _parse_scalar(cursor, key)


def _parse_scalar(cursor: Cursor, key: str) -> Scalar:
    index = cursor.index
    token = cursor.texts[index]
    start = cursor.ends[index] - len(token)
    first = token[:1]
    if first in DIGITS:
        cursor.index = index + 1
        return Scalar(_checked_number(cursor, token, start), start)
    if first == '"':
        cursor.index = index + 1
        return Scalar(string_value(token), start, True)
    if first not in LETTERS or token in NOT_NAMES:
        raise cursor.panic(f"expected a value for `{key}`, found {cursor.described()}")
    cursor.index = index + 1
    if cursor.texts[index + 1] == "." and token not in RESERVED:
        cursor.index = index + 2
        field = cursor.name(f"a name after `{token}.`")
        return Scalar(f"{token}.{field.text}", start, False, len(token))
    return Scalar(token, start)


def _checked_number(cursor: Cursor, token: str, start: int) -> str:
    digits = token.lstrip("0") or "0"
    if len(digits) > 10 or int(digits) > LARGEST_NUMBER:
        cursor.problems.error(start, Code.SYNTAX, f"the number is greater than {LARGEST_NUMBER}")
        return "0"
    return digits


def _parse_list(cursor: Cursor) -> ListValue:
    start = cursor.start()
    cursor.index += 1
    items: list[OptionValue] = []
    while (token := cursor.peek()) != "]":
        if token == ",":
            cursor.index += 1
        elif token in ("[", "{"):
            _refuse_nested(cursor, "a list")
        elif not token or token == "}":
            raise cursor.not_closed("the list", start, "]")
        else:
            items.append(_parse_scalar(cursor, "the list"))
    cursor.index += 1
    return ListValue(tuple(items), start)


def _parse_map(cursor: Cursor, option: str) -> MapValue:
    start = cursor.start()
    cursor.index += 1
    cursor.depth += 1
    pairs: list[tuple[Word, OptionValue]] = []
    while (token := cursor.peek()) != "}":
        if token == ",":
            _refuse_comma(cursor)
            continue
        if not token:
            raise cursor.not_closed("the map", start)
        key = _parse_map_key(cursor)
        if cursor.peek() == "[" and (option, key.text) == ("retry", "on"):
            pairs.append((key, _parse_list(cursor)))
        elif cursor.peek() in ("[", "{"):
            _refuse_nested(cursor, "a map")
        else:
            pairs.append((key, _parse_scalar(cursor, key.text)))
    cursor.index += 1
    cursor.depth -= 1
    return MapValue(tuple(pairs), start)


def _parse_map_key(cursor: Cursor) -> Word:
    token = cursor.peek()
    if not _at_key(cursor):
        hint = "the keys of a map are names" if token[:1] == '"' else ""
        raise cursor.panic(f"expected a key of the map, found {cursor.described()}", hint)
    key = Word(token, cursor.start())
    cursor.index += 1
    if cursor.peek() == ":":
        raise cursor.panic("unexpected `:`", f"write `{token} = value`")
    cursor.expect("=", f"`{token}`")
    return key


def _refuse_nested(cursor: Cursor, container: str) -> None:
    """Report a list or a map inside a list or a map, and skip it."""
    cursor.problems.error(
        cursor.start(), Code.BAD_VALUE, f"{container} contains only texts, numbers and names"
    )
    level = 0
    while token := cursor.peek():
        level += (token in ("[", "{")) - (token in ("]", "}"))
        cursor.index += 1
        if not level:
            return

"""A position in the tokens of a text, with what every construct needs: names, values, options,
conditions, blocks, and recovery.

A construct that cannot be parsed reports a problem and raises ``Panic``. The enclosing block
catches it and continues at its next node or at its closing brace, so that one mistake hides no
other.
"""

from __future__ import annotations

import re

from holdfast.authoring.wf.ast import (
    Condition,
    ExpressionCondition,
    InputCondition,
    MarkerCondition,
    Word,
)
from holdfast.authoring.wf.lexer import (
    DIGITS,
    LETTERS,
    TokenStream,
    string_value,
)
from holdfast.authoring.wf.problems import Code, ProblemCollector
from holdfast.authoring.wf.values import (
    LARGEST_NUMBER,
    ListValue,
    MapValue,
    OptionValue,
    Scalar,
)

NODE_KEYWORDS = frozenset(
    ["call", "if", "unless", "while", "do", "parallel", "gate", "always", "script", "foreach"]
)
RESERVED = NODE_KEYWORDS | frozenset(
    ["workflow", "meta", "inputs", "required", "default", "description", "boolean"]
)
NOT_NAMES = frozenset({"meta", "do"})
KEYWORD_KEYS = frozenset(["required", "default", "description", "if", "workflow", "inputs"])
KEYWORD_TARGETS = frozenset(["required", "default", "description"])
_NOT_KEYS = RESERVED - KEYWORD_KEYS
NOT_TARGETS = RESERVED - KEYWORD_TARGETS
MOST_LEVELS = 128
"""Blocks may be nested so deep. The walkers of the tree are recursive: the limit keeps them far
from the limit of the interpreter's stack."""

_COMMENT = re.compile(r'"(?:[^"\\]|\\.)*+"|//[^\n]*+', re.DOTALL)

GivenOption = tuple[str, int, OptionValue]
"""The key of an option, the offset of the key, and the value."""


class Panic(Exception):
    """The construct cannot be parsed further; its problem is reported already."""


class Cursor:
    """A position in the tokens. *depth* counts the braces that are open."""

    __slots__ = ("depth", "ends", "index", "problems", "ran_out", "text", "texts")

    def __init__(self, text: str, tokens: TokenStream, problems: ProblemCollector) -> None:
        self.text: str = text
        self.texts: list[str] = tokens.texts
        self.ends: list[int] = tokens.ends
        self.problems: ProblemCollector = problems
        self.index: int = 0
        self.depth: int = 0
        self.ran_out: bool = False
        """Whether a reported problem has consumed the rest of the text: then the open blocks are
        not closed, and that is no further problem."""

    # Places

    def start(self, index: int | None = None) -> int:
        """Return the offset of a token; of the next one by default."""
        place = self.index if index is None else index
        return self.ends[place] - len(self.texts[place])

    def last_end(self) -> int:
        """Return the offset after the token before the next one."""
        return self.ends[self.index - 1] if self.index else 0

    def peek(self, distance: int = 0) -> str:
        """Return a token that is ahead; an empty text at the end."""
        place = min(self.index + distance, len(self.texts) - 1)
        return self.texts[place]

    def panic(self, message: str, hint: str = "", start: int | None = None) -> Panic:
        """Report a problem at the next token, or at *start*, and return the exception to raise. At
        the end of the text that is the last token: an empty line has nothing to correct."""
        place = start
        if place is None:
            is_at_end = self.index > 0 and not self.texts[self.index]
            place = self.start(self.index - 1) if is_at_end else self.start()
        self.problems.error(place, Code.SYNTAX, message, hint)
        return Panic()

    def described(self) -> str:
        """Return the next token as messages show it."""
        token = self.peek()
        if not token:
            return "the end of the text"
        return f"`{token}`" if len(token) <= 40 else f"`{token[:37]}...`"

    # Tokens

    def expect(self, token: str, after: str) -> None:
        """Consume *token*. Raises Panic."""
        if self.texts[self.index] != token:
            raise self.panic(f"expected `{token}` after {after}, found {self.described()}")
        self.index += 1

    def name(self, role: str) -> Word:
        """Consume a name: an identifier, or a reserved word that is allowed as a name."""
        token = self.texts[self.index]
        if token[:1] not in LETTERS or token in NOT_NAMES:
            raise self.panic(f"expected {role}, found {self.described()}")
        place = Word(token, self.ends[self.index] - len(token))
        self.index += 1
        return place

    def string(self, role: str) -> Word:
        """Consume a string."""
        token = self.texts[self.index]
        if token[:1] != '"':
            raise self.panic(f"expected {role} in double quotes, found {self.described()}")
        place = Word(string_value(token), self.ends[self.index] - len(token))
        self.index += 1
        return place

    # Blocks

    def open(self, after: str, keyword: int) -> None:
        """Consume the opening brace of a block. Raises Panic, also if it is nested too deep."""
        self.expect("{", after)
        self.depth += 1
        if self.depth > MOST_LEVELS:
            self._skip_block()
            raise self.panic(
                f"blocks are nested deeper than {MOST_LEVELS} levels",
                "move the inner blocks to a workflow of their own",
                keyword,
            )

    def close(self, after: str, keyword: int) -> int:
        """Consume the closing brace of a block and return the offset after it. Raises Panic."""
        if self.texts[self.index] == "}":
            self.index += 1
            self.depth -= 1
            return self.ends[self.index - 1]
        if not self.texts[self.index]:
            raise self.not_closed(after, keyword)
        raise self.panic(f"expected `}}` at the end of {after}, found {self.described()}")

    def not_closed(self, label: str, start: int, missing: str = "}") -> Panic:
        """Report that the text ends inside a construct, and return the exception to raise."""
        if self.ran_out:
            return Panic()
        self.ran_out = True
        return self.panic(f"{label} is not closed: `{missing}` is missing", start=start)

    def _skip_block(self) -> None:
        """Consume everything up to the closing brace of the current block, and that brace."""
        level = 1
        while level and (token := self.texts[self.index]):
            level += (token == "{") - (token == "}")
            self.index += 1
        self.ran_out = self.ran_out or level > 0
        self.depth -= 1

    def recover(self, depth: int, first: int) -> None:
        """Skip to the next node of the block at *depth*, or to its closing brace. *first* is the
        index of the token that the failed construct began with."""
        if self.index <= first:
            self.skip_token()
        while token := self.texts[self.index]:
            if self.depth <= depth and (token == "}" or token in NODE_KEYWORDS):
                return
            self.skip_token()
        self.ran_out = True

    def skip_token(self) -> None:
        """Consume any token, and count the braces."""
        token = self.texts[self.index]
        if token == "{":
            self.depth += 1
        elif token == "}":
            self.depth -= 1
        if token:
            self.index += 1

    # Options and values

    def at_option(self) -> bool:
        """Return whether ``KEY =`` follows."""
        texts = self.texts
        index = self.index
        token = texts[index]
        return token[:1] in LETTERS and texts[index + 1] == "=" and token not in _NOT_KEYS

    def leading_options(self) -> list[GivenOption]:
        """Consume the options at the beginning of a block with nodes."""
        assigned: list[GivenOption] = []
        while True:
            if self.at_option():
                assigned.append(self._option())
            elif assigned and self.peek() == ",":
                self._refuse_comma()
            elif self.peek(1) == "{" and self._is_key() and not self.at_contextual_block():
                assigned.append(self._option_without_sign())
            else:
                return assigned

    def at_contextual_block(self) -> bool:
        """Return whether a block of the language follows that is not an option."""
        return self.peek() in ("inputs", "budget", "outputs")

    def options(self, after: str, keyword: int) -> list[GivenOption]:
        """Consume the options of a block that has nothing else, up to its closing brace."""
        assigned: list[GivenOption] = []
        texts = self.texts
        while texts[self.index] != "}":
            if self.at_option():
                assigned.append(self._option())
            else:
                self._stray_in_options(assigned, after, keyword)
        return assigned

    def _stray_in_options(self, assigned: list[GivenOption], after: str, keyword: int) -> None:
        """Report a token that is not an option. Raises Panic unless parsing can go on behind it."""
        token = self.peek()
        if token == "," and assigned:
            self._refuse_comma()
        elif self._is_key() and self.peek(1) == "{":
            assigned.append(self._option_without_sign())
        elif self._is_key() and self._follows_number():
            hint = f'a duration is written in quotes: `"{self.peek(-1)}{token}"`'
            self.problems.error(self.start(), Code.SYNTAX, f"unexpected `{token}`", hint)
            self.index += 1
        elif self._is_key():
            self.index += 1
            raise self.panic(f"expected `=` after `{token}`, found {self.described()}")
        elif not token:
            raise self.not_closed(after, keyword)
        elif token in _NOT_KEYS and self.peek(1) == "=":
            raise self.panic(f"`{token}` is a reserved word and cannot be an option")
        else:
            raise self.panic(f"expected an option or `}}` in {after}, found {self.described()}")

    def _is_key(self) -> bool:
        token = self.peek()
        return token[:1] in LETTERS and token not in _NOT_KEYS

    def _follows_number(self) -> bool:
        return self.index > 0 and self.texts[self.index - 1][:1] in DIGITS

    def _refuse_comma(self) -> None:
        self.problems.error(
            self.start(), Code.SYNTAX, "unexpected `,`", "options are separated by blanks"
        )
        self.index += 1

    def _option(self) -> GivenOption:
        index = self.index
        key = self.texts[index]
        self.index = index + 2
        return key, self.ends[index] - len(key), self.value(key)

    def _option_without_sign(self) -> GivenOption:
        """Consume ``KEY { ... }``, a common mistake, as if the sign were there."""
        key = self.peek()
        start = self.start()
        self.index += 1
        self.problems.error(
            self.start(),
            Code.SYNTAX,
            f"expected `=` after `{key}`, found `{{`",
            f"write `{key} = {{ ... }}`",
        )
        return key, start, self.value(key)

    def value(self, key: str) -> OptionValue:
        """Consume the value of an option. Raises Panic."""
        token = self.texts[self.index]
        if token == "[":
            return self._list()
        if token == "{":
            return self._map(key)
        return self._scalar(key)

    def _scalar(self, key: str) -> Scalar:
        index = self.index
        token = self.texts[index]
        start = self.ends[index] - len(token)
        first = token[:1]
        if first in DIGITS:
            self.index = index + 1
            return Scalar(self._number(token, start), start)
        if first == '"':
            self.index = index + 1
            return Scalar(string_value(token), start, True)
        if first not in LETTERS or token in NOT_NAMES:
            raise self.panic(f"expected a value for `{key}`, found {self.described()}")
        self.index = index + 1
        if self.texts[index + 1] == "." and token not in RESERVED:
            self.index = index + 2
            field = self.name(f"a name after `{token}.`")
            return Scalar(f"{token}.{field.text}", start, False, len(token))
        return Scalar(token, start)

    def _number(self, token: str, start: int) -> str:
        digits = token.lstrip("0") or "0"
        if len(digits) > 10 or int(digits) > LARGEST_NUMBER:
            self.problems.error(start, Code.SYNTAX, f"the number is greater than {LARGEST_NUMBER}")
            return "0"
        return digits

    def _list(self) -> ListValue:
        start = self.start()
        self.index += 1
        items: list[OptionValue] = []
        while (token := self.peek()) != "]":
            if token == ",":
                self.index += 1
            elif token in ("[", "{"):
                self._refuse_nested("a list")
            elif not token or token == "}":
                raise self.not_closed("the list", start, "]")
            else:
                items.append(self._scalar("the list"))
        self.index += 1
        return ListValue(tuple(items), start)

    def _map(self, option: str) -> MapValue:
        start = self.start()
        self.index += 1
        self.depth += 1
        pairs: list[tuple[Word, OptionValue]] = []
        while (token := self.peek()) != "}":
            if token == ",":
                self._refuse_comma()
                continue
            if not token:
                raise self.not_closed("the map", start)
            key = self._map_key()
            if self.peek() == "[" and (option, key.text) == ("retry", "on"):
                pairs.append((key, self._list()))
            elif self.peek() in ("[", "{"):
                self._refuse_nested("a map")
            else:
                pairs.append((key, self._scalar(key.text)))
        self.index += 1
        self.depth -= 1
        return MapValue(tuple(pairs), start)

    def _map_key(self) -> Word:
        token = self.peek()
        if not self._is_key():
            hint = "the keys of a map are names" if token[:1] == '"' else ""
            raise self.panic(f"expected a key of the map, found {self.described()}", hint)
        key = Word(token, self.start())
        self.index += 1
        if self.peek() == ":":
            raise self.panic("unexpected `:`", f"write `{token} = value`")
        self.expect("=", f"`{token}`")
        return key

    def _refuse_nested(self, container: str) -> None:
        """Report a list or a map inside a list or a map, and skip it."""
        self.problems.error(
            self.start(), Code.BAD_VALUE, f"{container} contains only texts, numbers and names"
        )
        level = 0
        while token := self.peek():
            level += (token in ("[", "{")) - (token in ("]", "}"))
            self.index += 1
            if not level:
                return

    # Conditions

    def condition(self, *, bare: bool) -> Condition:
        """Consume a condition. *bare*: a boolean input is allowed, too. Raises Panic."""
        if self.peek() == "(":
            return self._expression()
        step = self.name("a condition")
        if self.peek() != ".":
            if bare:
                return InputCondition(step.text, step.start)
            raise self.panic(
                f"expected `.` after `{step.text}`, found {self.described()}",
                "the condition of a loop is `step.marker` or an expression in parentheses",
            )
        self.index += 1
        marker = self.name(f"a marker after `{step.text}.`")
        return MarkerCondition(step.text, marker.text, step.start)

    def _expression(self) -> ExpressionCondition:
        opening = self.start()
        first = self.ends[self.index]
        self.index += 1
        level = 1
        while level:
            token = self.peek()
            if not token or token in ("{", "}"):
                raise self.panic("the condition is not closed: `)` is missing", start=opening)
            level += (token == "(") - (token == ")")
            self.index += 1
        text = self.text[first : self.start(self.index - 1)]
        return ExpressionCondition(_blank_comments(text), first)


def _blank_comments(text: str) -> str:
    """Replace comments by blanks, so that offsets stay as they are."""
    if "//" not in text:
        return text
    return _COMMENT.sub(lambda m: m[0] if m[0][0] == '"' else " " * len(m[0]), text)

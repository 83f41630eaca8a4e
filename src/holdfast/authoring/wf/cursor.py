"""A position in the tokens of a text, with what every construct needs: names, strings, blocks, and
recovery. ``option_syntax`` and ``condition_syntax`` parse options and conditions with it.

A construct that cannot be parsed reports a problem and raises ``Panic``. The enclosing block
catches it and continues at its next node or at its closing brace, so that one mistake hides no
other.
"""

from __future__ import annotations

from holdfast.authoring.wf.ast import Word
from holdfast.authoring.wf.lexer import LETTERS, TokenStream, string_value
from holdfast.authoring.wf.problems import Code, ProblemCollector

NODE_KEYWORDS = frozenset(
    ["call", "if", "unless", "while", "do", "parallel", "gate", "always", "script", "foreach"]
)
RESERVED = NODE_KEYWORDS | frozenset(
    ["workflow", "meta", "inputs", "required", "default", "description", "boolean"]
)
NOT_NAMES = frozenset({"meta", "do"})
KEYWORD_KEYS = frozenset(["required", "default", "description", "if", "workflow", "inputs"])
KEYWORD_TARGETS = frozenset(["required", "default", "description"])
NOT_KEYS = RESERVED - KEYWORD_KEYS
NOT_TARGETS = RESERVED - KEYWORD_TARGETS
MOST_LEVELS = 128
"""Blocks may be nested so deep. The walkers of the tree are recursive: the limit keeps them far
from the limit of the interpreter's stack."""


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

"""The concrete structure of a text: statements with their blocks and comments, for the formatter.

The text has been parsed before, so the structure can be read from the tokens without checks. A
comment belongs to the statement on whose line it stands, else to the statement after it; a comment
in the middle of a statement moves to the line before it. No comment is lost.
"""

from __future__ import annotations

import re

import msgspec

from holdfast.authoring.wf.lexer import TokenStream, tokenize

_COMMENT = re.compile(r"//[^\n]*")
_PIECES = re.compile(r'"(?:[^"\\]|\\.)*+"|//[^\n]*+|\s++|[^\s"/]++|/', re.DOTALL)


class TextComment(msgspec.Struct, frozen=True):
    """A comment, and whether a blank line stands before it."""

    text: str
    after_blank: bool


class TextStatement(msgspec.Struct):
    """An option, a node or a declaration. *head* is its text up to its block."""

    head: str
    leading: list[TextComment]
    after_blank: bool
    block: TextBlock | None = None
    tail: str = ""
    trailing: str = ""
    value: CompositeValue | None = None
    """The list or map of an option; then *head* ends with the sign."""


class TextBlock(msgspec.Struct):
    """The statements between braces. *opening* is the comment on the line of the brace."""

    statements: list[TextStatement]
    opening: str = ""
    closing: list[TextComment] = []


class CompositeValue(msgspec.Struct):
    """A list or a map: its brackets and its entries."""

    opening: str
    closing: str
    entries: list[str]
    separator: str


class SourceFile(msgspec.Struct):
    """The workflow of a text, with the comments after its end."""

    workflow: TextStatement
    closing: list[TextComment]


def structure_of(text: str) -> SourceFile:
    """Return the structure of a text that has no syntax errors."""
    reader = _StructureReader(text, tokenize(text))
    workflow = reader.statement()
    closing = reader.boundary(workflow)
    return SourceFile(workflow, closing)


_BLOCKS_WITH_NAME = frozenset(("script", "gate", "foreach", "workflow"))
_DECLARED = frozenset(("required", "boolean"))
_DECLARED_WITH_VALUE = frozenset(("default", "description", "type", "choices"))


class _StructureReader:
    __slots__ = ("_hoisted", "_index", "_pending", "_text", "_tokens")

    def __init__(self, text: str, tokens: TokenStream) -> None:
        self._text: str = text
        self._tokens: TokenStream = tokens
        self._index: int = 0
        self._hoisted: list[TextComment] = []
        self._pending: list[TextComment] = []
        """Comments that the next statement takes."""

    # Tokens and comments

    def _peek(self, distance: int = 0) -> str:
        place = min(self._index + distance, len(self._tokens.texts) - 1)
        return self._tokens.texts[place]

    def _blank(self) -> str:
        """Return the blanks and comments before the next token."""
        first = self._tokens.ends[self._index - 1] if self._index else 0
        return self._text[first : self._tokens.start(self._index)]

    def _take(self) -> str:
        """Consume a token in the middle of a statement; the comments before it move to the line
        before the statement."""
        for match in _COMMENT.finditer(self._blank()):
            self._hoisted.append(TextComment(_clean(match[0]), False))
        token = self._peek()
        self._index += 1
        return token

    def boundary(self, previous: TextStatement | TextBlock | None) -> list[TextComment]:
        """Split the comments before the next token: the one on the line of the previous token
        belongs to *previous*, the others are returned."""
        blank = self._blank()
        comments: list[TextComment] = []
        end = 0
        for match in _COMMENT.finditer(blank):
            between = blank[end : match.start()]
            is_first = not comments and end == 0
            end = match.end()
            if is_first and "\n" not in between and previous is not None:
                _attach(previous, _clean(match[0]))
                continue
            comments.append(TextComment(_clean(match[0]), between.count("\n") > 1))
        return comments

    # Statements

    def statement(self) -> TextStatement:
        """Read the statement that begins at the next token."""
        leading = [*self._pending, *(self.boundary(None) if self._index == 0 else [])]
        self._pending = []
        after_blank = _ends_with_blank_line(self._blank())
        self._hoisted = []
        statement = self._parts()
        statement.leading = [*leading, *self._hoisted]
        statement.after_blank = after_blank
        self._hoisted = []
        return statement

    def _parts(self) -> TextStatement:
        if self._peek(1) == "=":
            return self._option()
        word = self._bare()
        if word in ("if", "unless", "while"):
            return self._with_block(f"{word} {self._condition()}")
        if word == "call":
            return self._call()
        if word in _BLOCKS_WITH_NAME:
            return self._with_block(f"{word} {self._take()}")
        if word in ("sleep", "emit", "use"):
            return TextStatement(f"{word} {self._take()}", [], False)
        if word == "wait":
            self._take()
            return self._optional_block(f"wait signal {self._take()}")
        statement = self._with_block(word)
        if word == "do" and self._peek() == "while":
            self._take()
            statement.tail = f"while {self._condition()}"
        return statement

    def _bare(self) -> str:
        """Consume the first token of a statement, whose comments are handled already."""
        token = self._peek()
        self._index += 1
        return token

    def _call(self) -> TextStatement:
        target = self._take()
        if target == "workflow":
            target = f"workflow {self._take()}"
        return self._optional_block(f"call {target}")

    def _optional_block(self, head: str) -> TextStatement:
        if self._peek() == "{":
            return self._with_block(head)
        return TextStatement(head, [], False)

    def _condition(self) -> str:
        if self._peek() != "(":
            first = self._take()
            if self._peek() != ".":
                return first
            self._take()
            return f"{first}.{self._take()}"
        self._take()
        first_end = self._tokens.ends[self._index - 1]
        level = 1
        while level:
            token = self._take()
            level += (token == "(") - (token == ")")
        last = self._tokens.start(self._index - 1)
        return f"({_one_line(self._text[first_end:last])})"

    def _option(self) -> TextStatement:
        key = self._bare()
        self._take()
        head = f"{key} ="
        if self._peek() not in ("[", "{"):
            return TextStatement(f"{head} {self._scalar()}", [], False)
        statement = TextStatement(head, [], False)
        statement.value = self._composite()
        return statement

    def _scalar(self) -> str:
        token = self._take()
        if self._peek() == "." and token[:1] not in '"0123456789':
            self._take()
            return f"{token}.{self._take()}"
        return token

    def _composite(self) -> CompositeValue:
        if self._take() == "[":
            return CompositeValue("[", "]", self._items(), ", ")
        entries = []
        while self._peek() != "}":
            key = self._take()
            self._take()
            value = f"[{', '.join(self._list())}]" if self._peek() == "[" else self._scalar()
            entries.append(f"{key} = {value}")
        self._take()
        return CompositeValue("{ ", " }", entries, " ")

    def _list(self) -> list[str]:
        self._take()
        return self._items()

    def _items(self) -> list[str]:
        entries = []
        while self._peek() != "]":
            if self._peek() == ",":
                self._take()
            else:
                entries.append(self._scalar())
        self._take()
        return entries

    # Blocks

    def _with_block(self, head: str) -> TextStatement:
        statement = TextStatement(head, [], False)
        self._take()
        hoisted = self._hoisted  # the statements of the block have comments of their own
        block = TextBlock([])
        statement.block = block
        if head == "inputs" and self._peek(1) != "=":
            self._block(block, declares=True)
        else:
            self._block(block, declares=False)
        self._hoisted = hoisted
        return statement

    def _block(self, block: TextBlock, *, declares: bool) -> None:
        previous: TextStatement | TextBlock = block
        while True:
            self._pending = self.boundary(previous)
            if self._peek() == "}":
                block.closing = self._pending
                self._pending = []
                self._index += 1
                return
            statement = self._declared_input() if declares else self.statement()
            block.statements.append(statement)
            previous = statement

    def _declared_input(self) -> TextStatement:
        leading = self._pending
        self._pending = []
        after_blank = _ends_with_blank_line(self._blank())
        self._hoisted = []
        words = [self._bare()]
        while True:
            token = self._peek()
            if token in _DECLARED:
                words.append(self._take())
            elif token in _DECLARED_WITH_VALUE and self._peek(1) == "=":
                words += [self._take(), self._take(), self._input_value()]
            else:
                break
        statement = TextStatement(" ".join(words), [*leading, *self._hoisted], after_blank)
        self._hoisted = []
        return statement

    def _input_value(self) -> str:
        if self._peek() == "[":
            return f"[{', '.join(self._list())}]"
        return self._scalar()


def _attach(previous: TextStatement | TextBlock, comment: str) -> None:
    if isinstance(previous, TextBlock):
        previous.opening = comment
    else:
        previous.trailing = comment


def _clean(comment: str) -> str:
    return comment.rstrip()


def _ends_with_blank_line(blank: str) -> bool:
    """Return whether a blank line stands between the last comment and the token."""
    last = blank.rpartition("//")[2] if "//" in blank else blank
    return last.count("\n") > 1


def _one_line(expression: str) -> str:
    """Return an expression on one line, without its comments."""
    pieces = []
    for piece in _PIECES.findall(expression):
        pieces.append(" " if piece.isspace() or piece.startswith("//") else piece)
    return re.sub(r"^ +| +$", "", "".join(_without_repeated_blanks(pieces)))


def _without_repeated_blanks(pieces: list[str]) -> list[str]:
    return [
        piece
        for index, piece in enumerate(pieces)
        if piece != " " or index == 0 or pieces[index - 1] != " "
    ]

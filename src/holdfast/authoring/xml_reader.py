"""Read XML into a tree of plain nodes, with the line of each element.

Only expat of the standard library reads the text. Nothing outside the text is ever loaded: files
with entities, external document types or included parts are refused, as are files that are too
big or nested too deeply. Each front end has its own nodes and its own names for namespaces.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar
from xml.parsers import expat

from holdfast.errors import ModelUnreadable

MAX_BYTES = 50_000_000
MAX_DEPTH = 200

_XINCLUDE = "http://www.w3.org/2001/XInclude"
_DECLARED = re.compile(rb"""<\?xml[^>]*encoding\s*=\s*["']([A-Za-z0-9._-]+)["']""")
_MARKS = {codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF32_BE: "utf-32"}


class TreeNode(Protocol):
    """What the reader fills in: the children of an element, in order, and its text."""

    children: list[Any]
    text: str


N = TypeVar("N", bound=TreeNode)


def read_tree(
    data: bytes,
    make: Callable[[str, dict[str, str], int], N],
    prefix: Callable[[str], str],
    skipped: str | None = None,
) -> N:
    """Return the root of the tree.

    *make* makes a node of a name, attributes and a line. *prefix* returns what names of a namespace
    begin with, whatever prefix the file writes. Elements named *skipped* are left out, with all
    that is in them. Raises ModelUnreadable.
    """
    if len(data) >= MAX_BYTES:
        raise ModelUnreadable(why="the file is too big", bytes=len(data), limit=MAX_BYTES)
    try:
        return _TreeReader(make, prefix, skipped).read(*_decodable(data))
    except expat.ExpatError as error:
        raise ModelUnreadable(
            why=expat.ErrorString(error.code) or "not XML",
            line=error.lineno,
            column=error.offset + 1,
        ) from None
    except (ValueError, LookupError) as error:
        raise ModelUnreadable(why=f"its encoding cannot be read: {error}") from None


def _decodable(data: bytes) -> tuple[bytes, str | None]:
    """Return the text in an encoding that expat knows, and its name if the file states another."""
    for mark, name in _MARKS.items():
        if data.startswith(mark):
            return data.decode(name).encode(), "utf-8"
    declared = _DECLARED.search(data, 0, 200)
    if declared is None:
        return data, None
    name = codecs.lookup(declared.group(1).decode()).name
    if name in ("utf-8", "utf-16", "iso8859-1", "ascii"):
        return data, None
    return data.decode(name).encode(), "utf-8"


class _TreeReader(Generic[N]):
    """The handlers of one parse."""

    def __init__(
        self,
        make: Callable[[str, dict[str, str], int], N],
        prefix: Callable[[str], str],
        skipped: str | None,
    ) -> None:
        self._make: Callable[[str, dict[str, str], int], N] = make
        self._prefix: Callable[[str], str] = prefix
        self._skipped_tag: str | None = skipped
        self._parser: Any = None
        self._stack: list[N] = []
        self._root: N | None = None
        self._names: dict[str, str] = {}
        self._depth: int = 0
        self._skipped: int = 0
        """The depth of the subtree that is skipped; 0 outside of it."""

    def read(self, data: bytes, encoding: str | None) -> N:
        parser = expat.ParserCreate(encoding, namespace_separator="}")
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._data
        parser.StartDoctypeDeclHandler = self._doctype
        parser.EntityDeclHandler = self._entity
        parser.UnparsedEntityDeclHandler = self._entity
        parser.ExternalEntityRefHandler = self._entity
        self._parser = parser
        parser.Parse(data, True)
        if self._root is None:
            raise ModelUnreadable(why="it has no element")
        return self._root

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth >= MAX_DEPTH:
            raise ModelUnreadable(
                why="its elements are nested too deeply", limit=MAX_DEPTH, line=self._line()
            )
        if self._skipped:
            return
        tag = self._names.get(name) or self._known(name)
        if tag == self._skipped_tag:
            self._skipped = self._depth
            return
        node = self._make(
            tag,
            {
                key if "}" not in key else self._names.get(key) or self._known(key): value
                for key, value in attributes.items()
            },
            self._parser.CurrentLineNumber,
        )
        if self._stack:
            self._stack[-1].children.append(node)
        else:
            self._root = node
        self._stack.append(node)

    def _end(self, name: str) -> None:
        if not self._skipped:
            self._stack.pop()
        elif self._skipped == self._depth:
            self._skipped = 0
        self._depth -= 1

    def _data(self, text: str) -> None:
        if not self._skipped and self._stack:
            self._stack[-1].text += text

    def _doctype(self, name: str, system: str | None, public: str | None, internal: int) -> None:
        if system or public:
            raise ModelUnreadable(
                why="it refers to an external document type: remote parts are not loaded",
                line=self._line(),
            )

    def _entity(self, *facts: object) -> int:
        raise ModelUnreadable(why="it declares entities", line=self._line())

    def _line(self) -> int:
        return int(self._parser.CurrentLineNumber)

    def _known(self, name: str) -> str:
        """Return the short form of a name of expat, and remember it. Raises ModelUnreadable."""
        space, _, local = name.rpartition("}")
        if space == _XINCLUDE:
            raise ModelUnreadable(
                why="it includes another file: remote parts are not loaded", line=self._line()
            )
        short = self._prefix(space) + local
        self._names[name] = short
        return short

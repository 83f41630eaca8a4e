"""Cursors of pages: opaque texts that are bound to one list of one database and namespace."""

from __future__ import annotations

import hashlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64

from holdfast.errors import BadCursor

_TAG = 6
"""Bytes that bind a cursor to its list. It is a check against mistakes, not a signature: the place
after it is checked like every other argument."""


class ListCursors:
    """The cursors of one list of one database, as one namespace sees it."""

    def __init__(self, installation: str, operation: str, namespace: str | None) -> None:
        text = "\0".join((installation, operation, namespace or ""))
        self._tag: bytes = hashlib.sha256(text.encode()).digest()[:_TAG]

    def text(self, place: str) -> str:
        """Return the cursor of a place."""
        return urlsafe_b64encode(self._tag + place.encode()).rstrip(b"=").decode()

    def place(self, cursor: str) -> str:
        """Return the place that a cursor stands for. Raises BadCursor if the cursor belongs to
        another list, database or namespace, or is none."""
        try:
            data = urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4))
            place = data[_TAG:].decode()
        except (NotBase64, ValueError):
            raise BadCursor(cursor=cursor, why="this text is not a cursor") from None
        if data[:_TAG] != self._tag or self.text(place) != cursor:
            raise BadCursor(cursor=cursor, why="it belongs to another list or database")
        return place

"""A proxy between a store and its server that a test can cut at the n-th message, before the server
receives it or after the server answers it."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager, suppress

SOCKET = ".s.PGSQL.5432"
REQUEST, ANSWER, SILENCE = "request", "answer", "silence"
_FIELDS = (
    b"SWARNING\0VWARNING\0C57P02\0Mterminating connection because of crash of another server"
    b" process\0\0"
)
WARNING = b"N" + (len(_FIELDS) + 4).to_bytes(4, "big") + _FIELDS
"""The last message of a server process that ends because another process has crashed, or because of
an immediate shutdown."""


class Wire:
    """A socket like that of the server, which forwards all data.

    ``cut`` applies to the first connection through it.
    """

    def __init__(self, server, folder):
        self._server, self._folder = server, folder
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / SOCKET))
        self._listener.listen(50)
        self._lines = []
        self.dead = False
        """Whether the wire refuses new connections."""
        self.said = []
        """The messages that the first connection has sent since the last call of ``cut``."""
        self._cut_at, self._loses = 0, REQUEST
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, url):
        """Return the URL of the same database through this wire."""
        return url.replace(str(self._server.base), str(self._folder))

    def cut(self, word, loses):
        """Cut the first connection at a message: the *word*-th from now, or the first that contains
        *word* if it is bytes.

        *loses* says what is lost: the request, or the answer to it. With ``SILENCE`` the request is
        lost, and the connection to the server stays open.
        """
        self.said, self._cut_at, self._loses = [], word, loses

    def crash(self):
        """Cut every connection now, while no message is in transit, as a crashing server does."""
        for line in self._lines:
            line.crash()

    @property
    def words(self):
        """The number of messages in ``said``."""
        return len(self.said)

    @property
    def was_cut(self):
        return self._cut_at == 0

    def _accept(self):
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                if self.dead:
                    near.close()
                    continue
                far = socket.socket(socket.AF_UNIX)
                with suppress(OSError):
                    far.connect(str(self._server.base / SOCKET))
                self._lines.append(_Line(self, near, far, first=not self._lines))

    def close(self):
        """Close the listener and cut all connections."""
        self._listener.close()
        for line in self._lines:
            line.close()


class _Line:
    """One forwarded connection."""

    def __init__(self, wire, near, far, *, first):
        self._wire, self._near, self._far, self._first = wire, near, far, first
        self._loses_answer = False
        for work in (self._pass_on, self._pass_back):
            threading.Thread(target=work, daemon=True).start()

    def _pass_on(self):
        with suppress(OSError):
            while word := self._near.recv(1 << 20):
                if self._is_cut(word):
                    self._wire._cut_at = 0
                    if self._wire._loses == SILENCE:
                        self._near.close()
                        return
                    if self._wire._loses == REQUEST:
                        break
                    self._loses_answer = True
                self._far.sendall(word)
        self.close()

    def _is_cut(self, word):
        if not self._first:
            return False
        self._wire.said.append(word)
        at = self._wire._cut_at
        return at in word if isinstance(at, bytes) else at == self._wire.words

    def _pass_back(self):
        with suppress(OSError):
            while answer := self._far.recv(1 << 20):
                if self._loses_answer:
                    break
                self._near.sendall(answer)
        self.close()

    def crash(self):
        with suppress(OSError):
            self._near.sendall(WARNING)
        self.close()

    def close(self):
        for end in (self._near, self._far):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


@contextmanager
def wire(server, folder):
    """Open a wire for the duration of the block."""
    laid = Wire(server, folder)
    try:
        yield laid
    finally:
        laid.close()

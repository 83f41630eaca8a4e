"""Capture the printed and logged lines of a step as frames of its output.

The lines are also printed and logged as usual. While such a step runs, ``sys.stdout`` and
``sys.stderr`` are replaced by streams that find the printing step in a context variable, so lines
of concurrent steps do not mix.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from holdfast.core.step_info import StepInfo
from holdfast.core.streams.model import FrameKind
from holdfast.core.streams.rules import LARGEST
from holdfast.core.text import readable
from holdfast.errors import HoldfastError

LONGEST = LARGEST // 8
"""The number of characters after which an unfinished line becomes a frame."""

_lock = threading.Lock()
"""Guards ``_active`` and the replacement of the process-wide streams and log handlers."""
_active = 0
"""How many captures are open in this process."""


class _Page:
    """The printed lines of one step: each complete line becomes a frame."""

    def __init__(self, info: StepInfo) -> None:
        self.info = info
        self._unfinished = {FrameKind.STDOUT: "", FrameKind.STDERR: ""}

    def write(self, kind: FrameKind, text: str) -> None:
        *lines, unfinished = (self._unfinished[kind] + text).split("\n")
        if len(unfinished) > LONGEST:
            lines.append(unfinished)
            unfinished = ""
        self._unfinished[kind] = unfinished
        for line in lines:
            self.put(kind, line)

    def put(self, kind: FrameKind, value: Any, name: str | None = None) -> None:
        """Emit a value as one frame, a text as frames of at most LONGEST characters."""
        pieces = [value]
        if isinstance(value, str):
            text = readable(value)
            pieces = [text[at : at + LONGEST] for at in range(0, len(text), LONGEST)] or [""]
        for piece in pieces:
            try:
                self.info.sink.put(self.info.step, self.info.attempt, kind.value, piece, name=name)
            except HoldfastError:
                # print() must not fail because the lease is lost or the attempt has ended.
                return

    def end(self) -> None:
        for kind, unfinished in self._unfinished.items():
            if unfinished:
                self.put(kind, unfinished)


_page: ContextVar[_Page | None] = ContextVar("holdfast_page", default=None)


class _CapturedStream:
    """A replacement of stdout or stderr that also writes to the page of the printing step."""

    def __init__(self, real: Any, kind: FrameKind) -> None:
        self.real = real
        self._kind = kind

    def write(self, text: str) -> int:
        page = _page.get()
        if page is not None:
            page.write(self._kind, text)
        written: int = self.real.write(text)
        return written

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


class _Handler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        page = _page.get()
        if page is not None and not record.name.startswith("holdfast"):
            try:
                fields = {
                    "level": record.levelname,
                    "logger": record.name,
                    "message": record.getMessage(),
                }
                if record.exc_info:
                    traceback = logging.Formatter().formatException(record.exc_info)
                    fields["error"] = traceback[-LONGEST:]
            except Exception:
                self.handleError(record)
                return
            fields["message"] = fields["message"][:LONGEST]
            page.put(
                FrameKind.EVENT, {field: readable(text) for field, text in fields.items()}, "log"
            )


_handler = _Handler()


@contextmanager
def capturing(info: StepInfo) -> Iterator[None]:
    """Capture the lines that are printed and logged in this block as output of a step."""
    page = _Page(info)
    token = _page.set(page)
    _install()
    try:
        yield
    finally:
        _page.reset(token)
        page.end()
        _remove()


def _install() -> None:
    global _active
    with _lock:
        _active += 1
        if not isinstance(sys.stdout, _CapturedStream):
            sys.stdout = _CapturedStream(sys.stdout, FrameKind.STDOUT)
        if not isinstance(sys.stderr, _CapturedStream):
            sys.stderr = _CapturedStream(sys.stderr, FrameKind.STDERR)
        if _handler not in logging.getLogger().handlers:
            logging.getLogger().addHandler(_handler)


def _remove() -> None:
    global _active
    with _lock:
        _active -= 1
        if _active > 0:
            return
        if isinstance(sys.stdout, _CapturedStream):
            sys.stdout = sys.stdout.real
        if isinstance(sys.stderr, _CapturedStream):
            sys.stderr = sys.stderr.real
        logging.getLogger().removeHandler(_handler)

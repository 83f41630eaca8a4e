"""What a step prints and logs, as part of its output. It is printed and logged as ever, too.

While such a step runs, ``sys.stdout`` and ``sys.stderr`` are replaced by ones that know which step
is printing; lines of one step do not mix with those of another.
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
"""Characters after which a line that does not end is a frame nevertheless."""

_guard = threading.Lock()
_active = 0


class _Page:
    """What one step prints: whole lines become frames."""

    def __init__(self, info: StepInfo) -> None:
        self.info = info
        self._begun = {FrameKind.STDOUT: "", FrameKind.STDERR: ""}

    def write(self, kind: FrameKind, text: str) -> None:
        *lines, self._begun[kind] = (self._begun[kind] + text).split("\n")
        if len(self._begun[kind]) > LONGEST:
            lines, self._begun[kind] = [*lines, self._begun[kind]], ""
        for line in lines:
            self.put(kind, line)

    def put(self, kind: FrameKind, value: Any, name: str | None = None) -> None:
        if isinstance(value, str):
            value = readable(value)
        pieces = (
            [value[at : at + LONGEST] for at in range(0, len(value), LONGEST)] or [""]
            if isinstance(value, str)
            else [value]
        )
        for piece in pieces:
            try:
                self.info.sink.put(self.info.step, self.info.attempt, kind.value, piece, name=name)
            except (
                HoldfastError
            ):  # to print must not fail: the run is not ours any more, or the attempt has ended
                return

    def end(self) -> None:
        for kind, rest in self._begun.items():
            if rest:
                self.put(kind, rest)


_page: ContextVar[_Page | None] = ContextVar("holdfast_page", default=None)


class _CapturedStream:
    """A stream that passes on what is printed, and lets the step have it that is printing."""

    def __init__(self, real: Any, kind: FrameKind) -> None:
        self.real, self._kind = real, kind

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
                told = {
                    "level": record.levelname,
                    "logger": record.name,
                    "message": record.getMessage(),
                }
                if record.exc_info:
                    told["error"] = logging.Formatter().formatException(record.exc_info)[-LONGEST:]
            except Exception:
                self.handleError(record)
                return
            told["message"] = told["message"][:LONGEST]
            page.put(
                FrameKind.EVENT, {field: readable(text) for field, text in told.items()}, "log"
            )


_handler = _Handler()


@contextmanager
def capturing(info: StepInfo) -> Iterator[None]:
    """Let what is printed and logged in here be the output of a step."""
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
    with _guard:
        _active += 1
        if not isinstance(sys.stdout, _CapturedStream):
            sys.stdout = _CapturedStream(sys.stdout, FrameKind.STDOUT)
        if not isinstance(sys.stderr, _CapturedStream):
            sys.stderr = _CapturedStream(sys.stderr, FrameKind.STDERR)
        if _handler not in logging.getLogger().handlers:
            logging.getLogger().addHandler(_handler)


def _remove() -> None:
    global _active
    with _guard:
        _active -= 1
        if _active > 0:
            return
        if isinstance(sys.stdout, _CapturedStream):
            sys.stdout = sys.stdout.real
        if isinstance(sys.stderr, _CapturedStream):
            sys.stderr = sys.stderr.real
        logging.getLogger().removeHandler(_handler)

"""Exceptions that would end a program, raised by code of the user: they fail that code, and nothing
around it.

``sys.exit()`` in a step, a ``KeyboardInterrupt`` in a workflow, a ``CancelledError`` from an inner
task that was cancelled: none of them is an ``Exception``, so each would pass through the engine and
end its thread, or be taken for a request of the engine.
"""

from __future__ import annotations


def as_exception(raised: BaseException, what: str) -> Exception:
    """Return what is recorded when *what* ("step", "workflow") has raised *raised*: an Exception as
    it is, anything else as a RuntimeError that names it."""
    if isinstance(raised, Exception):
        return raised
    text = str(raised)
    error = RuntimeError(
        f"the {what} raised {type(raised).__name__}" + (f": {text}" if text else "")
    )
    error.__cause__ = raised
    return error

"""Convert a BaseException of user code to an Exception, so that it fails only that code.

``sys.exit()`` in a step, a ``KeyboardInterrupt`` in a workflow, a ``CancelledError`` from an inner
task that was cancelled: none of them is an ``Exception``, so each would pass through the engine and
end its thread, or be taken for a cancellation by the engine.
"""

from __future__ import annotations


def as_exception(raised: BaseException, source: str) -> Exception:
    """Return the exception to record when *source* ("step", "workflow") raised *raised*.

    An Exception is returned unchanged, any other BaseException as a RuntimeError that names it."""
    if isinstance(raised, Exception):
        return raised
    text = str(raised)
    message = f"the {source} raised {type(raised).__name__}"
    error = RuntimeError(f"{message}: {text}" if text else message)
    error.__cause__ = raised
    return error

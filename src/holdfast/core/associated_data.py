"""Build the associated data that binds an encrypted value to its place (AEAD).

A value that is moved to the place of another run, column or step fails authentication when it is
opened.

Invariants:
- A place consists of names that stay the same when a run is replayed, exported or copied to another
  database.
- A value that moves to another run (a fork, an input made of results) is opened and encrypted
  again.
- No name contains a zero byte, so the parts cannot be confused.
"""

from __future__ import annotations

from holdfast.core.messages import DELIVERY
from holdfast.core.waits import Signal

Source = tuple[str, int, int]
"""The identity of a stream within its run: the step, the attempt and the generation."""


def run_input(run_id: str) -> bytes:
    """Return the place of the input of a run."""
    return _place("input", run_id)


def run_result(run_id: str) -> bytes:
    """Return the place of the result of a run."""
    return _place("result", run_id)


def error(run_id: str, step: str | None = None) -> bytes:
    """Return the place of the error of a step or, without *step*, of a run.

    The event that ends a run shares this place: it stores the same bytes as the run."""
    return _place("error", run_id, step)


def event(run_id: str, kind: str, step: str | None) -> bytes:
    """Return the place of the data of an event."""
    return _place("event", run_id, kind, step)


def signal(
    run_id: str, name: str | None, wait_id: str | None = None, step: str | None = None
) -> bytes:
    """Return the place of a signal.

    A signal to an issued wait is bound to the wait: its sender knows the wait but not the run."""
    if wait_id is not None:
        return _place("signal to wait", wait_id)
    return _place("signal", run_id, name, step)


def message(message_id: str) -> bytes:
    """Return the place of a message, which does not know its receivers."""
    return _place("message", message_id)


def of_signal(run_id: str, stored: Signal) -> bytes:
    """Return the place of a stored signal."""
    if stored.step is not None and stored.name == DELIVERY:
        return message(stored.source or "")
    return signal(run_id, stored.name, stored.wait_id, stored.step)


def member_input(run_id: str) -> bytes:
    """Return the place of the input of a graph member that has no run yet.

    This input still contains placeholders for the results of other members."""
    return _place("member", run_id)


def frame(run_id: str, stream: Source, at: int) -> bytes:
    """Return the place of the data of a frame."""
    return _output("frame", run_id, stream, at)


def nulls(run_id: str, stream: Source, at: int) -> bytes:
    """Return the place of the paths at which null is a value of a frame."""
    return _output("nulls", run_id, stream, at)


def summary(run_id: str, stream: Source) -> bytes:
    """Return the place of the summary of a stream."""
    return _output("summary", run_id, stream)


def progress(run_id: str) -> bytes:
    """Return the place of a run's progress message."""
    return _place("progress", run_id)


def signing_key(kid: str) -> bytes:
    """Return the place of the secret of a key that signs tokens."""
    return _place("signing key", kid)


def webhook_secret(name: str) -> bytes:
    """Return the place of the secret that signs the deliveries of a webhook."""
    return _place("webhook secret", name)


def operation_payload(operation_id: str) -> bytes:
    """Return the place of the payload that a bulk operation sends to its runs."""
    return _place("operation", operation_id)


def _output(column: str, run_id: str, stream: Source, *more: int) -> bytes:
    step, attempt, generation = stream
    return _place(column, run_id, step, *map(str, (attempt, generation, *more)))


def _place(*parts: str | None) -> bytes:
    return "\0".join(part or "" for part in parts).encode(errors="surrogatepass")

"""Workflows that ask people, and what their tests ask of them."""

from __future__ import annotations

from holdfast import Engine, gate, step, workflow
from holdfast.core.status import FINAL
from holdfast.gates import Answer
from tests.store.helpers import wait_until

calls: list[str] = []


@step
async def note(what: str) -> str:
    calls.append(what)
    return what


@workflow
async def ask(options: dict | None = None, prompt: str = "Ship it?") -> dict:
    return answer_fields(await gate(prompt, **(options or {})))


def answer_fields(answer: Answer) -> dict:
    return {
        "answer": answer,
        "choice": answer.choice,
        "by": answer.by,
        "feedback": answer.feedback,
        "status": answer.status,
        "selections": answer.selections,
        "value": answer.value,
        "approved": bool(answer),
        "expired": answer.expired,
        "people": [[decision.by, decision.choice] for decision in answer.decisions],
    }


def opened(engine: Engine, run, count: int = 1):
    """Wait until a run has opened gates, and return them, or the one."""
    found = wait_until(lambda: len(found := engine.gates.list(run=run.id)) == count and found)
    return found[0] if count == 1 else found


def waits(engine, run):
    wait_until(lambda: run.record.waits)


def later(clock, found):
    """Wait until something is true, in time that goes on by itself: a worker may have looked just
    before the clock was moved."""

    def look():
        clock.advance("1ms")
        return found()

    return wait_until(look)


def ended(clock, run):
    later(clock, lambda: run.status in FINAL)
    return run.result(timeout=60)

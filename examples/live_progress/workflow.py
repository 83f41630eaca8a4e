"""An agent that shows its answer word by word, and a ledger that is filled from the events of all
runs, each exactly once.

Run it: ``python examples/live_progress/workflow.py``
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from holdfast import Engine, step, workflow
from holdfast.streams import emit, progress, stream

ANSWERS = {"where is it dry?": ["It", "is", "dry", "in", "Malmo", "."]}


def model(question: str) -> Iterator[str]:
    """Stands for a language model: it answers word by word."""
    yield from ANSWERS.get(question, ["I", "do", "not", "know", "."])


@step(retries=2)
def answer(question: str) -> str:
    words: list[str] = []
    summary = stream("summary")
    for word in model(question):
        emit(word, name="token")
        words.append(word)
        summary.patch({"words": len(words), "text": " ".join(words)})
    return " ".join(words)


@workflow(name="live_answer")
async def live_answer(question: str) -> str:
    progress(0, "asking the model")
    found = await answer.aio(question)
    progress(100, "answered")
    return found


def bill(events, connection) -> None:
    """Write one line per answered question, in the transaction in which the cursor moves."""
    connection.execute("CREATE TABLE IF NOT EXISTS bill (run TEXT PRIMARY KEY)")
    for event in events:
        connection.execute("INSERT INTO bill VALUES (?)", (event.run_id,))


def main(database: str = "live.db") -> None:
    with Engine(database) as engine:
        run = engine.start(live_answer, "where is it dry?")
        for frame in engine.streams.tail(run.id):
            if frame.name == "token":
                print(frame.value, end=" ", flush=True)
        print()
        print(engine.streams.progress(run.id).message, engine.streams.summary(run.id)["words"])
        billed = engine.events.consume("billing", bill, workflow="live_answer", kind="completions")
        print(billed, "to pay for")


if __name__ == "__main__":
    main(*sys.argv[1:])

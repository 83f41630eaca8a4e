"""A process that starts runs which wait for messages, or sends the messages, until it is killed."""

from __future__ import annotations

import sys

from holdfast import Engine


def receive(engine: Engine, count: int) -> None:
    """Start the runs; a run that was started before is found by its id."""
    for number in range(count):
        engine.start("victim_order", {"number": number}, id=f"order-{number}")


def send(engine: Engine, count: int) -> None:
    """Send a message to each run; a message that was sent before is a duplicate."""
    for number in range(count):
        engine.models.message(
            "victim paid", {"amount": number}, key=str(number), id=f"m{number}", ttl="1h"
        )


def say(word: str) -> None:
    sys.stdout.write(word + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    url, role, count = sys.argv[1:]
    with Engine(url, work=role == "receive") as engine:
        say("ready")
        sys.stdin.readline()
        {"receive": receive, "send": send}[role](engine, int(count))
        say("done")
        sys.stdin.readline()  # until it is killed, or its parent has ended

"""A process that works on models and operates them at random: the victim of a test.

Arguments: the database, the seed, and the seconds for which it operates at least.
"""

from __future__ import annotations

import itertools
import random
import sys
import time
from contextlib import suppress

from holdfast import Engine, bpmn
from holdfast.errors import UsageError
from tests.bpmn.models import boundary, flows, process_of, timer

NAME = "random_operators"
LEAST = 60
"""The number of things that a process does at least, however slow the machine is."""
MESSAGE = '<message id="m" name="paid"/>'
KEY = '<extensionElements><zeebe:subscription correlationKey="=key"/></extensionElements>'


def version(name: str) -> bytes:
    """Return a version of the process, with this id for one of its tasks."""
    body = (
        '<startEvent id="s"/><parallelGateway id="fork"/><parallelGateway id="join"/>'
        f'<userTask id="a"/><userTask id="{name}"/><serviceTask id="w"/>'
        '<receiveTask id="r" messageRef="m"/>'
        + boundary("late", "a", timer("timeDuration", "PT1H"), interrupting=False)
        + flows("s fork", "fork a", "fork w", "fork r", f"w {name}", "a join", f"{name} join")
        + '<sequenceFlow id="last" sourceRef="r" targetRef="join"/>'
    )
    more = MESSAGE.replace("/>", f">{KEY}</message>")
    return process_of(body, NAME, more=more)


@bpmn.handler("w")
def work() -> dict:
    return {"worked": True}


class Operator:
    """Does one random thing after another."""

    def __init__(self, engine: Engine, choices: random.Random) -> None:
        self._engine = engine
        self._random = choices
        self._number = 0

    def run_id(self) -> str:
        runs = self._engine.runs(workflow=NAME, live=True).page(limit=20)
        return self._random.choice(runs).id if runs else "none"

    def start(self) -> None:
        self._engine.start(NAME, {"key": str(self._random.randrange(5))})

    def publish(self) -> None:
        self._number += 1
        key = str(self._random.randrange(5))
        self._engine.models.message("paid", {"n": self._number}, key=key, ttl="1h")

    def complete(self) -> None:
        tasks = self._engine.models.tasks(process=NAME)
        if tasks:
            self._engine.models.complete(self._random.choice(tasks).id, {"done": True}, by="ann")

    def modify(self) -> None:
        run_id = self.run_id()
        tokens = [
            token for token in self._engine.models.tokens(run_id) if token.waits_for == "user"
        ]
        if tokens:
            token = self._random.choice(tokens)
            self._engine.models.modify(run_id, bpmn.move(token.id, token.element), by="ann")

    def migrate(self) -> None:
        to = self._random.choice((1, 2))
        names = {"b": "c"} if to == 2 else {"c": "b"}
        self._engine.models.migrate(self.run_id(), to, names, by="ann")

    def suspend(self) -> None:
        run_id = self.run_id()
        self._engine.models.suspend(run_id)
        self._engine.models.resume(run_id)

    def act(self) -> None:
        """Do one thing; another process may have done it before."""
        often = (self.publish, self.complete) * 2
        action = self._random.choice(
            (*often, self.start, self.modify, self.migrate, self.suspend),
        )
        with suppress(UsageError):
            action()


def main(database: str, seed: str, seconds: str) -> None:
    with Engine(database, shutdown_timeout=5) as engine:
        operator = Operator(engine, random.Random(int(seed)))
        end = time.monotonic() + float(seconds)
        for number in itertools.count():
            if number >= LEAST and time.monotonic() >= end:
                break
            operator.act()


if __name__ == "__main__":
    main(*sys.argv[1:])

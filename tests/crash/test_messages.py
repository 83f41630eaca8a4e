"""A message and its receiver in two processes that are killed, and many workers for one run."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from holdfast import Engine
from tests.bpmn.models import flows, process_of
from tests.engine.waiting import until

VICTIM = Path(__file__).with_name("message_victim.py")
SOURCES = str(Path(__file__).parents[2] / "src")
COUNT = 30
MODEL = process_of(
    '<startEvent id="s"/><receiveTask id="r" messageRef="m"/>' + flows("s r"),
    "victim_order",
    '<message id="m" name="victim paid"><extensionElements>'
    '<zeebe:subscription correlationKey="=number"/></extensionElements></message>',
)


@pytest.fixture(params=["sqlite", "postgres"])
def database(request, tmp_path):
    if request.param == "sqlite":
        yield str(tmp_path / "test.db")
        return
    with request.getfixturevalue("postgres_server").lend() as url:
        yield url


@pytest.fixture
def start(database):
    """Start a process; it is killed at the end of the test."""
    with ExitStack() as stack:

        def begin(role):
            victim = Victim(database, role)
            stack.callback(victim.kill)
            return victim

        yield begin


class Victim:
    """A process that is ready, and begins when it is told to."""

    def __init__(self, database, role):
        self.process = subprocess.Popen(
            [sys.executable, str(VICTIM), database, role, str(COUNT)],
            env={**os.environ, "PYTHONPATH": SOURCES},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout.readline() == "ready\n"

    def begin(self):
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def finish(self):
        assert self.process.stdout.readline() == "done\n"

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()


def test_messages_and_their_receivers_meet_though_both_processes_are_killed(database, start):
    with Engine(database, work=False) as client:
        client.models.deploy(MODEL)
        victims = [start(role) for role in ("receive", "send")]
        for victim in victims:
            victim.begin()
        until(lambda: client.runs().count() >= 5)
        for victim in victims:
            victim.kill()
        victims = [start(role) for role in ("send", "receive")]
        for victim in victims:
            victim.begin()
        for victim in victims:
            victim.finish()
        results = [client.run(f"order-{number}").result(timeout=60) for number in range(COUNT)]
        for victim in victims:
            victim.kill()
        assert results == [{"number": number, "amount": number} for number in range(COUNT)]
        sent = [client.models.message("victim paid", id=f"m{n}", ttl="1h") for n in range(COUNT)]
        assert {(each.effect, each.run_id) for each in sent} == {
            ("duplicate", f"order-{number}") for number in range(COUNT)
        }
        assert client.database.check() == []


RACED = process_of(
    '<startEvent id="s"/><parallelGateway id="fork"/><parallelGateway id="join"/>'
    '<userTask id="u"/><receiveTask id="r" messageRef="m"/><scriptTask id="add"'
    ' scriptFormat="feel" camunda:resultVariable="joined"><script>= joined + 1</script>'
    "</scriptTask>" + flows("s fork", "fork u", "fork r", "u join", "r join", "join add"),
    "raced",
    '<message id="m" name="raced paid"/>',
)


def test_twenty_workers_race_for_one_run_and_one_message(database):
    """Each of them completes the task and sends the message: one of each counts."""
    with ExitStack() as stack:
        engines = [
            stack.enter_context(Engine(database, shutdown_timeout=1, poll="50ms"))
            for _ in range(20)
        ]
        first = engines[0]
        first.models.deploy(RACED)
        run = first.start("raced", {"joined": 0})
        run.wait_until("waiting", timeout=60)
        (task,) = first.models.tasks(run=run.id)
        outcomes: list[str] = []

        def race(number: int) -> None:
            engine = engines[number]
            try:
                engine.models.complete(task.id, {"by": number}, by=f"p{number}")
                outcomes.append("completed")
            except Exception as error:
                outcomes.append(type(error).__name__)
            sent = engine.models.message("raced paid", {"paid": True}, id="only", ttl="1h")
            outcomes.append(sent.effect)

        threads = [threading.Thread(target=race, args=[number]) for number in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)

        result = run.result(timeout=60)
        assert (result["joined"], result["paid"]) == (1, True)
        assert sorted(outcomes) == sorted(
            ["completed", *["TaskClosed"] * 19, "received", *["duplicate"] * 19]
        )
        assert [event.kind for event in run.history()].count("message_received") == 1
        assert first.database.check() == []

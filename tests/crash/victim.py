"""A worker process for tests that kill it: ``python victim.py DATABASE FOLDER {"session_ttl": "1s",
...}``.

What its steps do to the world is a line in a file, written before the step returns. It works until
it is killed; its steps number ``VICTIM_STEPS`` and later do not return.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys
import threading
from pathlib import Path

from holdfast import Engine, info, sleep, step, wait_signal, workflow
from holdfast.budgets import reserve, spend
from holdfast.streams import emit

folder = Path(os.environ.get("VICTIM_FOLDER", "."))
most_steps = float(os.environ.get("VICTIM_STEPS", "inf"))
numbers = itertools.count(1)


def effects() -> Path:
    return folder / "effects"


def leave_a_line(*words: object) -> None:
    line = " ".join(str(word) for word in words) + "\n"
    file = os.open(effects(), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, line.encode())
    finally:
        os.close(file)


@step
async def work(number: int) -> int:
    leave_a_line(info().run_id, info().step, os.getpid())
    if next(numbers) >= most_steps:
        await asyncio.Event().wait()
    await sleep("2ms")
    return number


@step
def work_in_a_thread(number: int) -> int:
    leave_a_line(info().run_id, info().step, os.getpid())
    if next(numbers) >= most_steps:
        threading.Event().wait()
    return number


@workflow
async def five_steps(start: int) -> int:
    return sum([await work(start + place) for place in range(5)])


@workflow
def five_steps_blocking(start: int) -> int:
    return sum(work_in_a_thread(start + place) for place in range(5))


@workflow
def blocked_between_steps(name: str) -> int:
    """Take a step, wait in plain code until the test says so, and take the next."""
    pause = threading.Event()
    work_in_a_thread(1)
    leave_a_line("blocked", name, os.getpid())
    while not (folder / name).exists():
        pause.wait(0.005)
    leave_a_line("released", name, os.getpid())
    return work_in_a_thread(os.getpid())


@step
async def wait_for_file(name: str) -> int:
    """Wait until the test says so; return who waited."""
    leave_a_line(info().run_id, info().step, os.getpid())
    while not (folder / name).exists():
        await sleep("10ms")
    return os.getpid()


@step
async def meddle(how: str, name: str) -> int:
    """Read or delete the file by which others see that this process lives, and wait until the test
    says so."""
    file = folder / "test.db-sessions"
    if how == "read":
        file.read_bytes()
    else:
        file.unlink()
    return await wait_for_file(name)


@workflow
async def meddling(how: str, name: str) -> int:
    return await meddle(how, name)


@workflow
async def patient(name: str) -> int:
    return await wait_for_file(name)


@step
async def hold_tokens(name: str) -> int:
    """Set tokens aside and wait until the test says so."""
    async with reserve(tokens=60):
        leave_a_line(info().run_id, info().step, os.getpid())
        while not (folder / name).exists():
            await sleep("10ms")
        spend(tokens=5)
    return os.getpid()


@workflow(lane="narrow")
async def holder(name: str) -> int:
    return await hold_tokens(name)


@step
async def talk(name: str) -> int:
    """Talk until the test says so."""
    said = 0
    while not (folder / name).exists():
        emit({"said": said, "pid": os.getpid()})
        said += 1
        await sleep("5ms")
    return os.getpid()


@workflow
async def talking(name: str) -> int:
    emit("begins")
    return await talk(name)


@workflow
async def listening() -> str:
    return await wait_signal("word", type=str)


@step
async def kill_the_worker() -> None:
    leave_a_line(info().run_id, info().step, os.getpid())
    os._exit(13)


@workflow
async def poison() -> None:
    await kill_the_worker()


def main() -> None:
    database, options = sys.argv[1], json.loads(sys.argv[2])
    with Engine(database, **options):
        print("ready", flush=True)  # noqa: T201
        threading.Event().wait()


if __name__ == "__main__":
    main()

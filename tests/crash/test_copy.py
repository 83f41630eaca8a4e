"""A copy that is killed at every commit: at no instant can both databases be worked on, and the
same command ends it."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing

import pytest

from holdfast import Engine, step, workflow
from holdfast.connect.open_store import open_store
from holdfast.errors import StoreHalfCopied, StoreSealed
from holdfast.service.copy import copy_store

COPY = """
import os, signal, sys
from contextlib import closing
from holdfast.connect.open_store import open_store
from holdfast.service import copy as moving
from holdfast.store.runs.copy_operations import SealStore

source, target, number, moment = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
write, compare, count = moving._do, moving.take_inventory, 0

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def counted(store, op):
    global count
    count += 1
    if count == number and moment == "before":
        die()
    answer = write(store, op)
    print(type(op).__name__, flush=True)
    if count == number and moment == "after":
        die()
    return answer

def compared(store, progress):
    inventory = compare(store, progress)
    if moment == "while both are compared" and store.url != opened.url:
        die()
    return inventory

moving._do, moving.take_inventory = counted, compared
with closing(open_store(source)) as opened:
    moving.copy_store(opened, lambda: open_store(target, half_copied=True))
"""


@step
async def double(n: int) -> int:
    return n * 2


@workflow(name="crash_move")
async def doubled(n: int) -> int:
    return await double(n)


def copy_and_die(source: str, target: str, number: int, moment: str) -> list[str]:
    """Copy in another process, which is killed at its write of that number; return what it had
    written."""
    command = [sys.executable, "-c", COPY, source, target, str(number), moment]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode in (0, -9), done.stderr
    return done.stdout.split()


def is_usable(url: str) -> bool:
    """Return whether an engine opens the database, finds its run there and can start another
    one."""
    try:
        with closing(Engine(url)) as engine:
            found = [run.id for run in engine.runs()]
            if "moved" in found:
                engine.start(doubled, 2, id="another", delay="1d")
            return "moved" in found
    except (StoreHalfCopied, StoreSealed):
        return False


@pytest.mark.parametrize("kind", ["sqlite to postgres", "postgres to sqlite"])
@pytest.mark.timeout(300)
def test_a_copy_can_be_killed_at_every_write(kind, postgres_server, tmp_path):
    def play(number: int, moment: str) -> list[str]:
        with postgres_server.lend() as url:
            file = str(tmp_path / f"{number} {moment}.db")
            source, target = (file, url) if kind == "sqlite to postgres" else (url, file)
            with closing(Engine(source)) as engine:
                engine.start(doubled, 4, id="moved")
            written = copy_and_die(source, target, number, moment)

            sealed = "SealStore" in written
            with closing(open_store(source, sealed=True)) as store:
                assert (store.installation.seal() is not None) == sealed
            assert is_usable(target) == ("EndCopy" in written)
            assert is_usable(source) == (not sealed)
            if "EndCopy" not in written:
                with closing(open_store(source, sealed=True)) as store:
                    assert copy_store(store, lambda: open_store(target, half_copied=True)).same
            assert is_usable(target) and not is_usable(source)
            with Engine(target, workflows=[doubled]) as engine:
                assert engine.run("moved").result(timeout=20) == 8
            return written

    writes = play(0, "never")
    assert writes[-2:] == ["SealStore", "EndCopy"]
    play(1, "before")
    for number in range(1, len(writes)):
        play(number, "after")
    assert "SealStore" not in play(0, "while both are compared")

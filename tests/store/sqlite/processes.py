"""Functions that tests of the SQLite store run in other processes: ``python processes.py NAME PATH
DRIVER``.

Each writes a line of JSON when it is ready, and continues when it reads a line.
"""

import json
import os
import socket
import sys
import threading

from holdfast.core.events import Event, EventKind
from holdfast.core.runs import NewRun, Route
from holdfast.core.sessions import Session
from holdfast.core.status import Status
from holdfast.errors import EngineClosed
from holdfast.store.runs.list_query import RunFilter
from holdfast.store.runs.operations import Advance, EndSession, OpenSession, StartRuns
from holdfast.store.sqlite import SqliteDatabase, liveness
from holdfast.store.store import Store

ENOUGH = 50
"""The number of runs that each process must finish beside the others: fewer is starvation."""

ROUTE = Route("default", "greet", "1", "default")


def main() -> None:
    name, path, driver, *arguments = sys.argv[1:]
    globals()[name](Store(SqliteDatabase(path, driver=driver)), *arguments)


def say(what: object) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def open_session(store: SqliteDatabase, slot: int = -1) -> Session:
    now = store.now()
    session = Session(
        id=f"s{os.getpid()}",
        worker="w",
        host=socket.gethostname(),
        pid=os.getpid(),
        slot=slot,
        started_at=now,
        beat_at=now,
        expires_at=now + 10**9,
        serves=b"{}",
    )
    store.apply([OpenSession(session)])
    return session


def hammer(store: SqliteDatabase) -> None:
    """Start, advance and finish runs until a line is read.

    Write a line when ``ENOUGH`` runs are done, and at the end the number of runs.
    """
    session = open_session(store)
    say("ready")
    sys.stdin.readline()
    done, stop = 0, threading.Event()
    threading.Thread(target=lambda: sys.stdin.readline() and stop.set(), daemon=True).start()
    while not stop.is_set():
        run_id = f"{session.id}-{done:06}"
        for op in (
            StartRuns([NewRun(id=run_id, route=ROUTE, input=b"[]", session_id=session.id)]),
            Advance(
                run_id=run_id,
                generation=1,
                events=[Event(EventKind.STEP_COMPLETED, "a", b"1", seq=1)],
            ),
            Advance(
                run_id=run_id,
                generation=1,
                events=[Event(EventKind.RUN_COMPLETED, seq=2)],
                status=Status.COMPLETED,
                result=b"1",
            ),
        ):
            answer = store.apply([op])[0]
            assert not isinstance(answer, BaseException), answer
        assert store.runs.get(run_id).status is Status.COMPLETED
        done += 1
        if done == ENOUGH:
            say(done)
    store.apply([EndSession(session.id, crashed=False)])
    say(done)
    store.close()


def live(store: SqliteDatabase) -> None:
    """Hold a slot and a run until a line is read or the process is killed."""
    session = open_session(store, store.liveness.acquire())
    store.apply([StartRuns([NewRun(id="r1", route=ROUTE, input=b"[]", session_id=session.id)])])
    say(session.id)
    sys.stdin.readline()


def lose(store: SqliteDatabase, how: str) -> None:
    """Take a slot and disturb its lock file as *how* says.

    When a line is read, restore the slot and write whether that succeeded; end at the next line.
    """
    slot = store.liveness.acquire()
    open_session(store, slot)
    path = store.database.path + "-sessions"
    {
        "read": _read,
        "delete": os.remove,
        "replace": _replace,
        "close": _close,
        "fork": _leave_a_child,
    }[how](path)
    say("lost")
    sys.stdin.readline()
    say(store.liveness.keep(slot))
    sys.stdin.readline()


def lose_posix(store: SqliteDatabase, how: str) -> None:
    """Do the same as ``lose`` with POSIX locks, as on systems without other locks."""
    liveness._SET_LOCK = None
    lose(store, how)


def _read(path: str) -> None:
    with open(path, "rb") as file:
        file.read()


def _replace(path: str) -> None:
    os.rename(path, path + ".old")
    with open(path, "wb"):
        pass


def _close(path: str) -> None:
    """Close all descriptors of the file, as a program does when it becomes a daemon."""
    for number in os.listdir("/proc/self/fd"):
        if os.path.realpath(f"/proc/self/fd/{number}") == os.path.realpath(path):
            os.close(int(number))


def _leave_a_child(path: str) -> None:
    """Fork a child that outlives this process, until the test closes its standard input."""
    ready, tell = os.pipe()
    if os.fork() == 0:
        os.write(tell, b"!")
        for number in (1, 2, ready, tell):
            os.close(number)
        os.read(0, 1)
        os._exit(0)
    os.read(ready, 1)


def fork(store: SqliteDatabase) -> None:
    """Fork with the store open; the child finds it closed and opens its own."""
    store.apply([StartRuns([NewRun(id="before", route=ROUTE, input=b"[]")])])
    assert store.runs.get("before") is not None
    child = os.fork()
    if child == 0:
        try:
            _in_the_child(store)
        except BaseException as error:
            say(repr(error))
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    store.apply([StartRuns([NewRun(id="after", route=ROUTE, input=b"[]")])])
    say([status, sorted(run.id for run in store.runs.find(RunFilter())), store.check()])
    store.close()


def _in_the_child(store: SqliteDatabase) -> None:
    for use in (lambda: store.runs.get("before"), lambda: store.apply([]), store.changed):
        try:
            use()
            raise AssertionError("the store of the parent was used in the child")
        except EngineClosed as refused:
            assert "forked" in str(refused)
    store.close()
    own = Store(SqliteDatabase(store.database.path, driver=sys.argv[3]))
    own.apply([StartRuns([NewRun(id="child", route=ROUTE, input=b"[]")])])
    own.close()


if __name__ == "__main__":
    main()

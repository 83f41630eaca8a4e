"""Helpers for tests of the SQLite store: connections of both drivers, runs, sessions, threads, and
processes that share a file."""

import json
import os
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing, contextmanager
from pathlib import Path

import apsw

from holdfast.core.runs import NewRun, Route
from holdfast.core.sessions import Session
from holdfast.store import database as store_database
from holdfast.store.runs.operations import OpenSession, StartRuns

ROUTE = Route("default", "greet", "1", "default")
DRIVERS = ("sqlite3", "apsw")


def connect(path, driver):
    return closing(sqlite3.connect(path) if driver == "sqlite3" else apsw.Connection(str(path)))


@contextmanager
def transaction(path, driver):
    with connect(path, driver) as connection, connection:
        yield connection


def new(run_id="r1", **options):
    return NewRun(**{"id": run_id, "route": ROUTE, "input": b"[]", **options})


def start(store, run_id="r1", **options):
    return store.apply([StartRuns([new(run_id, **options)])])[0][0]


def in_threads(work, count):
    """Run *work* in several threads at once; raise the error of any of them."""
    failed = []

    def guarded():
        try:
            work()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=guarded) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


def open_session(store, session_id="s1", slot=-1):
    now = store.now()
    session = Session(
        id=session_id,
        worker="w",
        host="h",
        pid=1,
        slot=slot,
        started_at=now,
        beat_at=now,
        expires_at=now + 10**9,
        serves=b"{}",
    )
    store.apply([OpenSession(session)])
    return session_id


@contextmanager
def processes(name, path, driver, count, *arguments, waits=True):
    """Run a function of processes.py in *count* processes; ``said`` is the first line of each."""
    script = str(Path(__file__).with_name("processes.py"))
    command = [sys.executable, "-W", "error", script, name, str(path), driver, *arguments]
    source = str(Path(store_database.__file__).parents[2])
    started = [
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": source},
        )
        for _ in range(count)
    ]
    try:
        for process in started:
            line = process.stdout.readline()
            assert line, process.stderr.read()
            process.said = json.loads(line)
        yield started
    finally:
        for process in started:
            process.kill()
            process.communicate()


def tell_all(many):
    """Send a line to all processes, and return the next line of each."""
    for process in many:
        process.stdin.write("\n")
        process.stdin.flush()
    answers = []
    for process in many:
        line = process.stdout.readline()
        assert line, process.stderr.read()
        answers.append(json.loads(line))
    return answers

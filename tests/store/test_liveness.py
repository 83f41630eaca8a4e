"""A live process is never taken for dead, whatever happens to the file of its lock; a dead one is
noticed at once."""

from __future__ import annotations

import json
import os
import signal

import pytest

from holdfast.store.sqlite import SqliteDatabase, liveness
from holdfast.store.store import Store
from tests.store.sqlite.helpers import processes

pytestmark = pytest.mark.skipif(
    not os.path.isdir("/proc/self/fd"), reason="the system does not tell what is open"
)

LOSSES = ("read", "delete", "replace", "close")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "test.db"


@pytest.fixture
def store(path):
    store = Store(SqliteDatabase(path, driver="sqlite3"))
    yield store
    store.close()


def go_on(process):
    process.stdin.write("\n")
    process.stdin.flush()
    line = process.stdout.readline()
    assert line, process.stderr.read()
    return json.loads(line)


def only_session(store):
    (session,) = store.sessions.all()
    return session


@pytest.mark.parametrize("locks", ["lose", "lose_posix"])
@pytest.mark.parametrize("how", LOSSES)
class TestLostLocks:
    def test_a_live_process_is_not_dead_and_restores_its_lock(self, store, path, how, locks):
        with processes(locks, path, "sqlite3", 1, how) as (process,):
            session = only_session(store)
            assert store.liveness.is_alive(session) is not False

            assert go_on(process) is True

            assert store.liveness.is_alive(session) is True

    def test_a_killed_process_is_dead_at_once(self, store, path, how, locks):
        with processes(locks, path, "sqlite3", 1, how) as (process,):
            process.send_signal(signal.SIGKILL)
            process.wait()

            assert store.liveness.is_alive(only_session(store)) is False


def test_a_zombie_is_dead(store, path):
    with processes("live", path, "sqlite3", 1) as (process,):
        process.send_signal(signal.SIGKILL)
        os.waitid(
            os.P_PID, process.pid, os.WEXITED | os.WNOWAIT
        )  # it is dead, and its parent has not asked

        assert store.liveness.is_alive(only_session(store)) is False


def test_a_forked_child_does_not_keep_the_lock_of_its_parent(store, path):
    with processes("lose", path, "sqlite3", 1, "fork") as (process,):
        session = only_session(store)
        assert store.liveness.is_alive(session) is True

        process.send_signal(signal.SIGKILL)
        process.wait()

        assert store.liveness.is_alive(session) is False


def test_two_engines_of_one_process_keep_their_slots_when_the_file_is_deleted(store, path):
    with processes("live", path, "sqlite3", 1):
        one, two = store.liveness.acquire(), store.liveness.acquire()
        os.remove(f"{path}-sessions")

        assert store.liveness.keep(one) is True

        other = liveness.LivenessLocks(f"{os.path.realpath(path)}-sessions")
        assert [other.is_alive(slot, os.getpid()) for slot in (one, two)] == [True, True]
        store.liveness.release(one)
        assert [other.is_alive(slot, os.getpid()) for slot in (one, two)] == [False, True]
        store.liveness.release(two)


def test_a_folder_that_cannot_be_written_leaves_the_heartbeat(store, path):
    slot = store.liveness.acquire()
    file = f"{path}-sessions"
    os.remove(file)
    os.mkdir(file)

    assert store.liveness.keep(slot) is False
    os.rmdir(file)
    assert store.liveness.keep(slot) is True
    store.liveness.release(slot)


def test_the_sessions_file_is_for_its_owner_alone(store, path):
    slot = store.liveness.acquire()

    assert os.stat(f"{path}-sessions").st_mode & 0o777 == 0o600
    store.liveness.release(slot)

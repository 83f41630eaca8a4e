"""Announce commits to other processes and listen to theirs, in a thread with its own connection.

A notification is only a hint to poll. It is sent after the commit, never as part of it, and at most
every few milliseconds: transactions that contain NOTIFY are committed one after another by the
server. If the connection is direct, it also holds the advisory locks by which other processes see
that this one is alive.
"""

from __future__ import annotations

import logging
import random
import selectors
import socket
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Any

import psycopg

from holdfast.errors import HoldfastError
from holdfast.store.postgres.address import Address
from holdfast.store.postgres.connection import Connection
from holdfast.store.postgres.dialect import CHANNEL
from holdfast.store.postgres.errors import ConnectionLost, TemporarilyUnavailable

log = logging.getLogger("holdfast")

TELL_EVERY = 0.005
"""Minimum number of seconds between two announcements."""

LOOK_EVERY = 1.0
"""Seconds after which a listener polls although it heard nothing: the announcing process may
have died before it could announce."""

POLL_EVERY = 0.075
"""The same for a process that cannot listen."""

SLOWEST = 0.5
"""Maximum number of seconds between two attempts to connect. A process that stays away for
longer is taken for dead by processes that have already reconnected."""

START_PATIENCE = 5.0
FREE_PATIENCE = 1.0
"""Seconds for which callers wait for the thread: to connect at first, and to release a slot at
last."""

SPACE = 0x686F6C64
"""The first half of the key of our advisory locks; the second half is the slot."""

_LOCK = (
    "SELECT pg_try_advisory_lock(CAST(%(space)s AS INTEGER), CAST(%(slot)s AS INTEGER)) AS locked"
)
_UNLOCK = "SELECT pg_advisory_unlock(CAST(%(space)s AS INTEGER), CAST(%(slot)s AS INTEGER))"
_ASYNCHRONOUS_COMMIT = "SET synchronous_commit TO off"
"""NOTIFY is committed, but need not survive a crash: the commit does not wait for the disk."""

_random = random.SystemRandom()


class Notifier:
    """Announces and listens. Its thread is started when it is first needed."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self.name = f"{_random.getrandbits(64):016x}"
        """The payload of our announcements, by which we ignore our own."""
        self.slots: set[int] = set()
        self._locked: set[int] = set()
        """The slots that the current connection has locked."""
        self.listens = False
        self._closed = False
        self._heard = self._unannounced = False
        self.session_id = ""
        """The session whose runs are in this process."""
        self._listener: Callable[[str | None], None] = _ignore
        """Called for each notification."""
        self._checked_at = time.monotonic()
        self._jobs: list[tuple[Callable[[Connection], Any], threading.Event]] = []
        self._guard = threading.Lock()
        self._attempted = threading.Event()
        self._warned = False
        self._thread: threading.Thread | None = None
        self._wake_sockets: tuple[socket.socket, socket.socket] | None = None
        self._db: Connection | None = None

    @property
    def running(self) -> bool:
        """Return whether the thread was started."""
        return self._thread is not None

    # Called by other threads

    def changed(self) -> bool:
        """Return whether another process has committed since the last call, or may have."""
        self._start()
        now = time.monotonic()
        late = now - self._checked_at > (LOOK_EVERY if self.listens else POLL_EVERY)
        if not (self._heard or late):
            return False
        # Before the caller reads, not after: a commit during the read must set it again.
        self._heard = False
        self._checked_at = now
        return True

    def listen(self, session_id: str, call: Callable[[str | None], None]) -> None:
        """Call *call* for each notification: with the run of that session that it names, or with
        None."""
        self._start()
        self.session_id = session_id
        self._listener = call

    def announce(self) -> None:
        """Announce soon that something was committed."""
        self._unannounced = True
        self._wake_thread()

    def take_slot(self) -> int:
        """Lock a slot by which others see that this process is alive.

        Return -1 behind a pooler, where no lock outlives its transaction.
        """
        self._start()
        slot = _random.getrandbits(31)

        def lock(db: Connection) -> None:
            if db.direct and self._lock(db, slot):
                self.slots.add(slot)

        self._run_job(lock, START_PATIENCE)
        return slot if slot in self.slots else -1

    def keep_slot(self, slot: int) -> bool:
        """Return whether one of our slots is locked. If not, lock it soon.

        The server may have kept the lock of a lost connection for longer than the reconnection
        took.
        """
        if slot not in self.slots or slot in self._locked:
            return True
        if self._db is not None and not self._jobs:
            self._jobs.append((lambda db: self._lock(db, slot), threading.Event()))
            self._wake_thread()
        return False

    def free_slot(self, slot: int) -> None:
        """Unlock a slot."""
        if slot not in self.slots:
            return
        self.slots.discard(slot)
        if self._db is not None:
            self._run_job(lambda db: self._unlock(db, slot), FREE_PATIENCE)

    def close(self) -> None:
        """Send the pending announcement, and stop the thread."""
        self._closed = True
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            self._wake_thread()
            thread.join()

    def abandon(self) -> None:
        """Drop the thread and its connection in a forked child: both belong to the parent."""
        self._closed = True
        db = self._db
        bell = self._wake_sockets
        self._thread = None
        self._wake_sockets = None
        if db is not None:
            db.abandon()
        for end in bell or ():
            end.close()

    # The thread

    def _start(self) -> None:
        if self._thread is not None or self._closed:
            return
        with self._guard:
            if self._thread is None:
                self._wake_sockets = socket.socketpair()
                for end in self._wake_sockets:
                    end.setblocking(False)
                thread = threading.Thread(target=self._run, name="holdfast notifier", daemon=True)
                thread.start()
                self._thread = thread
        # Commits after this point are heard, if the connection succeeds.
        self._attempted.wait(START_PATIENCE)

    def _wake_thread(self) -> None:
        if self._wake_sockets is not None:
            with suppress(OSError):  # the buffer is full: the thread is about to wake up
                self._wake_sockets[1].send(b"!")

    def _run_job(self, job: Callable[[Connection], Any], patience: float) -> None:
        wanted = (job, threading.Event())
        self._jobs.append(wanted)
        self._wake_thread()
        if not wanted[1].wait(patience):
            with suppress(ValueError):  # the thread is just running it
                self._jobs.remove(wanted)

    def _run(self) -> None:
        assert self._wake_sockets is not None
        wake_sockets = self._wake_sockets
        pause = 0.05
        with selectors.DefaultSelector() as selector:
            selector.register(wake_sockets[0], selectors.EVENT_READ)
            while not self._closed:
                try:
                    with closing(self._connect()) as db:
                        pause = 0.05
                        self._serve(db, selector)
                except (
                    ConnectionLost,
                    TemporarilyUnavailable,
                    HoldfastError,
                    psycopg.Error,
                    OSError,
                ) as error:
                    self._warn(error)
                self._db = None
                self.listens = False
                self._locked.clear()
                self._heard = True  # notifications during the outage were missed
                self._attempted.set()
                if not self._closed:
                    selector.select(pause * (0.5 + random.random()))
                    pause = min(pause * 2, SLOWEST)
        for end in wake_sockets:
            end.close()

    def _warn(self, error: Exception) -> None:
        hopeless = isinstance(error, HoldfastError) and not self._warned and not self._closed
        self._warned = self._warned or hopeless
        log.log(
            logging.WARNING if hopeless else logging.DEBUG,
            "no notifications from other processes for now, polling instead: %s",
            error,
        )

    def _connect(self) -> Connection:
        db = Connection(self._address, self._address.listen)
        try:
            db.raw.add_notify_handler(self._on_notify)
            if db.direct:
                db.script(_ASYNCHRONOUS_COMMIT)
            if self._address.notify and db.direct:
                db.script(f"LISTEN {CHANNEL}")
            self._locked.clear()
            # A copy: other threads add and remove slots.
            for slot in set(self.slots) if db.direct else ():
                self._lock(db, slot)
        except BaseException:
            db.close()
            raise
        self._db = db
        # Commits from here on are announced to us; a poll finds the earlier ones.
        self.listens = self._address.notify and db.direct
        self._heard = True
        self._attempted.set()
        return db

    def _serve(self, db: Connection, selector: selectors.BaseSelector) -> None:
        announced_at = 0.0
        socket_fd = db.raw.fileno()
        selector.register(socket_fd, selectors.EVENT_READ)
        try:
            while True:
                self._run_jobs(db)
                left = announced_at + TELL_EVERY - time.monotonic()
                if self._unannounced and (left <= 0 or self._closed):
                    self._unannounced = False
                    announced_at = time.monotonic()
                    db.rows_autocommit("notify_channel", {"channel": CHANNEL, "name": self.name})
                # Before the wait: the ones that came with an answer do not make the socket ready.
                self._receive_notifications(db)
                if self._closed:
                    return
                ready = {
                    key.fd
                    for key, _ in selector.select(max(left, 0.0) if self._unannounced else None)
                }
                if ready - {socket_fd}:
                    self._drain_wakeups()
                if socket_fd in ready:
                    # raises when the server has closed the connection
                    db.raw.pgconn.consume_input()
        finally:
            selector.unregister(socket_fd)

    def _drain_wakeups(self) -> None:
        """Empty the wake-up socket."""
        assert self._wake_sockets is not None
        with suppress(BlockingIOError):
            self._wake_sockets[0].recv(4096)

    def _receive_notifications(self, db: Connection) -> None:
        while (notify := db.raw.pgconn.notifies()) is not None:
            self._receive(notify.extra.decode(errors="replace"))

    def _run_jobs(self, db: Connection) -> None:
        while (wanted := next(iter(self._jobs), None)) is not None:
            wanted[0](db)
            with suppress(ValueError):  # the caller has timed out and removed it
                self._jobs.remove(wanted)
            wanted[1].set()

    def _on_notify(self, notify: psycopg.Notify) -> None:
        self._receive(notify.payload)

    def _receive(self, payload: str) -> None:
        """Process a notification: the name of its sender, and the session and run if it is about
        only one."""
        name, *session_and_run = payload.split(" ", 2)
        if name == self.name:
            return
        if not session_and_run or not self.session_id:
            self._heard = True
            self._listener(None)
        elif session_and_run[0] == self.session_id:
            self._listener(session_and_run[1])

    def _unlock(self, db: Connection, slot: int) -> None:
        self._locked.discard(slot)
        db.rows(_UNLOCK, _key(slot))

    def _lock(self, db: Connection, slot: int) -> bool:
        """Lock a slot, once: the server counts the locks that a connection takes several times."""
        if slot not in self._locked and db.rows(_LOCK, _key(slot))[0]["locked"]:
            self._locked.add(slot)
        return slot in self._locked


def _ignore(run_id: str | None) -> None:
    """Ignore a notification."""


def _key(slot: int) -> dict[str, object]:
    return {"space": SPACE, "slot": slot}

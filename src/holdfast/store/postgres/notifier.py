"""The thread that listens to other processes and tells them of our commits, on a connection of its
own.

What is told is only a hint to look: it is told after the commit, never as part of it, and not more
often than every few milliseconds. So no commit waits for another one, as those do that notify. The
same connection, where it is direct, holds the locks by which others see that this process lives.
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
"""Seconds between two announcements at least."""

LOOK_EVERY = 1.0
"""Seconds after which a listener is told to look although it heard nothing: whoever should have
told it may have died."""

POLL_EVERY = 0.075
"""The same for one that cannot listen."""

SLOWEST = 0.5
"""Seconds between two tries to connect at most: whoever is away for long is taken for dead by those
who are back already."""

START_PATIENCE, FREE_PATIENCE = 5.0, 1.0
"""Seconds for which others wait for the thread: to be connected at first, and to give a place back
at last."""

SPACE = 0x686F6C64
"""The first half of the key of our locks; the second is the place."""

_LOCK = (
    "SELECT pg_try_advisory_lock(CAST(%(space)s AS INTEGER), CAST(%(slot)s AS INTEGER)) AS locked"
)
_UNLOCK = "SELECT pg_advisory_unlock(CAST(%(space)s AS INTEGER), CAST(%(slot)s AS INTEGER))"
_LIGHTLY = "SET synchronous_commit TO off"
"""To tell is to commit, but what is told is nothing that must be kept: it need not wait for the
disk."""

_lot = random.SystemRandom()


class Notifier:
    """Tells and hears. It starts its thread when it is first needed."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self.name = f"{_lot.getrandbits(64):016x}"
        """What we announce ourselves with, so as not to hear ourselves."""
        self.slots: set[int] = set()
        self._locked: set[int] = set()
        """Those of them that the current connection has locked."""
        self.listens = False
        self._closed = False
        self._heard = self._untold = False
        self.session_id = ""
        """Whose runs are held here,"""
        self._call: Callable[[str | None], None] = _nobody
        """and who wants to hear at once."""
        self._looked = time.monotonic()
        self._jobs: list[tuple[Callable[[Connection], Any], threading.Event]] = []
        self._guard, self._begun = threading.Lock(), threading.Event()
        self._warned = False
        self._thread: threading.Thread | None = None
        self._bell: tuple[socket.socket, socket.socket] | None = None
        self._db: Connection | None = None

    @property
    def running(self) -> bool:
        """Whether the thread is there."""
        return self._thread is not None

    # What others call

    def changed(self) -> bool:
        """Whether another process committed since the last call, as far as is known."""
        self._start()
        now = time.monotonic()
        late = now - self._looked > (LOOK_EVERY if self.listens else POLL_EVERY)
        if not (self._heard or late):
            return False
        self._heard, self._looked = False, now  # before the caller looks, not after
        return True

    def listen(self, session_id: str, call: Callable[[str | None], None]) -> None:
        """Call as soon as something is heard: with a run of that session that was touched, or with
        None."""
        self._start()
        self.session_id, self._call = session_id, call

    def tell(self) -> None:
        """Announce, soon, that something was committed."""
        self._untold = True
        self._ring()

    def take_slot(self) -> int:
        """Lock a place by which others see that this process lives; -1 where no lock outlives its
        statement."""
        self._start()
        slot = _lot.getrandbits(31)

        def lock(db: Connection) -> None:
            if db.direct and self._lock(db, slot):
                self.slots.add(slot)

        self._do(lock, START_PATIENCE)
        return slot if slot in self.slots else -1

    def keep_slot(self, slot: int) -> bool:
        """Return whether a place of ours is locked. If not, lock it soon: the server may have kept
        the lock of a lost connection for longer than it took to connect again."""
        if slot not in self.slots or slot in self._locked:
            return True
        if self._db is not None and not self._jobs:
            self._jobs.append((lambda db: self._lock(db, slot), threading.Event()))
            self._ring()
        return False

    def free_slot(self, slot: int) -> None:
        """Unlock it."""
        if slot not in self.slots:
            return
        self.slots.discard(slot)
        if self._db is not None:
            self._do(lambda db: self._unlock(db, slot), FREE_PATIENCE)

    def close(self) -> None:
        """Tell what is still to be told, and go."""
        self._closed = True
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            self._ring()
            thread.join()

    def abandon(self) -> None:
        """In a forked child: the thread is not here, and its connection belongs to the parent."""
        self._closed = True
        db, bell, self._thread, self._bell = self._db, self._bell, None, None
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
                self._bell = socket.socketpair()
                for end in self._bell:
                    end.setblocking(False)
                thread = threading.Thread(target=self._live, name="holdfast messenger", daemon=True)
                thread.start()
                self._thread = thread
        self._begun.wait(START_PATIENCE)  # what is committed from here on is heard

    def _ring(self) -> None:
        if self._bell is not None:
            with suppress(OSError):  # it is ringing already
                self._bell[1].send(b"!")

    def _do(self, job: Callable[[Connection], Any], patience: float) -> None:
        wanted = (job, threading.Event())
        self._jobs.append(wanted)
        self._ring()
        if not wanted[1].wait(patience):
            with suppress(ValueError):  # it is just being done
                self._jobs.remove(wanted)

    def _live(self) -> None:
        assert self._bell is not None
        bell, pause = self._bell, 0.05
        with selectors.DefaultSelector() as ears:
            ears.register(bell[0], selectors.EVENT_READ)
            while not self._closed:
                try:
                    with closing(self._connect()) as db:
                        pause = 0.05
                        self._serve(db, ears)
                except (
                    ConnectionLost,
                    TemporarilyUnavailable,
                    HoldfastError,
                    psycopg.Error,
                    OSError,
                ) as error:
                    self._warn(error)
                self._db, self.listens = None, False
                self._locked.clear()
                self._heard = True  # whatever was said meanwhile was not heard
                self._begun.set()
                if not self._closed:
                    ears.select(pause * (0.5 + random.random()))
                    pause = min(pause * 2, SLOWEST)
        for end in bell:
            end.close()

    def _warn(self, error: Exception) -> None:
        hopeless = isinstance(error, HoldfastError) and not self._warned and not self._closed
        self._warned = self._warned or hopeless
        log.log(
            logging.WARNING if hopeless else logging.DEBUG,
            "no wake-ups from others for now, looking instead: %s",
            error,
        )

    def _connect(self) -> Connection:
        db = Connection(self._address, self._address.listen)
        try:
            db.raw.add_notify_handler(self._notified)
            if db.direct:
                db.script(_LIGHTLY)
            if self._address.notify and db.direct:
                db.script(f"LISTEN {CHANNEL}")
            self._locked.clear()
            for slot in set(self.slots) if db.direct else ():
                self._lock(db, slot)
        except BaseException:
            db.close()
            raise
        self._db, self.listens, self._heard = db, self._address.notify and db.direct, True
        self._begun.set()
        return db

    def _serve(self, db: Connection, ears: selectors.BaseSelector) -> None:
        told, line = 0.0, db.raw.fileno()
        ears.register(line, selectors.EVENT_READ)
        try:
            while True:
                self._do_jobs(db)
                left = told + TELL_EVERY - time.monotonic()
                if self._untold and (left <= 0 or self._closed):
                    self._untold = False
                    told = time.monotonic()
                    db.alone("tell", {"channel": CHANNEL, "name": self.name})
                self._hear_all(db)
                if self._closed:
                    return
                ready = {key.fd for key, _ in ears.select(max(left, 0.0) if self._untold else None)}
                if ready - {line}:
                    self._hush()
                if line in ready:
                    # raises when the server has closed the connection
                    db.raw.pgconn.consume_input()
        finally:
            ears.unregister(line)

    def _hush(self) -> None:
        """The bell was heard."""
        assert self._bell is not None
        with suppress(BlockingIOError):
            self._bell[0].recv(4096)

    def _hear_all(self, db: Connection) -> None:
        while (notify := db.raw.pgconn.notifies()) is not None:
            self._hear(notify.extra.decode(errors="replace"))

    def _do_jobs(self, db: Connection) -> None:
        while (wanted := next(iter(self._jobs), None)) is not None:
            wanted[0](db)
            with suppress(ValueError):  # whoever wanted it has given it up meanwhile
                self._jobs.remove(wanted)
            wanted[1].set()

    def _notified(self, notify: psycopg.Notify) -> None:
        self._hear(notify.payload)

    def _hear(self, said: str) -> None:
        """Somebody says their name; with a session and a run, if that is all that they have
        touched."""
        name, *touched = said.split(" ", 2)
        if name == self.name:
            return
        if not touched or not self.session_id:
            self._heard = True
            self._call(None)
        elif touched[0] == self.session_id:
            self._call(touched[1])

    def _unlock(self, db: Connection, slot: int) -> None:
        self._locked.discard(slot)
        db.rows(_UNLOCK, _key(slot))

    def _lock(self, db: Connection, slot: int) -> bool:
        """Lock a place, once: the server counts locks that a connection takes several times."""
        if slot not in self._locked and db.rows(_LOCK, _key(slot))[0]["locked"]:
            self._locked.add(slot)
        return slot in self._locked


def _nobody(run_id: str | None) -> None:
    """Nobody wants to hear."""


def _key(slot: int) -> dict[str, object]:
    return {"space": SPACE, "slot": slot}

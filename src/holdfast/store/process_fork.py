"""Close open databases in a forked child process.

A connection must neither be used nor stay open in a forked child. SQLite remembers which locks its
process holds; the child inherits that memory but not the locks, so connections that it opens to the
same file would run without them. Two processes would share a socket to PostgreSQL. Therefore each
store closes its connections in the child at once and raises an error when it is used; the child
opens a store of its own.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Protocol


class Forkable(Protocol):
    """An object that holds connections."""

    def before_fork(self) -> None:
        """Wait until no thread is in the middle of a transaction."""

    def after_fork(self, *, in_child: bool) -> None:
        """Continue in the parent; close all connections in the child."""


_open: weakref.WeakSet[Forkable] = weakref.WeakSet()
_forking: list[Forkable] = []
_fork_lock = threading.Lock()


def watch(store: Forkable) -> None:
    """Call *store* before and after each fork from now on."""
    _open.add(store)


def _before() -> None:
    _fork_lock.acquire()  # one fork at a time; released on both sides
    _forking[:] = list(_open)
    for store in _forking:
        store.before_fork()


def _after(in_child: bool) -> None:
    for store in _forking:
        store.after_fork(in_child=in_child)
    _forking.clear()
    _fork_lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before, after_in_parent=lambda: _after(False), after_in_child=lambda: _after(True)
    )

"""What happens to open databases when the process forks.

A connection must not be used in a forked child, nor stay open there. SQLite remembers which locks
its process holds, the child inherits that memory but not the locks, and whatever it opens on the
same file would run without them. A socket to PostgreSQL would be shared by two who both talk. So,
in the child, each store lets go of its connections at once, and says so when it is used; the child
opens a store of its own.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Protocol


class Forkable(Protocol):
    """Something that holds connections."""

    def before_fork(self) -> None:
        """Let no thread be in the middle of anything."""

    def after_fork(self, *, in_child: bool) -> None:
        """Go on, or, in the child, let go of everything."""


_open: weakref.WeakSet[Forkable] = weakref.WeakSet()
_held: list[Forkable] = []
_turn = threading.Lock()


def watch(store: Forkable) -> None:
    """Tell *store* about forks from now on."""
    _open.add(store)


def _before() -> None:
    _turn.acquire()  # one fork at a time; released on both sides
    _held[:] = list(_open)
    for store in _held:
        store.before_fork()


def _after(in_child: bool) -> None:
    for store in _held:
        store.after_fork(in_child=in_child)
    _held.clear()
    _turn.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before, after_in_parent=lambda: _after(False), after_in_child=lambda: _after(True)
    )

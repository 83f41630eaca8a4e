"""How a worker works."""

from __future__ import annotations

import msgspec


class WorkerSettings(msgspec.Struct, kw_only=True, frozen=True):
    """How a worker works. Times are microseconds."""

    name: str = ""
    namespace: str | None = None
    lanes: tuple[str, ...] | None = None
    capabilities: tuple[str, ...] = ()
    concurrency: int = 1000
    threads: int = 100
    """How many blocking workflows are at work at once, each in a thread of its own."""
    lifetime: int = 15_000_000
    linger: int = 5_000_000
    crash_limit: int = 5
    poll: int = 1_000_000
    watch: float = 0.002
    idle_watch: float = 0.02
    grace: float = 30.0
    schedules: bool = True
    """Whether it writes the schedules that decorators in the code declare."""
    stream_window: int = 10_000
    """How long output waits for company before it is written."""
    capture: bool = False
    """Whether what steps print and log is part of their output."""
    webhook_hosts: tuple[str, ...] = ()
    """Hosts to which webhooks may deliver although their addresses are not public."""
    retain: int = 60_000_000
    """How often a worker looks whether retention rules have something to delete."""

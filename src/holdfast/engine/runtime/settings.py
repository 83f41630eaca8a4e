"""Settings of a worker."""

from __future__ import annotations

import msgspec


class WorkerSettings(msgspec.Struct, kw_only=True, frozen=True):
    """Settings of a worker. Times are microseconds unless they are floats, which are seconds."""

    name: str = ""
    namespace: str | None = None
    lanes: tuple[str, ...] | None = None
    capabilities: tuple[str, ...] = ()
    concurrency: int = 1000
    threads: int = 100
    """How many blocking workflows run at once, each in a thread of its own."""
    session_ttl: int = 15_000_000
    idle_timeout: int = 5_000_000
    crash_limit: int = 5
    poll: int = 1_000_000
    poll_interval: float = 0.002
    idle_poll_interval: float = 0.02
    shutdown_timeout: float = 30.0
    schedules: bool = True
    """Whether the worker writes the schedules that decorators in the code declare."""
    stream_window: int = 10_000
    """How long output is buffered before it is written."""
    capture: bool = False
    """Whether the prints and logs of steps are part of their output."""
    keep_args: bool = False
    """Whether the arguments of steps are recorded, unless a step sets ``keep_args``."""
    webhook_hosts: tuple[str, ...] = ()
    """Hosts that webhooks may deliver to although their addresses are not public."""
    retention_interval: int = 60_000_000
    """How often a worker checks whether retention rules have something to delete."""

"""The options of an engine, and their checks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from holdfast.authoring import registry
from holdfast.connect.option_checks import (
    checked_clock,
    checked_codec,
    checked_limit,
    checked_workflow,
    expanded,
    is_library,
)
from holdfast.core import duration
from holdfast.core.addresses import checked_hosts
from holdfast.core.codec import Codec, JsonCodec
from holdfast.core.duration import Duration
from holdfast.core.payload import INLINE_LIMIT
from holdfast.core.program import Definition
from holdfast.core.text import is_one_of
from holdfast.core.validation import (
    checked_capabilities,
    checked_count,
    checked_flag,
    checked_many,
    checked_text,
    checked_words,
)
from holdfast.core.waits import MOST_SIGNALS
from holdfast.engine.runtime.settings import WorkerSettings
from holdfast.errors import BadOption
from holdfast.errors.base import safe_repr
from holdfast.store.clock import Clock

WEBHOOK_HOSTS = "HOLDFAST_WEBHOOK_HOSTS"
"""The environment variable with the default of ``webhook_hosts``: host names, separated by
commas."""


class EngineOptions:
    """The checked options of an engine whose database is not opened yet. Raises BadOption,
    UnknownWorkflow."""

    def __init__(
        self,
        url: str | os.PathLike[str],
        *,
        workflows: Iterable[Any] | None = None,
        namespace: str | None = None,
        codec: Codec | None = None,
        clock: Clock | None = None,
        store: Any = None,
        driver: str | None = None,
        max_signals: int = MOST_SIGNALS,
        inline_limit: int = INLINE_LIMIT,
        read_only_values: bool = False,
        work: bool = True,
        handlers: Mapping[str, Callable[..., Any]] | None = None,
        **options: Any,
    ) -> None:
        self.work: bool = checked_flag("work", work)
        self.url: str | os.PathLike[str] = url
        self.codec: Codec = JsonCodec() if codec is None else checked_codec(codec)
        self.max_signals: int = checked_limit(max_signals)
        if isinstance(inline_limit, bool) or not isinstance(inline_limit, int) or inline_limit < 0:
            raise BadOption(
                option="inline_limit",
                value=inline_limit,
                why="the limit must be a number of bytes, 0 or more",
            )
        self.inline_limit: int = inline_limit
        self.workflows: dict[str, Definition] | None = None
        self.libraries: list[Any] = []
        """The libraries of text workflows among the workflows."""
        if workflows is not None:
            items = checked_many("workflows", workflows)
            self.libraries = [item for item in items if is_library(item)]
            checked = [checked_workflow(item) for item in expanded(items)]
            self.workflows = registry.by_name(checked)
        self.settings: WorkerSettings = settings_from(
            {**options, "namespace": checked_text("namespace", namespace)}
        )
        self.namespace: str | None = namespace
        self.clock: Clock | None = None if clock is None else checked_clock(clock)
        self.store: Any = store
        self.driver: dict[str, Any] = {} if driver is None else {"driver": driver}
        self.read_only_values: bool = read_only_values
        self.handlers: dict[str, Any] = dict(checked_handlers(handlers))
        if self.libraries:
            self.handlers[LIBRARIES] = self.libraries


LIBRARIES = "wf libraries"
"""The handler under which stored texts find the libraries of the engine."""


def settings_from(options: dict[str, Any]) -> WorkerSettings:
    """Return the checked settings of a worker. Raises BadOption for an unknown option or a wrong
    value."""
    known = set(WorkerSettings.__struct_fields__)
    unknown = set(options) - known
    if unknown:
        raise BadOption(option=sorted(unknown)[0], known=", ".join(sorted(known)))
    values = {name: value for name, value in options.items() if value is not None}
    values.setdefault("webhook_hosts", os.environ.get(WEBHOOK_HOSTS, "").replace(",", " ").split())
    return WorkerSettings(
        **{
            name: _CHECKED[name](name, value) if name in _CHECKED else value
            for name, value in values.items()
        }
    )


def _micros(name: str, value: Any) -> int:
    return duration.parse(value)


def _seconds(name: str, value: Any) -> float:
    return duration.parse(value) / 1_000_000


_CHECKED: dict[str, Callable[[str, Any], Any]] = {
    "name": lambda name, value: "" if is_one_of(value, ("",)) else checked_text(name, value),
    "lanes": lambda name, value: tuple(checked_words(name, value) or ()),
    "capabilities": lambda name, value: checked_capabilities(value),
    "webhook_hosts": checked_hosts,
    "schedules": checked_flag,
    "capture": checked_flag,
    "keep_args": checked_flag,
    **dict.fromkeys(("concurrency", "threads", "crash_limit"), partial(checked_count, least=1)),
    **dict.fromkeys(
        ("session_ttl", "idle_timeout", "poll", "stream_window", "retention_interval"), _micros
    ),
    **dict.fromkeys(("shutdown_timeout", "poll_interval", "idle_poll_interval"), _seconds),
}
"""The functions that check a setting and convert it to its unit."""


def checked_handlers(handlers: Any) -> dict[str, Callable[..., Any]]:
    """Return the handlers of an engine, by name. Raises BadOption."""
    if handlers is None:
        return {}
    if not isinstance(handlers, Mapping) or not all(
        isinstance(name, str) and name and callable(function) for name, function in handlers.items()
    ):
        why = "pass a dict from the names of tasks to functions"
        raise BadOption(option="handlers", value=safe_repr(handlers), why=why)
    return dict(handlers)


def seconds_of(timeout: Duration | None) -> float | None:
    """Return a duration in seconds; None for None. Raises BadDuration."""
    return None if timeout is None else duration.parse(timeout) / 1_000_000

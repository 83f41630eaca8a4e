"""Logs of commands that stay in the foreground: to stderr, as lines for people or as JSON."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import click

from holdfast.engine.runtime.log_records import JsonFormatter, RunFields

F = TypeVar("F", bound=Callable[..., object])


def logging_options(command: F) -> F:
    """Add --quiet and --log-format to a command that logs to stderr while it runs."""
    log_format = click.option(
        "--log-format",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        help="The format of log lines. E.g. --log-format json",
    )
    quiet = click.option("--quiet", is_flag=True, help="Log only warnings and errors.")
    return quiet(log_format(command))


@contextmanager
def logging_to_stderr(level: int, log_format: str = "text") -> Iterator[None]:
    """Log to stderr. As JSON, the records of all loggers are logged, otherwise only those of
    Holdfast. Afterwards the loggers are as they were: a program may call the command itself."""
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(RunFields())
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    log = logging.getLogger("holdfast")
    if log_format == "json":
        handler.setFormatter(JsonFormatter())
        log = logging.getLogger()
    own = logging.getLogger("holdfast")
    before = [(logger, logger.handlers, logger.level, logger.propagate) for logger in (log, own)]
    own.handlers = []
    own.setLevel(level)
    own.propagate = log is not own
    log.handlers = [handler]
    log.setLevel(level)
    try:
        yield
    finally:
        for logger, handlers, old_level, propagate in before:
            logger.handlers = handlers
            logger.setLevel(old_level)
            logger.propagate = propagate

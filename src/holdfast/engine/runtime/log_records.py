"""Log records that name their run, and log lines as JSON.

A record that belongs to a run has the attributes ``run``, ``workflow``, ``step`` and ``attempt``;
the last two are None outside a step. The engine sets them on its own records. ``RunFields`` sets
them on the records of user code: it is a filter of a handler, because a handler sees the records of
all loggers.
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any

from holdfast.core.runs import RunRecord
from holdfast.core.step_info import current_step

FIELDS = ("run", "workflow", "step", "attempt")

_OWN = frozenset((*vars(logging.makeLogRecord({})), "message", "asctime", "taskName", *FIELDS))
"""The attributes of a record that are not fields of its caller."""


def of_run(run: RunRecord, step: str | None = None, attempt: int | None = None) -> dict[str, Any]:
    """Return the fields of a record about a run, for ``extra``."""
    return {"run": run.id, "workflow": run.workflow, "step": step, "attempt": attempt}


class RunFields(logging.Filter):
    """Adds the run, the workflow, the step and the attempt to records of code inside a step."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the fields; every record passes."""
        info = current_step.get()
        if info is not None and info.run_id and not hasattr(record, "run"):
            record.run = info.run_id
            record.workflow = info.workflow
            record.step = info.step
            record.attempt = info.attempt
        return True


class JsonFormatter(logging.Formatter):
    """Formats each record as one JSON object on one line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record; a value that JSON does not know becomes text."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="microseconds")
        line: dict[str, Any] = {
            "time": at.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        for name in FIELDS:
            value = getattr(record, name, None)
            if value is not None:
                line[name] = value
        for name, value in vars(record).items():
            if name not in _OWN:
                line.setdefault(name, value)
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)

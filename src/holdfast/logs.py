"""Log records that name their run, and log lines as JSON."""

from holdfast.engine.runtime.log_records import JsonFormatter as JsonFormatter
from holdfast.engine.runtime.log_records import RunFields as RunFields

"""The verbs of Holdfast for workflows that are plain functions: the same names, without await."""

from holdfast.authoring.code.blocking import (
    Handle,
    compensate,
    first,
    gather,
    map,
    now,
    patched,
    random,
    sleep,
    start,
    uuid,
    version,
    wait_signal,
)

__all__ = [
    "Handle", "compensate", "first", "gather", "map", "now", "patched", "random", "sleep", "start", "uuid", "version",
    "wait_signal",
]  # fmt: skip

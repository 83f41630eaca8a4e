"""A log of executed steps that survives the process that wrote it."""

from __future__ import annotations


def note(path: str, run: int, number: int) -> None:
    """Write down that a step was executed."""
    with open(path, "ab", buffering=0) as log:
        log.write(f"{run} {number}\n".encode())


def noted(path: str) -> list[tuple[int, int]]:
    """Return what was executed, in order."""
    try:
        with open(path) as log:
            return [
                (int(run), int(number))
                for run, number in (line.split() for line in log if line.endswith("\n"))
            ]
    except FileNotFoundError:
        return []

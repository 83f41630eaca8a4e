"""A short torture of both databases with real processes. `make torture MINUTES=n DB=postgres` goes
on for longer.

A round ends after `SECONDS`, but not before every kind of fault has come: on a busy machine it
takes longer. Nothing here depends on how much work was done meanwhile.
"""

from __future__ import annotations

import pytest

from torture.databases import postgres_databases, sqlite_databases
from torture.run import torture_all

SECONDS = 25
FAULTS = 30
"""More than one shuffled round of faults, which holds every kind."""

EVERYWHERE = {
    "worker killed",
    "client killed",
    "task holder killed",
    "worker stopped for long",
    "clock set back",
}


@pytest.mark.timeout(600)
def test_no_fault_around_a_sqlite_file_loses_or_repeats_anything():
    with sqlite_databases(1) as databases:
        report = torture_all(databases, seed=1, seconds=SECONDS, faults=FAULTS)

    assert report.findings == []
    assert {*EVERYWHERE, "session file deleted", "database file moved away"} <= set(report.figures)
    assert report.figures["acknowledged starts"] > 0


@pytest.mark.timeout(600)
def test_no_fault_around_a_postgres_server_loses_or_repeats_anything():
    with postgres_databases(1, seed=1) as databases:
        report = torture_all(databases, seed=1, seconds=SECONDS, faults=FAULTS)

    assert report.findings == []
    assert {*EVERYWHERE, "connections cut", "server process killed", "server crashed"} <= set(
        report.figures
    )
    assert report.figures["acknowledged starts"] > 0

"""A short torture: real processes, `kill -9` and SIGSTOP. `make torture MINUTES=n` goes on for longer."""

from __future__ import annotations

import pytest

from holdfast.testing.postgres import postgres
from torture.run import torture


@pytest.mark.timeout(240)
def test_everything_finishes_whatever_is_done_to_the_workers(tmp_path):
    figures = torture(str(tmp_path / "torture.db"), tmp_path, seed=1, seconds=15, runs=500)

    assert figures["kill -9"] >= 3
    assert figures["stopped"] >= 1
    assert figures["steps recorded"] > 500


@pytest.mark.timeout(240)
def test_everything_finishes_whatever_is_done_to_the_workers_and_the_server(tmp_path):
    with postgres() as server:
        figures = torture(server.new_database(), tmp_path, seed=2, seconds=20, runs=500, server=server)

    assert figures["kill -9"] >= 3
    assert figures["stopped"] >= 1
    assert figures["server restarted"] >= 1
    assert figures["connections cut"] >= 1
    assert figures["steps recorded"] > 500

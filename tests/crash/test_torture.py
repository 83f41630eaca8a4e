"""A short torture: real processes, `kill -9` and SIGSTOP. `make torture MINUTES=n` goes on for longer."""

from __future__ import annotations

import pytest

from torture.run import torture


@pytest.mark.timeout(180)
@pytest.mark.parametrize("seed", [1, 2])
def test_everything_finishes_whatever_is_done_to_the_workers(tmp_path, seed):
    figures = torture(str(tmp_path / "torture.db"), tmp_path, seed=seed, seconds=12, runs=500)

    assert figures["kill -9"] + figures["stopped"] >= 5
    assert figures["steps recorded"] > 500

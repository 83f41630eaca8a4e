"""An engine at work on a file of its own, in real time or by a clock that the test moves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast import Engine
from holdfast.testing.clock import VirtualClock


@pytest.fixture
def database(tmp_path):
    return str(tmp_path / "test.db")


@pytest.fixture
def engine(database) -> Iterator[Engine]:
    with Engine(database, grace=1) as engine:
        yield engine
        assert engine.check() == []


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()

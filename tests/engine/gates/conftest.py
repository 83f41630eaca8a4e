"""A clean record of steps for each test of gates, and an engine whose time the test moves."""

from __future__ import annotations

import pytest

from holdfast import Engine
from tests.engine.gates.workflows import calls


@pytest.fixture(autouse=True)
def _calm():
    calls.clear()


@pytest.fixture
def timed(database, clock):
    with Engine(
        database, clock=clock, poll="1h", session_ttl="36500d", idle_timeout="0s"
    ) as engine:
        yield engine
        assert engine.database.check() == []

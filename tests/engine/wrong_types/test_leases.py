"""A lease refuses values of odd types by name."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.wrong_types.calls import calls_of_leases
from tests.engine.wrong_types.probing import async_engine, blocking_engine, faults


@pytest.mark.parametrize("opened", [blocking_engine, async_engine])
def test_a_lease_refuses_odd_values_by_name(database, opened):
    with (
        opened(database) as engine,
        engine.tasks.worker("holder", workflows=["odd_leased"], ttl="1d") as leases,
    ):

        def lease() -> Any:
            engine.start("odd_leased", 1)
            (claimed,) = leases.claim()
            return claimed

        assert faults(calls_of_leases(lease, leases)) == []
        assert engine.database.check() == []

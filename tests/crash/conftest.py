"""Crashes in a file and in PostgreSQL."""

from __future__ import annotations

from functools import partial

import pytest

from holdfast.testing import crash_everywhere
from holdfast.testing.postgres import _WIPE


@pytest.fixture
def crashing_in_a_file():
    """``crash_everywhere``, a little shorter."""
    return partial(crash_everywhere, doubles=3)


@pytest.fixture
def crashing_in_postgres(postgres_server):
    """The same in PostgreSQL: once per commit and no more, to save time."""
    with postgres_server.lend() as url:
        clear = partial(postgres_server.execute, _WIPE, url)
        yield partial(crash_everywhere, database=url, clear=clear, doubles=0, zombies=False)


@pytest.fixture(params=["crashing_in_a_file", "crashing_in_postgres"])
def crashing(request):
    """Both."""
    return request.getfixturevalue(request.param)

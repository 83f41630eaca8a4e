"""What the tests of several folders share: one PostgreSQL server for all of them, started when the first one asks for it."""

import pytest


@pytest.fixture(scope="session")
def postgres_server():
    from holdfast.testing.postgres import postgres

    with postgres() as server:
        yield server

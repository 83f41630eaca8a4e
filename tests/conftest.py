"""What the tests of several folders share: one PostgreSQL server for all of them, started when the first one asks for it."""

import pytest


@pytest.fixture(scope="session")
def postgres_server():
    from holdfast.testing.postgres import postgres

    with postgres() as server:
        yield server


@pytest.fixture(scope="session")
def restartable_server():
    """One that keeps what was committed when it is stopped, however it is stopped."""
    from holdfast.testing.postgres import postgres

    with postgres(durable=True) as server:
        yield server

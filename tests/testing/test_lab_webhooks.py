"""A lab delivers webhooks, on both databases."""

from __future__ import annotations

import pytest

from holdfast import step, workflow
from holdfast.testing import Lab
from tests.engine.receiver import Receiver


@step
async def work() -> int:
    return 1


@workflow
async def noted_by_webhook() -> int:
    return await work()


@pytest.fixture(params=["sqlite", "postgres"])
def path(request, tmp_path):
    if request.param == "sqlite":
        yield str(tmp_path / "lab.db")
        return
    with request.getfixturevalue("postgres_server").lend() as url:
        yield url


@pytest.fixture
def receiver():
    receiver = Receiver()
    yield receiver
    receiver.server.shutdown()
    receiver.server.server_close()


def test_a_lab_delivers_webhooks(path, receiver):
    with Lab(path, webhook_hosts=["127.0.0.1"]) as lab:
        lab.engine.webhooks.set("hook", receiver.url)
        run = lab.start(noted_by_webhook)
        lab.finish(run)

        receiver.wait(2)

        assert receiver.events() == [(run.id, 1), (run.id, 2)]

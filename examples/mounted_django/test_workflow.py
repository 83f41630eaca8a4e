import asyncio

import httpx
import pytest

from holdfast import Engine

pytest.importorskip("django")


def test_the_project_starts_a_run_and_the_mounted_server_shows_it(tmp_path):
    from examples.mounted_django.workflow import build

    async def talk(entry):
        transport = httpx.ASGITransport(app=entry)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            started = await client.post("/invoices/7")
            address = "/flows/api/v1/runs/invoice-7/result?wait=20s"
            result = await client.get(address, headers={"x-user": "ann"})
            stranger = await client.get("/flows/api/v1/runs")
            page = await client.get("/flows/")
            return started, result, stranger, page

    with Engine(tmp_path / "x.db") as engine:
        started, result, stranger, page = asyncio.run(talk(build(engine)))

    assert (started.status_code, started.json()) == (202, {"run": "invoice-7"})
    assert result.json()["result"] == "invoice 7 is sent"
    assert stranger.status_code == 401 and page.status_code == 200

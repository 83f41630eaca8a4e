import pytest
from starlette.testclient import TestClient

pytest.importorskip("fastapi")


def test_the_program_starts_a_run_and_the_mounted_server_shows_it(tmp_path):
    from examples.mounted_fastapi.workflow import build

    headers = {"x-user": "ann"}
    with TestClient(build(str(tmp_path / "x.db")), base_url="http://localhost") as client:
        first = client.post("/orders/7").json()
        again = client.post("/orders/7").json()
        result = client.get("/flows/api/v1/runs/order-7/result?wait=20s", headers=headers)
        listed = client.get("/flows/api/v1/runs", headers=headers).json()["items"]

    assert first == again == {"run": "order-7"}
    assert result.json()["result"] == "order 7 is placed"
    assert [run["id"] for run in listed] == ["order-7"]

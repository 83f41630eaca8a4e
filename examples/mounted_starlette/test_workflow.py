from examples.mounted_starlette.workflow import build
from starlette.testclient import TestClient


def test_the_program_starts_a_run_and_the_mounted_server_shows_it(tmp_path):
    with TestClient(build(str(tmp_path / "x.db")), base_url="http://localhost") as client:
        run = client.post("/post/700").json()["run"]
        result = client.get(f"/flows/api/v1/runs/{run}/result?wait=20s", headers={"x-user": "ann"})
        stranger = client.get("/flows/api/v1/runs")
        page = client.get("/flows/")

    assert result.json()["result"] == "posted as a parcel"
    assert stranger.status_code == 401
    assert page.status_code == 200

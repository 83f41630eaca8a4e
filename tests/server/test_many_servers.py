"""Three server processes on one PostgreSQL database, without a proxy."""

import json
from itertools import cycle

import httpx

from holdfast import Engine
from holdfast.remote import Client
from tests.engine.waiting import PATIENCE
from tests.server.clients import ServeProcess


def test_three_servers_answer_as_one(postgres_server):
    with postgres_server.lend() as url, Engine(url, work=False) as engine:
        admin = engine.api_keys.add("root", roles="admin").api_key
        key = engine.api_keys.add("worker", roles="worker").api_key
        with ServeProcess(url) as one, ServeProcess(url) as two, ServeProcess(url) as three:
            clients = [Client(server.url, admin) for server in (one, two, three)]
            servers = cycle((one, two, three))

            def post(path, body=None, **headers):
                response = httpx.post(
                    f"{next(servers).url}api/v1{path}",
                    json=body or {},
                    headers={"Authorization": f"Bearer {key}", **headers},
                    timeout=PATIENCE,
                )
                assert response.status_code < 300, response.text
                return response.json()

            runs = [clients[n % 3].start("render", {"size": n}) for n in range(6)]
            offer = {"worker": "w", "workflows": ["render"], "ttl": "1h"}
            worker = f"/remote-workers/{post('/remote-workers', offer)['remote_worker']}"
            once = {"Idempotency-Key": "1"}
            claimed = [post(f"{worker}/claim", {"limit": 4}, **once)["items"] for _ in range(3)]
            claimed.append(post(f"{worker}/claim", {"limit": 4, "wait": "10s"})["items"])
            leases = [*claimed[0], *claimed[-1]]
            for lease in leases:
                done = post(
                    f"{worker}/complete",
                    {"completions": [{"proof": lease["proof"], "result": lease["input"]["size"]}]},
                )
                assert done["items"] == [{"status": "completed"}]
            results = [
                clients[(n + 1) % 3].run(run.id).result(PATIENCE) for n, run in enumerate(runs)
            ]
            pages = [[run.id for run in client.runs(workflow="render")] for client in clients]
            with httpx.stream(
                "GET",
                f"{two.url}api/v1/events/stream?after=beginning&kind=completions",
                headers={"Authorization": f"Bearer {admin}"},
                timeout=PATIENCE,
            ) as stream:
                lines = (line for line in stream.iter_lines() if line.startswith("data: "))
                seen = {json.loads(next(lines)[6:])["run_id"] for _ in runs}

        assert claimed[0] == claimed[1] == claimed[2] and len(claimed[0]) == 4
        assert results == list(range(6))
        assert pages[0] == pages[1] == pages[2] == [run.id for run in reversed(runs)]
        assert seen == {run.id for run in runs}
        assert engine.database.check() == []

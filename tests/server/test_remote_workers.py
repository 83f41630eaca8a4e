"""Remote workers: leases over HTTP, which any process of the server continues."""

import asyncio

import httpx
import pytest

from holdfast import Engine
from holdfast.server import app
from tests.engine.waiting import PATIENCE
from tests.server.clients import ApiClient, problem

OFFER = {"worker": "node-1", "workflows": ["render"], "ttl": "1h"}


@pytest.fixture
def worker(connect):
    return connect("worker")


def opened(client, **offer):
    return (
        "/remote-workers/"
        + client.json("POST", "/remote-workers", {**OFFER, **offer})["remote_worker"]
    )


def test_a_remote_worker_completes_runs_in_batches(both):
    with Engine(both, work=False) as engine:
        client = ApiClient.maker(engine, app(engine))("worker")
        runs = engine.start_many("render", [{"size": n} for n in range(3)])
        remote = opened(client)

        leases = client.json("POST", f"{remote}/claim", {"limit": 16})["items"]
        done = client.json(
            "POST",
            f"{remote}/complete",
            {
                "completions": [
                    {"proof": lease["proof"], "result": lease["input"]["size"]} for lease in leases
                ]
            },
        )

        assert [lease["attempt"] for lease in leases] == [1, 1, 1]
        assert done["items"] == [{"status": "completed"}] * 3
        assert sorted(run.result(timeout="60s") for run in runs) == [0, 1, 2]
        assert engine.database.check() == []


def test_another_process_continues_a_remote_worker(both):
    with Engine(both, work=False) as first, Engine(both, work=False) as second:
        client = ApiClient.maker(first, app(first))("worker")
        other = ApiClient(app(second), client.headers)
        run = first.start("render", {"size": 1})
        remote = opened(client)

        (lease,) = other.json("POST", f"{remote}/claim")["items"]
        assert client.json("POST", f"{remote}/renew")["cancelled"] == []
        done = client.json(
            "POST", f"{remote}/complete", {"completions": [{"proof": lease["proof"], "result": 5}]}
        )
        again = other.json(
            "POST", f"{remote}/complete", {"completions": [{"proof": lease["proof"], "result": 5}]}
        )

        assert done == again
        assert second.run(run.id).result(timeout="60s") == 5


def test_a_repeated_claim_gets_the_same_leases(worker, engine):
    engine.start_many("render", range(4))
    remote = opened(worker)

    first = worker.json("POST", f"{remote}/claim", {"limit": 2}, headers={"Idempotency-Key": "1"})
    again = worker.json("POST", f"{remote}/claim", {"limit": 2}, headers={"Idempotency-Key": "1"})
    other = worker.json("POST", f"{remote}/claim", {"limit": 2}, headers={"Idempotency-Key": "2"})

    assert first == again and len(first["items"]) == 2
    assert not {lease["run"] for lease in first["items"]} & {
        lease["run"] for lease in other["items"]
    }


def test_calls_about_one_lease(worker, engine):
    run = engine.start("render", {"size": 1})
    remote = opened(worker)
    (lease,) = worker.json("POST", f"{remote}/claim")["items"]
    address = f"/leases/{lease['proof']}"

    worker.json("POST", f"{address}/progress", {"percent": 50, "message": "half"})
    emitted = worker.json("POST", f"{address}/emit", {"values": ["a", {"b": 1}]})
    child = worker.json(
        "POST", f"{address}/start", {"task": "paint", "args": [1], "kwargs": {"id": 2}}
    )
    waiting = worker.json("POST", f"{address}/suspend", {"wanted": ["go"], "timeout": "1h"})

    assert emitted["frames"] == 2
    assert engine.run(child["id"]).record.input == {"args": [1], "kwargs": {"id": 2}}
    assert waiting["status"] == "waiting"
    run.signal("go", {"ok": True})
    (again,) = worker.json("POST", f"{remote}/claim")["items"]
    assert again["waited"]["signals"][0]["payload"] == {"ok": True}
    failed = worker.json(
        "POST", f"/leases/{again['proof']}/fail", {"kind": "permanent", "message": "no paper"}
    )
    assert failed == {"status": "failed"}
    assert run.record.error.message == "no paper"


def test_a_remote_worker_that_ends_gives_its_runs_back(connect, worker, engine):
    run = engine.start("render")
    remote = opened(worker)
    (lease,) = worker.json("POST", f"{remote}/claim")["items"]

    assert worker("DELETE", remote).status_code == 204

    late = worker("POST", f"/leases/{lease['proof']}/complete", {"result": 1})
    assert (late.status_code, problem(late)) == (409, "LeaseLost")
    assert problem(worker("POST", f"{remote}/claim")) == "RemoteWorkerNotFound"
    assert engine.run(run.id).status == "pending"


@pytest.mark.parametrize("change", ["x", "secret", "namespace"])
def test_a_remote_worker_needs_its_whole_id(connect, worker, change):
    remote = opened(worker)
    client = worker
    if change == "x":
        remote += "x"
    if change == "secret":
        remote = remote.rpartition("-")[0] + "-" + "0" * 32
    if change == "namespace":
        client = connect("worker", namespace="acme")

    response = client("POST", f"{remote}/claim")

    assert (response.status_code, problem(response)) == (404, "RemoteWorkerNotFound")


def test_a_lease_of_another_worker_or_namespace_changes_nothing(connect, worker, engine):
    run = engine.start("render")
    remote = opened(worker)
    (lease,) = worker.json("POST", f"{remote}/claim")["items"]
    acme = connect("worker", namespace="acme")
    other = opened(worker)

    outside = acme("POST", f"/leases/{lease['proof']}/complete", {"result": 1})
    foreign = worker.json(
        "POST", f"{other}/complete", {"completions": [{"proof": lease["proof"], "result": 1}]}
    )
    garbled = worker("POST", "/leases/abc/complete", {"result": 1})

    assert problem(outside) == "LeaseLost"
    assert foreign["items"][0]["problem"]["type"] == "/errors/BadLease"
    assert problem(garbled) == "BadLease"
    assert engine.run(run.id).status == "running"


def test_the_claim_of_a_client_that_went_away_is_given_back(engine):
    asgi = app(engine)
    maker = ApiClient.maker(engine, asgi)
    client = maker("worker")
    remote = opened(client)

    async def vanish():
        """Send a claim that waits, go away, then let a run become ready."""
        gone = asyncio.Event()
        asked = asyncio.Event()

        async def receive():
            if not asked.is_set():
                asked.set()
                return {"type": "http.request", "body": b'{"wait": "20s"}', "more_body": False}
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message):
            pass

        scope = {
            "type": "http",
            "method": "POST",
            "path": f"/api/v1{remote}/claim",
            "root_path": "",
            "query_string": b"",
            "headers": [
                (b"authorization", client.headers["Authorization"].encode()),
                (b"host", b"localhost"),
            ],
        }
        claim = asyncio.create_task(asgi(scope, receive, send))
        await asked.wait()
        gone.set()
        await asyncio.wait_for(claim, PATIENCE)

    asyncio.run(vanish())
    run = engine.start("render")

    assert engine.run(run.id).status == "pending"
    (lease,) = client.json("POST", f"{remote}/claim", {"wait": "10s"})["items"]
    assert lease["run"] == run.id


def test_an_expired_remote_worker_has_lost_its_leases(tmp_path):
    from holdfast.testing.clock import VirtualClock

    clock = VirtualClock()
    engine = Engine(tmp_path / "expired.db", clock=clock, work=False)
    client = ApiClient.maker(engine, app(engine))("worker")
    run = engine.start("render")
    remote = opened(client, ttl="10s")
    (lease,) = client.json("POST", f"{remote}/claim")["items"]

    clock.advance("11s")

    for path, body in (
        (f"{remote}/renew", {}),
        (f"{remote}/claim", {}),
        (f"/leases/{lease['proof']}/complete", {"result": 1}),
    ):
        response = client("POST", path, body)
        assert (response.status_code, problem(response)) == (409, "LeaseLost")
    other = opened(client)
    (again,) = client.json("POST", f"{other}/claim")["items"]
    assert again["run"] == run.id
    engine.close()


def test_a_signal_is_delivered_with_the_token_of_its_wait(worker, engine, stranger):
    run = engine.start("render")
    remote = opened(worker)
    (lease,) = worker.json("POST", f"{remote}/claim")["items"]
    wait = worker.json("POST", f"/leases/{lease['proof']}/create-wait", {"name": "paid"})
    body = {"token": wait["token"], "name": "paid", "payload": 7}

    wrong = stranger("POST", f"/waits/{wait['id']}/signals", {**body, "token": "x.y.z"})
    unknown = stranger("POST", "/waits/unknown/signals", body)
    right = stranger("POST", f"/waits/{wait['id']}/signals", body)

    assert problem(wrong) == problem(unknown) == "TokenRefused"
    assert wrong.json() == unknown.json()
    assert right.status_code == 200
    assert run.status == "running"


def test_the_page_of_a_gate_link_decides_only_when_it_is_sent(engine, stranger):
    run = engine.start("server.ask", prompt="Pay <b>120</b>?")
    run.wait_until("waiting", timeout="20s")
    token = engine.gates.link(run.id, "yes", by="ann")
    address = f"/answer/{token}"

    shown = [stranger("GET", address, raw=True) for _ in range(2)]
    head = stranger("HEAD", address, raw=True)

    assert [page.status_code for page in (*shown, head)] == [200, 200, 200]
    assert "Pay &lt;b&gt;120&lt;/b&gt;?" in shown[0].text and "<b>" not in shown[0].text
    assert engine.gates.get(run.id).status == "open"
    sent = stranger("POST", address, content=b"feedback=fine", raw=True)
    assert sent.status_code == 200
    assert run.result(timeout="20s") == "yes"
    assert stranger("GET", f"/answer/{token}x", raw=True).status_code == 401
    assert httpx.codes.is_error(stranger("POST", address, content=b"", raw=True).status_code)

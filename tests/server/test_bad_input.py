"""Bad input: each is a named problem with the right status, and nothing is written."""

import asyncio
import json

import pytest

from holdfast import Engine
from holdfast.server import app
from tests.server.clients import ApiClient, problem
from tests.server.conftest import WORKFLOWS

DEEP = b"[" * 200 + b"]" * 200


@pytest.mark.parametrize(
    ("body", "status", "name"),
    [
        (b"{", 400, "BadRequest"),
        (b"\xff\xfe", 400, "BadRequest"),
        (b"[]", 400, "BadRequest"),
        (b'{"workflow": 7}', 400, "BadRequest"),
        (b'{"workflow": "elsewhere", "priorty": 7}', 400, "BadRequest"),
        (b'{"workflow": "elsewhere", "args": [%s]}' % DEEP, 400, "BadRequest"),
        (b'{"workflow": "elsewhere", "delay": "soon"}', 422, "BadDuration"),
        (b'{"workflow": "elsewhere", "id": ""}', 422, "BadOption"),
        (b'{"workflow": "elsewhere", "args": ["%s"]}' % (b"x" * 5000), 413, "RequestTooLarge"),
        (b'{"workflow": "elsewhere", "id": "a\\u0000b"}', 422, "BadOption"),
        (b'{"workflow": "elsewhere", "id": "\\ud800"}', 400, "BadRequest"),
    ],
    ids=range(11),
)
def test_a_body_that_cannot_be_used_starts_nothing(engine, body, status, name):
    client = ApiClient.maker(engine, app(engine, max_body=4096))("starter")

    response = client("POST", "/runs", content=body)

    assert (problem(response), response.status_code) == (name, status)
    assert engine.runs().count() == 0


def test_an_unknown_field_is_named(admin):
    response = admin("POST", "/runs", {"workflow": "elsewhere", "priorty": 7})

    assert "priorty" in response.json()["detail"]


def test_a_body_is_measured_also_if_its_length_is_not_declared(engine):
    client = ApiClient.maker(engine, app(engine, max_body=1000))("starter")

    async def body():
        for _ in range(100):
            yield b" " * 100

    assert problem(client("POST", "/runs", content=body())) == "RequestTooLarge"


@pytest.mark.parametrize(
    ("path", "status", "name"),
    [
        ("/runs?limit=0", 400, "BadRequest"),
        ("/runs?limit=501", 400, "BadRequest"),
        ("/runs?limit=many", 400, "BadRequest"),
        ("/runs?colour=red", 400, "BadRequest"),
        ("/runs?limit=1&limit=2", 400, "BadRequest"),
        ("/runs?cursor=abc", 400, "BadCursor"),
        ("/runs?cursor=%C3%BC", 400, "BadCursor"),
        ("/runs?status=odd", 422, "BadOption"),
        ("/runs?since=yesterday", 422, "BadDuration"),
        ("/events?after=abc", 400, "BadCursor"),
        ("/events/stream?after=other.1.1", 400, "BadCursor"),
        ("/events?kind=odd", 422, "BadOption"),
        ("/runs/unknown", 404, "RunNotFound"),
        ("/runs/a%00b", 404, "RunNotFound"),
        ("/runs/%FF", 404, "RunNotFound"),
        ("/nothing", 404, "RouteNotFound"),
    ],
)
def test_an_address_that_cannot_be_used_is_a_problem(admin, path, status, name):
    response = admin("GET", path)

    assert (problem(response), response.status_code) == (name, status)


def test_a_cursor_of_another_list_database_or_namespace_is_refused(connect, engine, tmp_path):
    from holdfast import Engine

    engine.start_many("elsewhere", range(3))
    admin, acme = connect("admin"), connect("admin", namespace="acme")
    cursor = admin.json("GET", "/runs?limit=1")["next"]
    with Engine(tmp_path / "other.db", work=False) as other:
        stranger = ApiClient.maker(other, app(other))("admin")

        assert problem(admin("GET", f"/gates?cursor={cursor}")) == "BadCursor"
        assert problem(acme("GET", f"/runs?cursor={cursor}")) == "BadCursor"
        assert problem(stranger("GET", f"/runs?cursor={cursor}")) == "BadCursor"


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("DELETE", "/runs", "GET, HEAD, OPTIONS, POST"),
        ("POST", "/overview", "GET, HEAD, OPTIONS"),
        ("PUT", "/runs/x/cancel", "OPTIONS, POST"),
    ],
)
def test_a_wrong_method_names_the_right_ones(admin, method, path, allow):
    response = admin(method, path)

    assert (response.status_code, problem(response)) == (405, "MethodRefused")
    assert response.headers["allow"] == allow
    assert admin("OPTIONS", path).headers["allow"] == allow


@pytest.mark.parametrize(
    ("path", "allow"),
    [
        ("/", "GET, HEAD, OPTIONS"),
        ("/runs/order-7", "GET, HEAD, OPTIONS"),
        ("/answer/token", "GET, HEAD, OPTIONS, POST"),
        ("/healthz", "GET, HEAD, OPTIONS"),
    ],
)
def test_a_page_says_which_methods_it_accepts(stranger, path, allow):
    asked = stranger("OPTIONS", path, raw=True)
    wrong = stranger("PUT", path, raw=True)

    assert (asked.status_code, asked.headers["allow"]) == (204, allow)
    assert (wrong.status_code, wrong.headers["allow"]) == (405, allow)


@pytest.mark.parametrize("path", ["/api", "/api/v2/runs", "/api//v1/runs", "//api/v1/runs"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_an_address_beside_the_api_is_no_page_of_the_web_ui(stranger, method, path):
    response = stranger(method, f"http://localhost{path}", raw=True)

    assert (response.status_code, problem(response)) == (404, "RouteNotFound")


@pytest.mark.parametrize(("name", "status"), [("a" * 5000, 200), ("a" * 5000 + ".js", 404)])
def test_an_address_that_no_file_can_have_is_no_fault_of_the_server(stranger, name, status):
    assert stranger("GET", f"/{name}", raw=True).status_code == status


def test_a_request_may_name_the_whole_address(admin):
    async def ask():
        sent = []

        async def send(message):
            sent.append(message)

        scope = {
            "type": "http",
            "method": "GET",
            "path": "http://localhost/api/v1/me",
            "raw_path": b"http://localhost/api/v1/me",
            "query_string": b"",
            "headers": [(b"authorization", admin.headers["Authorization"].encode())],
        }
        await admin.app(scope, None, send)
        return json.loads(sent[1]["body"])

    assert asyncio.run(ask())["name"] == admin.name


def test_a_run_that_cannot_be_deleted_says_why(engine, admin):
    engine.start("elsewhere", id="waits")

    responses = [admin("DELETE", f"/runs/{run_id}") for run_id in ("waits", "unknown")]

    assert [problem(each) for each in responses] == ["RunNotFinished", "RunNotFound"]
    assert engine.run("waits").status == "pending"


def test_a_caller_that_is_too_fast_is_slowed_down(engine):
    maker = ApiClient.maker(engine, app(engine, rate="3/h"))
    fast, other = maker("viewer"), maker("viewer")

    answers = [fast("GET", "/runs").status_code for _ in range(4)]

    assert answers == [200, 200, 200, 429]
    assert fast("GET", "/runs").headers["retry-after"]
    assert other("GET", "/runs").status_code == 200


@pytest.mark.parametrize("key", ["", "x" * 201])
def test_an_idempotency_key_has_a_length(admin, key):
    response = admin("POST", "/runs", {"workflow": "x"}, headers={"Idempotency-Key": key})

    assert (response.status_code, problem(response)) == (400, "BadRequest")


def test_a_request_cannot_name_a_file_of_the_server(admin, tmp_path):
    path = tmp_path / "model.bpmn"
    path.write_text("<definitions/>", "utf-8")

    response = admin("POST", "/models", {"sources": [str(path)]})

    assert response.status_code == 422
    assert admin.json("GET", "/models")["items"] == []


def test_what_another_database_has_issued_is_refused(engine, admin, stranger, tmp_path):
    with Engine(tmp_path / "other.db", workflows=WORKFLOWS, shutdown_timeout=1) as other:
        for each in (engine, other):
            each.start("server.leased", id="leased")
            each.start("server.ask", id="asks").wait_until("waiting", timeout="30s")
        foreign = ApiClient.maker(other, app(other))("admin")
        page = {"Content-Type": "application/json", "Sec-Fetch-Site": "same-origin"}
        secret = other.api_keys.add("ann", roles="admin").api_key
        cookie = foreign("POST", "/login", {"api_key": secret}, headers=page).headers["set-cookie"]
        link = other.gates.link("asks", "yes", by="ann")
        remote = foreign.json("POST", "/remote-workers", {"workflows": ["server.leased"]})
        remote = f"/remote-workers/{remote['remote_worker']}"
        (lease,) = foreign.json("POST", f"{remote}/claim")["items"]
        complete = f"/leases/{lease['proof']}/complete"
        wait = foreign.json("POST", f"/leases/{lease['proof']}/create-wait", {"name": "paid"})
        signal = {"token": wait["token"], "payload": 1}

        by_key = foreign.headers["Authorization"]
        refused = {
            "key": stranger("GET", "/runs", headers={"Authorization": by_key}),
            "cookie": stranger("GET", "/runs", headers={"Cookie": cookie.partition(";")[0]}),
            "link": stranger("POST", f"/answer/{link}", content=b"", raw=True),
            "answer": stranger("POST", "/answers", {"token": link}),
            "token": stranger("POST", f"/waits/{wait['id']}/signals", signal),
            "proof": admin("POST", complete, {"result": 1}),
            "worker": admin("POST", f"{remote}/claim"),
        }

    assert {name: answer.status_code for name, answer in refused.items()} == {
        "key": 401,
        "cookie": 401,
        "link": 401,
        "answer": 401,
        "token": 401,
        "proof": 409,
        "worker": 404,
    }
    assert [engine.run(id).status for id in ("asks", "leased")] == ["waiting", "pending"]

"""Who may do what: API keys, rights, login sessions, hosts and origins."""

import pytest

from holdfast import Engine
from holdfast.server import app
from holdfast.server.operation_table import OPERATIONS
from holdfast.testing.clock import VirtualClock
from tests.server.clients import ApiClient, problem

PAGE = {"Content-Type": "application/json", "Sec-Fetch-Site": "same-origin"}
ROLES = {
    "viewer": {"view"},
    "starter": {"start"},
    "approver": {"decide"},
    "worker": {"work"},
    "operator": {"view", "start", "decide", "operate"},
}


@pytest.mark.parametrize("role", ROLES)
def test_a_role_has_its_rights_and_no_others(connect, role):
    client = connect(role)

    for operation in OPERATIONS:
        if operation.media == "text/event-stream":
            continue  # it would not end
        path = operation.path
        for name in operation.in_path:
            path = path.replace("{" + name + "}", "unknown")
        response = client(operation.method, path)
        needed = {right.value for right in (operation.right, operation.other_right) if right}
        is_refused = response.status_code == 403 and problem(response) == "RightMissing"
        assert is_refused == bool(needed and not needed & ROLES[role]), operation.name
        assert response.status_code < 500, (operation.name, response.text)


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Bearer",
        "Bearer hf_x",
        "Basic cm9vdDp4",
        "Bearer hf_01m7p3vw8r2xed1kha791gkeww_" + "x" * 43,
    ],
)
def test_an_unknown_key_is_refused_without_a_reason(stranger, header):
    known = stranger("GET", "/runs", headers={"Authorization": header} if header else {})
    unknown = stranger(
        "GET", "/no/such/address", headers={"Authorization": header} if header else {}
    )

    assert (known.status_code, problem(known)) == (401, "NotAuthenticated")
    assert known.json() == unknown.json()
    assert known.headers["www-authenticate"].startswith("Bearer")


def test_revoked_and_expired_keys_are_refused(connect, engine, tmp_path):
    revoked = connect("viewer", name="gone")
    assert revoked("GET", "/runs").status_code == 200

    engine.api_keys.revoke("gone")

    assert revoked("GET", "/runs").status_code == 401
    assert engine.api_keys.list()[0].state == "revoked"


def test_an_expired_key_is_refused(tmp_path):
    clock = VirtualClock()
    with Engine(tmp_path / "expired.db", clock=clock, work=False) as engine:
        client = ApiClient.maker(engine, app(engine))("starter", expires="1h")
        body = {"workflow": "elsewhere"}
        assert client("POST", "/runs", body).status_code == 201

        clock.advance("2h")

        assert problem(client("POST", "/runs", body)) == "NotAuthenticated"
        assert problem(client("GET", "/runs")) == "NotAuthenticated"
        assert engine.runs().count() == 1


def test_the_key_of_a_start_is_confirmed_where_the_start_is_committed(both, monkeypatch):
    with Engine(both, work=False) as engine:
        asgi = app(engine)
        connect = ApiClient.maker(engine, asgi)
        starter, other = connect("starter", name="gone"), connect("starter")
        body = {"workflow": "elsewhere"}
        for client in (starter, other):
            assert client("POST", "/runs", body).status_code == 201

        async def read_by_itself(text):
            raise AssertionError("the key of a start is read by itself")

        monkeypatch.setattr(asgi.gatekeeper._api_keys, "answer", read_by_itself)
        assert starter("POST", "/runs", body).status_code == 201
        engine.api_keys.revoke("gone")
        refused = (starter("POST", "/runs", body), starter("POST", "/tasks", {"task": "elsewhere"}))

        assert {problem(response) for response in refused} == {"NotAuthenticated"}
        assert other("POST", "/runs", body).status_code == 201
        assert engine.runs().count() == 4


def test_the_secret_of_a_key_is_shown_once(engine, admin, caplog):
    added = admin.json("POST", "/api-keys", {"name": "ci", "roles": ["starter"], "expires": "90d"})
    secret = added["api_key"].rpartition("_")[2]

    listed = admin("GET", "/api-keys").text

    assert secret not in listed and "digest" not in listed
    assert secret not in caplog.text
    assert secret not in repr(engine.api_keys.add("other", roles="viewer"))
    assert {key.name: key.created_by for key in engine.api_keys.list()}["ci"] == admin.name


def test_a_read_only_server_refuses_every_change(engine):
    client = ApiClient.maker(engine, app(engine, read_only=True))("admin")

    assert client("GET", "/runs").status_code == 200
    assert problem(client("POST", "/runs", {"workflow": "x"})) == "RightMissing"
    assert problem(client("GET", "/api-keys")) == "RightMissing"
    assert engine.runs().count() == 0


def test_a_browser_logs_in_once_with_a_link_and_out(engine):
    import asyncio

    from holdfast.server.serving import one_time_link

    asgi = app(engine)
    link = asyncio.run(one_time_link(asgi, "ann"))
    stranger = ApiClient(asgi, {})

    opened = stranger("POST", "/login", {"link": str(link)}, headers=PAGE)
    again = stranger("POST", "/login", {"link": str(link)}, headers=PAGE)
    cookie = opened.headers["set-cookie"]
    browser = ApiClient(asgi, {"Cookie": cookie.partition(";")[0]})

    assert again.status_code == 401
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(cookie.split("; "))
    assert browser.json("GET", "/me")["rights"] == sorted(
        {"view", "start", "decide", "work", "operate", "admin"}
    )
    assert browser("POST", "/logout", headers=PAGE).status_code == 204
    assert browser("GET", "/me").status_code == 401


def test_a_login_ends_with_its_api_key(engine):
    asgi = app(engine)
    key = engine.api_keys.add("ann", roles="operator")
    opened = ApiClient(asgi, {})("POST", "/login", {"api_key": key.api_key}, headers=PAGE)
    browser = ApiClient(asgi, {"Cookie": opened.headers["set-cookie"].partition(";")[0]})
    assert browser.json("GET", "/me")["name"] == "ann"

    engine.api_keys.revoke("ann")

    assert browser("GET", "/me").status_code == 401


@pytest.mark.parametrize(
    ("headers", "is_accepted"),
    [
        ({"Sec-Fetch-Site": "same-origin"}, True),
        ({"Origin": "http://localhost"}, True),
        ({"Sec-Fetch-Site": "cross-site"}, False),
        ({"Sec-Fetch-Site": "same-site"}, False),
        ({"Origin": "http://evil.example"}, False),
        ({"Origin": "http://localhost:81"}, False),
        ({"Origin": "null"}, False),
        ({}, False),
        ({"Sec-Fetch-Site": "same-origin", "Content-Type": "text/plain"}, False),
    ],
)
def test_a_cookie_changes_something_only_from_a_page_of_the_server(engine, headers, is_accepted):
    asgi = app(engine)
    key = engine.api_keys.add("ann", roles="operator")
    opened = ApiClient(asgi, {})("POST", "/login", {"api_key": key.api_key}, headers=PAGE)
    cookie = opened.headers["set-cookie"].partition(";")[0]
    browser = ApiClient(asgi, {"Cookie": cookie, "Content-Type": "application/json"})

    response = browser("POST", "/runs", content=b'{"workflow": "elsewhere"}', headers=headers)

    assert response.status_code == (201 if is_accepted else 403)
    assert engine.runs(workflow="elsewhere").count() == int(is_accepted)


@pytest.mark.parametrize(
    ("host", "is_known"),
    [
        ("localhost:4653", True),
        ("127.0.0.1", True),
        ("[::1]:4653", True),
        ("flows.example.org", True),
        ("FLOWS.example.org:8080", True),
        ("evil.example", False),
        ("localhost.evil.example", False),
        ("", False),
        ("[", False),
    ],
)
def test_the_server_answers_for_its_own_names_only(engine, host, is_known):
    client = ApiClient.maker(engine, app(engine, hosts=["flows.example.org"]))("viewer")

    response = client("GET", "/runs", headers={"Host": host})

    assert response.status_code == (200 if is_known else 421)


def test_every_answer_has_the_security_headers(admin):
    for response in (
        admin("GET", "/runs"),
        admin("GET", "/nothing"),
        admin("GET", "/x.js", raw=True),
    ):
        assert response.headers["content-security-policy"].startswith("default-src 'self'")
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["referrer-policy"] == "no-referrer"
        assert response.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    "path",
    [
        "/../app.py",
        "/%2e%2e/app.py",
        "/..%2fapp.py",
        "/.hidden",
        "/a%00.js",
        "/v0.1.0/../../app.py",
    ],
)
def test_no_file_outside_the_folder_of_the_ui_is_served(stranger, path):
    response = stranger("GET", path, raw=True)

    assert response.status_code in (200, 404)
    assert "ServerApp" not in response.text

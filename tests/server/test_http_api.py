"""The HTTP API: runs, lists, gates, settings, and what a caller may see of them."""

import asyncio
import sqlite3
from contextlib import closing

import psycopg
import pytest

from holdfast import AsyncEngine, Engine, step, workflow
from holdfast.server import Caller, app
from holdfast.server.masking import HIDDEN_TEXT
from tests.bpmn.models import flows, process_of
from tests.server.clients import ApiClient, problem
from tests.server.conftest import WORKFLOWS


def test_a_run_is_started_awaited_and_read(both):
    with Engine(both, workflows=WORKFLOWS, shutdown_timeout=1) as engine:
        client = ApiClient.maker(engine, app(engine))("starter", "viewer")

        started = client("POST", "/runs", {"workflow": "server.double", "args": [2**60 + 1]})
        run_id = started.json()["id"]
        result = client.json("GET", f"/runs/{run_id}/result?wait=20s")

        assert started.status_code == 201
        assert result == {
            "id": run_id,
            "status": "completed",
            "done": True,
            "result": 2 * (2**60 + 1),
        }
        assert client.json("GET", f"/runs/{run_id}")["input"] == [2**60 + 1]
        assert client("GET", f"/runs/{run_id}/values/result").content == b"%d" % (2**61 + 2)
        kinds = [event["kind"] for event in client.json("GET", f"/runs/{run_id}/history")["items"]]
        assert kinds == ["run_completed"]
        assert client.json("GET", f"/runs/{run_id}/why")["status"] == "completed"


def test_an_async_engine_is_served_too(tmp_path):
    async def call():
        async with AsyncEngine(tmp_path / "async.db", workflows=WORKFLOWS) as engine:
            key = await engine.api_keys.add("ci", roles=["starter", "viewer"])
            client = ApiClient(app(engine), {"Authorization": f"Bearer {key.api_key}"})
            started = await client.ask("POST", "/runs", {"workflow": "server.double", "args": [4]})
            return await client.ask("GET", f"/runs/{started.json()['id']}/result?wait=20s")

    assert asyncio.run(call()).json()["result"] == 8


def test_lists_are_read_in_pages(admin, engine):
    ids = [run.id for run in engine.start_many("elsewhere", range(5))]

    first = admin.json("GET", "/runs?limit=2&workflow=elsewhere")
    second = admin.json("GET", f"/runs?limit=2&workflow=elsewhere&cursor={first['next']}")
    last = admin.json("GET", f"/runs?limit=2&workflow=elsewhere&cursor={second['next']}")

    pages = [[run["id"] for run in page["items"]] for page in (first, second, last)]
    assert [run_id for page in pages for run_id in page] == ids[::-1]
    assert last["next"] is None
    assert admin.json("GET", "/runs/count?workflow=elsewhere&status=pending,failed") == {"count": 5}


def test_schedules_are_read_in_pages(admin, engine):
    for name in ("c", "a", "b"):
        engine.schedules.set(name, "server.double", cron="0 3 * * *", args=[1], paused=True)

    first = admin.json("GET", "/schedules?limit=2")
    rest = admin.json("GET", f"/schedules?limit=2&cursor={first['next']}")

    pages = [[schedule["name"] for schedule in page["items"]] for page in (first, rest)]
    assert pages == [["a", "b"], ["c"]]
    assert rest["next"] is None


def test_a_run_id_may_contain_any_character(admin, engine):
    run = engine.start("elsewhere", id="order/7 ü?#%")

    assert admin.json("GET", "/runs/order%2F7%20%C3%BC%3F%23%25")["id"] == run.id
    assert admin.json("POST", "/runs/order%2F7%20%C3%BC%3F%23%25/cancel")["status"] == "cancelled"


def test_an_idempotency_key_belongs_to_its_api_key(connect):
    first, second = connect("starter"), connect("starter")
    body = {"workflow": "server.double", "args": [1]}
    key = {"Idempotency-Key": "once"}

    one = first("POST", "/runs", body, headers=key)
    again = first("POST", "/runs", body, headers=key)
    other_caller = second("POST", "/runs", body, headers=key)
    other_body = first("POST", "/runs", {**body, "args": [2]}, headers=key)

    assert again.json() == {"id": one.json()["id"], "created": False}
    assert other_caller.json()["created"]
    assert (other_body.status_code, problem(other_body)) == (409, "RunExists")


def test_a_schedule_is_triggered_once_per_idempotency_key(both):
    with Engine(both, workflows=WORKFLOWS, work=False) as engine:
        admin = ApiClient.maker(engine, app(engine))("admin")
        engine.schedules.set("hourly", "server.double", interval="1h", overlap="queue")
        once = {"headers": {"Idempotency-Key": "once"}}

        first = admin.json("POST", "/schedules/hourly/trigger", {}, **once)
        again = admin.json("POST", "/schedules/hourly/trigger", {}, **once)
        other = admin("POST", "/schedules/hourly/trigger", {}, headers={"Idempotency-Key": "two"})
        queued = admin.json("POST", "/schedules/hourly/trigger", {})
        taken = admin("POST", "/schedules/hourly/trigger", {"id": engine.start("x").id})

        assert engine.runs(workflow="server.double").count() == 1
    assert first["created"] and not again["created"]
    assert (first["run"], first["at"]) == (again["run"], again["at"])
    assert problem(other) == "ScheduleBusy" and queued["run"] is None
    assert problem(taken) == "RunExists"


def test_a_backfill_may_be_repeated(engine, admin):
    engine.schedules.set("daily", "server.double", cron="0 3 * * *", paused=True)
    period = {"since": "3d", "until": "0s"}

    started = admin.json("POST", "/schedules/daily/backfill", period)["items"]
    again = admin.json("POST", "/schedules/daily/backfill", period)["items"]

    assert len(started) == 3 and all(tick["created"] for tick in started)
    assert [tick["run"] for tick in again] == [tick["run"] for tick in started]
    assert not any(tick["created"] for tick in again)


@pytest.mark.parametrize(
    ("path", "body", "another"),
    [
        (
            "/graphs",
            {"graph": {"members": {"a": {"workflow": "server.double"}}}},
            {"graph": {"members": {"b": {"workflow": "server.double"}}}},
        ),
        (
            "/flows",
            {"controller": "c", "goal": "g", "owner": "ann"},
            {"controller": "c", "goal": "another", "owner": "ann"},
        ),
        (
            "/runs/batch",
            {"workflow": "server.double", "items": [1, 2]},
            {"workflow": "server.double", "items": [1, 3]},
        ),
        ("/messages", {"name": "paid", "ttl": "1h"}, None),
    ],
)
def test_what_an_idempotency_key_has_created_is_created_once(connect, path, body, another):
    admin = connect("admin")
    once = {"headers": {"Idempotency-Key": "once"}}

    first = admin.json("POST", path, body, **once)
    again = admin.json("POST", path, body, **once)
    elsewhere = connect("admin").json("POST", path, body, **once)

    if path == "/messages":
        assert (first["effect"], again["effect"]) == ("kept", "duplicate")
        assert elsewhere["effect"] == "kept"
        return
    names = [answer.get("id") or answer["items"] for answer in (first, again, elsewhere)]
    assert names[0] == names[1] != names[2]
    assert admin("POST", path, another, **once).status_code == 409


def test_a_decision_is_recorded_under_the_name_of_the_api_key(connect, engine):
    run = engine.start("server.ask", who="ann")
    run.wait_until("waiting", timeout="20s")
    ann, bob = connect("approver", name="ann"), connect("approver", name="bob")
    (gate,) = ann.json("GET", "/gates")["items"]

    hidden = bob("POST", f"/gates/{gate['id']}/decisions", {"choice": "yes"})
    forged = ann("POST", f"/gates/{gate['id']}/decisions", {"choice": "yes", "by": "root"})
    decided = ann.json("POST", f"/gates/{gate['id']}/decisions", {"choice": "yes"})

    assert bob.json("GET", "/gates")["items"] == []
    assert (hidden.status_code, problem(hidden)) == (404, "GateNotFound")
    assert (forged.status_code, problem(forged)) == (403, "RightMissing")
    assert [entry["person"] for entry in decided["entries"] if entry["choice"]] == ["ann"]
    assert run.result(timeout="20s") == "yes"
    assert ann("GET", "/runs").status_code == 403


def test_an_admin_acts_for_others_and_the_history_says_so(admin, engine):
    run = engine.start("server.ask", who="ann")
    run.wait_until("waiting", timeout="20s")

    decided = admin.json("POST", f"/gates/{run.id}/approve", {"by": "ann"})

    entry = decided["entries"][-1]
    assert (entry["person"], entry["feedback"]) == ("ann", f"recorded by {admin.name}")


def test_an_admin_makes_a_link_for_another_person(admin, engine, stranger):
    run = engine.start("server.ask", who="ann")
    run.wait_until("waiting", timeout="20s")

    token = admin.json("POST", f"/gates/{run.id}/links", {"choice": "no", "by": "ann"})["token"]
    answered = stranger.json("POST", "/answers", {"token": token})

    assert answered["entries"][-1]["person"] == "ann"
    assert run.result(timeout="20s") == "no"


def test_settings_are_changed_by_operators(connect):
    operator = connect("operator")

    operator.json("PATCH", "/lanes/slow", {"concurrency": 2, "rate": "10/s"})
    operator.json("PUT", "/budgets/team", {"limits": {"eur": 1.10, "tokens": "1000"}})
    schedule = {"workflow": "server.double", "interval": "1h", "args": [1]}
    operator.json("PUT", "/schedules/often", schedule)
    operator.json("POST", "/schedules/often/pause", {"reason": "holiday"})

    assert operator.json("GET", "/lanes/slow")["rate"] == "10/s"
    limits = operator.json("GET", "/budgets/team")["dimensions"]
    assert {name: line["hard"] for name, line in limits.items()} == {"eur": 1.1, "tokens": 1000}
    assert operator.json("GET", "/schedules/often")["paused"] == "holiday"
    assert operator.json("GET", "/overview")["live"]["running"] == 0
    assert operator("DELETE", "/schedules/often").status_code == 204


def test_a_key_of_a_namespace_sees_nothing_else(connect, engine):
    outside = engine.start("elsewhere")
    acme = connect("admin", namespace="acme")

    inside = acme.json("POST", "/runs", {"workflow": "server.double"})["id"]

    assert [run["id"] for run in acme.json("GET", "/runs")["items"]] == [inside]
    for verb, path in (("GET", ""), ("GET", "/history"), ("GET", "/why"), ("POST", "/cancel")):
        missing = acme(verb, f"/runs/{outside.id}{path}")
        unknown = acme(verb, f"/runs/unknown{path}")
        assert (missing.status_code, problem(missing)) == (404, "RunNotFound")
        assert missing.json()["title"] == unknown.json()["title"]
    for path in ("/api-keys", "/budgets", "/lanes", "/keys", "/logins", "/runs?namespace=default"):
        assert problem(acme("GET", path)) == "NamespaceBound"
    assert engine.run(outside.id).status == "pending"


def test_a_server_of_a_namespace_serves_no_key_of_another(connect, engine, tmp_path):
    outside = engine.start("elsewhere")
    keys = [connect("admin"), connect("admin", namespace="acme"), connect("admin", namespace="x")]
    with closing(Engine(tmp_path / "server.db", namespace="acme", workflows=[])) as bound:
        inside = bound.start("elsewhere")
        of_all, of_acme, of_another = (ApiClient(app(bound), key.headers) for key in keys)

        for client in (of_all, of_acme):
            assert [run["id"] for run in client.json("GET", "/runs")["items"]] == [inside.id]
            assert problem(client("GET", f"/runs/{outside.id}")) == "RunNotFound"
        for verb, path in (("GET", "/runs"), ("GET", "/overview"), ("POST", "/runs")):
            assert problem(of_another(verb, path, {"workflow": "w"})) == "NamespaceBound"


def test_a_key_without_values_sees_none(connect, engine):
    run = engine.start("server.double", 21)
    run.result(timeout="20s")
    client = connect("viewer", values=False)

    seen = [
        client("GET", path).text
        for path in ("/runs", f"/runs/{run.id}", f"/runs/{run.id}/history", f"/runs/{run.id}/why")
    ]

    assert [
        text for text in seen if "42" in text.replace(run.id, "") and '"result":42' in text
    ] == []
    assert client("GET", f"/runs/{run.id}/values/result").status_code == 403
    assert "hidden" in client.json("GET", f"/runs/{run.id}")["result"]
    assert "hidden" in client.json("GET", f"/runs/{run.id}/why")["reason"]


def test_a_program_vouches_for_its_own_users(engine):
    def who(request):
        user = request.headers.get("x-user")
        return None if user is None else Caller(name=user, roles=["operator"])

    client = ApiClient(app(engine, who=who), {})

    assert client("GET", "/runs").status_code == 401
    assert client.json("GET", "/me", headers={"X-User": "ann"})["name"] == "ann"


def test_a_mounted_app_answers_below_its_prefix(tmp_path):
    from starlette.applications import Starlette
    from starlette.routing import Mount

    with closing(Engine(tmp_path / "mounted.db", work=False)) as engine:
        key = engine.api_keys.add("root", roles=["admin"])
        outer = Starlette(routes=[Mount("/a b/ü", app(engine))])
        client = ApiClient(
            outer, {"Authorization": f"Bearer {key.api_key}"}, "/a%20b/%C3%BC/api/v1"
        )

        assert client.json("GET", "/me")["name"] == "root"
        assert client("GET", "/a%20b/%C3%BC/healthz", raw=True).text == "ok\n"


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_probes_need_no_key(stranger, path):
    assert stranger("GET", path, raw=True).status_code == 200


def test_a_closed_engine_is_not_ready(tmp_path):
    engine = Engine(tmp_path / "closed.db", work=False)
    client = ApiClient(app(engine), {})
    engine.close()

    response = client("GET", "/readyz", raw=True)

    assert (response.status_code, problem(response)) == (503, "EngineClosed")
    assert response.headers["retry-after"]
    assert "closed.db" not in response.text


def test_a_server_whose_tables_were_migrated_by_a_newer_version_is_not_ready(both):
    with Engine(both, work=False) as engine:
        client = ApiClient(app(engine), {})
        execute(both, "UPDATE {} SET number = 9999 WHERE number = 1")
        response = client("GET", "/readyz", raw=True)
        execute(both, "UPDATE {} SET number = 1 WHERE number = 9999")

        assert client("GET", "/readyz", raw=True).status_code == 200

    assert (response.status_code, problem(response)) == (503, "StoreTooNew")
    assert "facts" not in response.json()


def test_a_server_whose_tables_are_too_old_is_not_ready(tmp_path, engine, stranger):
    execute(str(tmp_path / "server.db"), "DELETE FROM {} WHERE number = 1")

    response = stranger("GET", "/readyz", raw=True)

    assert (response.status_code, problem(response)) == (503, "MigrationDue")


def execute(database, statement):
    """Change the table of migrations as another process would."""
    if database.startswith("postgres"):
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute(statement.format("holdfast.migration"))
    else:
        with closing(sqlite3.connect(database, isolation_level=None)) as connection:
            connection.execute(statement.format("holdfast_migration"))


def test_versions_and_step_values_are_shown(engine, admin):
    run = engine.start("server.double", 21)
    run.result(timeout="20s")
    engine.start("elsewhere", version="7")

    versions = admin.json("GET", "/versions")["items"]
    missing = admin("GET", f"/runs/{run.id}/values/step/none")

    assert versions == [{"workflow": "elsewhere", "version": "7", "live": 1, "served": False}]
    assert problem(missing) == "StepNotFound"


@step(keep_args=True)
async def charge(order: str, *, amount: int = 1) -> str:
    return f"paid {order}"


@workflow(name="server.charging")
async def charging() -> str:
    return await charge("a", amount=3)


def test_kept_arguments_of_steps_are_shown_to_keys_that_see_values(engine, connect):
    run = engine.start(charging)
    run.result(timeout="30s")

    (shown,) = connect("viewer").json("GET", f"/runs/{run.id}/steps")["items"]
    (hidden,) = connect("viewer", values=False).json("GET", f"/runs/{run.id}/steps")["items"]

    assert shown["args"] == {"args": ["a"], "kwargs": {"amount": 3}}
    assert hidden["args"] == HIDDEN_TEXT


def test_the_overview_counts_live_runs_and_recent_outcomes(both):
    with Engine(both, workflows=WORKFLOWS) as engine:
        connect = ApiClient.maker(engine, app(engine))
        for run in [engine.start("server.double", number) for number in range(3)]:
            run.result(timeout="20s")
        first = engine.start("elsewhere")
        engine.start("elsewhere", namespace="acme").cancel("not needed")
        other = engine.start("elsewhere", namespace="acme")

        whole = connect("viewer").json("GET", "/overview")
        bound = connect("viewer", namespace="acme").json("GET", "/overview")

    assert whole["live"]["pending"] == 2 and bound["live"]["pending"] == 1
    assert (whole["oldest_ready_run"], bound["oldest_ready_run"]) == (first.id, other.id)
    assert whole["oldest_ready"] <= bound["oldest_ready"] <= whole["now"]
    assert len(whole["outcomes"]) == 60
    assert totals(whole) == {"completed": 3, "failed": 0, "cancelled": 1, "expired": 0}
    assert totals(bound) == {"completed": 0, "failed": 0, "cancelled": 1, "expired": 0}
    assert whole["outcomes_since"] == whole["outcomes"][0]["minute"]


def totals(overview):
    names = [name for name in overview["outcomes"][0] if name != "minute"]
    return {name: sum(minute[name] for minute in overview["outcomes"]) for name in names}


WRONG = "workflow orders\n\nstep one\n  unknown thing\n"


def test_texts_are_checked_and_nothing_is_stored(engine, connect):
    viewer = connect("viewer")
    bpmn = process_of('<startEvent id="s"/><userTask id="u"/>' + flows("s u"), id="checked-order")

    wrong = viewer.json("POST", "/check", {"text": WRONG, "path": "orders.wf"})
    uses = viewer.json("POST", "/check", {"text": 'use "/etc/passwd"\n' + WRONG})
    model = viewer.json("POST", "/check", {"text": bpmn.decode(), "kind": "bpmn"})
    broken = viewer.json("POST", "/check", {"text": "<a>", "kind": "dmn"})
    unknown = viewer("POST", "/check", {"text": "", "kind": "java"})

    assert not wrong["ok"] and wrong["problems"][0]["path"] == "orders.wf"
    assert wrong["problems"][0]["line"] >= 1
    assert "no such file" not in str(uses) and "cannot be read" not in str(uses)
    assert model["ok"] and model["summary"] == {"processes": ["checked-order"]}
    assert [problem["code"] for problem in broken["problems"]] == ["unreadable"]
    assert problem(unknown) == "BadOption"
    assert engine.models.list() == []

"""``holdfast graphs``."""

from __future__ import annotations

import json

import pytest

from holdfast import Engine

CHECKOUT = {
    "name": "checkout",
    "members": {
        "first": {"workflow": "parcel", "args": ["a"]},
        "wait": {"workflow": "listener", "kwargs": {"name": "go"}},
        "last": {
            "workflow": "parcel",
            "args": [{"$result": "first"}],
            "after": [{"of": ["wait"], "need": "any"}],
        },
    },
}


@pytest.fixture
def write(tmp_path):
    def write(document) -> str:
        path = tmp_path / f"{len(list(tmp_path.glob('*.json')))}.json"
        path.write_text(json.dumps(document))
        return str(path)

    return write


@pytest.fixture
def graph(call, write):
    call.start("shop.py:listener")  # there is a database
    return call.text("graphs", "start", write(CHECKOUT)).strip()


def test_a_graph_is_started_shown_and_explained(call, graph):
    shown = call.text("graphs", "show", graph)
    assert "├─ first  pending  parcel" in shown
    assert "last  waiting  parcel  after wait; first" in shown
    assert "flowchart TD" in call.text("graphs", "show", "last", "--mermaid")
    data = call.json("graphs", "show", graph[:12])
    assert (data["status"], data["revision"]) == ("running", 1)
    assert [member["state"] for member in data["members"]] == ["started", "started", "waiting"]
    assert "1 more of: wait (started)" in call.text("graphs", "why", graph, "last")
    assert call.json("why", f"{graph}::last")["status"] == "waiting"
    assert call.items("graphs", "events", graph)[0]["kind"] == "graph_started"
    assert "member_started" in call.text("graphs", "events", graph)


def test_a_long_chain_is_shown_to_its_end(call, graph, write):
    links = {
        f"m{place}": {"workflow": "parcel", "after": [f"m{place - 1}"] if place else []}
        for place in range(1200)
    }
    chain = call.text("graphs", "start", write({"members": links})).strip()
    lines = call.text("graphs", "show", chain).splitlines()
    assert lines[-1].endswith("└─ m1199  waiting  parcel  after m1198")
    assert max(map(len, lines)) < 200


def test_graphs_are_listed(call, graph):
    assert [each_graph["id"] for each_graph in call.items("graphs")] == [graph]
    assert call.items("graphs", "--status", "failed") == []
    assert "checkout" in call.text("graphs")


def test_the_last_graph_is_the_newest_whatever_ids_people_choose(call, graph, write):
    call.text("graphs", "start", write(CHECKOUT), "--id", "order-7")
    newest = call.text("graphs", "start", write(CHECKOUT)).strip()
    assert call.json("graphs", "show", "last")["id"] == newest


def test_a_graph_grows_is_cancelled_and_pruned(call, graph, write):
    more = write(
        {
            "members": {
                "more": {"workflow": "parcel", "args": ["b"], "after": ["last"]},
                "last": {"after": ["first"]},
            }
        }
    )
    assert "depends on that one already" in call.error("graphs", "extend", graph, more)
    more = write({"members": {"more": {"workflow": "parcel", "args": ["b"], "after": ["last"]}}})
    assert "Another caller has changed the graph" in call.error(
        "graphs", "extend", graph, more, "--revision", "7"
    )
    assert "revision 2" in call.text("graphs", "extend", graph, more, "--revision", "1")
    assert call.json("graphs", "cancel", graph, "--policy", "graph")["status"] == "cancelled"
    assert "has ended" in call.error("graphs", "cancel", graph)
    assert "was cancelled" in call.error("graphs", "wait", graph)
    assert "1 graphs deleted" in call.text("graphs", "prune", "--older-than", "0s", "--yes")


def test_a_run_that_exists_joins_and_the_events_of_graphs_are_shown(call, graph):
    run = call.start("shop.py:listener")

    assert "revision 2" in call.text("graphs", "join", graph, run, "--name", "solo")
    assert "revision 2" in call.text("graphs", "join", graph, run, "--name", "solo")

    members = call.json("graphs", "show", graph)["members"]
    assert {member["name"]: member["run"] for member in members}["solo"] == run
    shown = call.text("events", "--source", "graphs", "--run", graph, "--kind", "member_joined")
    assert shown.count("member_joined") == 1
    assert "solo" in shown


def test_a_member_is_done_again(call, write, database):
    call.start("shop.py:listener")
    graph = call.text(
        "graphs",
        "start",
        write(
            {
                "members": {
                    "a": {"workflow": "failing"},
                    "b": {"workflow": "failing", "after": ["a"]},
                }
            }
        ),
    )
    graph = graph.strip()
    with Engine(str(database), workflows=[]) as engine:
        engine.cancel(f"{graph}::a")
        with pytest.raises(Exception, match="did not complete"):
            engine.graphs.result(graph, timeout=20)

    assert "running" in call.text("graphs", "replay", graph, "b")
    assert [member["state"] for member in call.json("graphs", "show", graph)["members"]] == [
        "started",
        "waiting",
    ]


def test_wrong_words_are_one_clear_line(call, graph, write):
    assert "no such graph" in call.error("graphs", "show", "nobody")
    assert "no such member" in call.error("graphs", "replay", graph, "nobody")
    assert "not valid" in call.error("graphs", "start", write({"members": {}}), code=2)
    bad = {
        "members": {
            "good": {"workflow": "parcel", "args": ["a"]},
            "bad": {"workflow": "parcel", "options": {"lane": 7}},
        }
    }
    assert "member='bad', option='lane'" in call.error("graphs", "start", write(bad), code=2)
    ring = {
        "members": {
            "a": {"workflow": "parcel", "after": ["b"]},
            "b": {"workflow": "parcel", "after": ["a"]},
        }
    }
    assert "depend on each other" in call.error("graphs", "start", write(ring))
    assert "belongs to another graph" in call.error(
        "graphs", "start", write({"members": {"a": {"workflow": "x"}}}), "--id", graph
    )


def test_a_graph_is_exported_with_its_members(call, graph, tmp_path):
    target = str(tmp_path / "one-graph.db")
    assert call.text("db", "export", graph, target).splitlines() == [
        f"2 runs copied to {target}",
        "some runs have not ended: they continue in the original database, and the copy is sealed"
        " (see `holdfast db unseal`)",
    ]
    data = json.loads(call.text("--db", target, "graphs", "show", graph, "--json"))
    assert {member["name"]: member["state"] for member in data["members"]} == {
        "first": "started",
        "wait": "started",
        "last": "waiting",
    }
    assert (
        json.loads(call.text("db", "export", graph, str(tmp_path / "again.db"), "--json"))["graph"]
        == graph
    )

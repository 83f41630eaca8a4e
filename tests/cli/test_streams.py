"""``tail``, ``events`` and ``subscriptions``; what ``show`` says of progress."""

from __future__ import annotations

import base64
import json

import pytest

import holdfast
from holdfast import Engine, Retry, step, workflow
from holdfast.codecs import Encrypted
from holdfast.streams import emit, null, progress, stream


@step(retries=1, delay="1ms")
def chat() -> None:
    stream().write("two\nlines\n")
    emit({"n": 1}, name="count")
    stream("summary").patch({"a": 1})
    stream("summary").patch({"a": None, "b": null, "c": {"d": None}})
    stream().write(b"\x00")
    if holdfast.info().attempt == 1:
        raise Retry("again")


@workflow(name="cli_chatting")
async def chatting() -> str:
    progress(40, "nearly there")
    emit("begins")
    await chat.aio()
    return "done"


@pytest.fixture
def run(database):
    with Engine(database, shutdown_timeout=1) as engine:
        run = engine.start(chatting, tags={"customer": "7"})
        run.result(timeout=20)
        return run.id


def lines(text):
    return [json.loads(line) for line in text.splitlines()]


def test_tail_shows_who_put_out_what_and_what_replaces_it(call, run):
    text = call.text("tail", run)

    assert text.splitlines()[:6] == [
        "begins",
        "chat: two",
        "chat: lines",
        'chat: count {"n":1}',
        'chat: summary 1: {"a":1}',
        'chat: summary 2: {"b":null}, deletes a, c.d',
    ]
    assert "-- chat runs again: the output of attempt 2 replaces the output before" in text
    assert "chat: 1 bytes" in text
    assert call.text("tail", "-f", run).splitlines()[-1] == "-- the run is completed"


def test_tail_as_json_is_one_object_per_line(call, run):
    frames = lines(call.text("tail", run, "--json"))

    assert [frame["seq"] for frame in frames] == list(range(1, 12))
    assert frames[1] | {"at": ""} == {
        "seq": 2,
        "stream": 2,
        "step": "chat",
        "attempt": 1,
        "generation": 1,
        "kind": "stdout",
        "mode": "durable",
        "at": "",
        "value": "two\nlines\n",
        "name": None,
        "nulls": None,
        "version": None,
        "supersedes": None,
        "superseded_by": 3,
    }
    assert [frame["seq"] for frame in lines(call.text("tail", run, "--json", "--after", 9))] == [
        10,
        11,
    ]
    assert lines(call.text("tail", run, "--json", "--step", "other")) == []


def test_show_tells_the_progress(call, run):
    assert "progress  40 % nearly there" in call.text("show", run)
    assert json.loads(call.text("show", run, "--json"))["progress"]["percent"] == 40


def test_events_are_shown_from_a_cursor_on(call, run):
    events = lines(call.text("events", "--json"))

    assert [event["kind"] for event in events] == [
        "step_retried",
        "step_completed",
        "run_completed",
    ]
    after = call.text("events", "--after", events[0]["cursor"])
    assert [line.split()[-1] for line in after.splitlines()] == [
        event["cursor"] for event in events[1:]
    ]
    chosen = (
        "--kind",
        "completions",
        "--tag",
        "customer=7",
        "--workflow",
        "cli_chatting",
        "--run",
        run,
    )
    assert len(call.text("events", *chosen).splitlines()) == 1
    assert len(call.text("events", "--limit", 2).splitlines()) == 2
    assert len(call.text("events", "--name", "me", "--limit", 2).splitlines()) == 2
    assert len(call.text("events", "--name", "me").splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("events", "--after", "elsewhere.1.1"), 1),
        (("events", "--kind", "never"), 2),
        (("events", "--tag", "x"), 2),
        (("tail", "nothing-like-it"), 1),
        (("tail", "last", "--after", "x"), 2),
        (("events", "webhooks", "set", "a", "ftp://nowhere"), 2),
        (("events", "webhooks", "remove", "nobody", "--yes"), 1),
        (("events", "webhooks", "redeliver", "nobody"), 1),
        (("events", "webhooks", "dead-letters", "nobody"), 1),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(call, run, words, code):
    assert call.error(*words, code=code)


def test_webhooks_are_added_listed_and_removed(call, run):
    added = json.loads(
        call.text(
            "events",
            "webhooks",
            "set",
            "hook",
            "https://example.org/x",
            "--kind",
            "completions",
            "--json",
        )
    )
    listed = call.text("events", "subscriptions")
    (one,) = json.loads(call.text("events", "subscriptions", "--json"))["items"]

    assert len(added["secret"]) == 64
    assert added["secret"] not in listed + json.dumps(one)
    assert (one["name"], one["kind"], one["url"]) == ("hook", "webhook", "https://example.org/x")
    assert "hook  webhook" in listed
    assert call.text("events", "webhooks", "dead-letters", "hook").startswith("RUN")
    assert (
        call.text("events", "webhooks", "redeliver", "hook")
        == "0 dead letters queued for another delivery\n"
    )
    assert (
        call.text("events", "webhooks", "remove", "hook", "--yes") == "subscription hook removed\n"
    )
    assert json.loads(call.text("events", "subscriptions", "--json"))["items"] == []


def test_without_its_key_a_blob_is_shown_in_words_too(database, call, monkeypatch):
    monkeypatch.delenv("HOLDFAST_KEYS", raising=False)
    with Engine(
        database,
        codec=Encrypted({"k1": base64.b64encode(b"1" * 32).decode()}, "k1"),
        shutdown_timeout=1,
    ) as engine:
        run = engine.start(chatting)
        run.result(timeout=20)

    text = call.text("tail", run.id)
    assert "encrypted with key k1" in text
    assert "bytes" not in text

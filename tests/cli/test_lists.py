"""Lists of the command line: each has pages and says how to get the next one; options that take
several values accept them repeated and separated by commas; commands that delete ask first."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import click
import pytest

from holdfast import Engine, workflow
from holdfast.cli.main import cli
from holdfast.cli.params import _flatten
from holdfast.graphs import Graph


@workflow(name="lists.noted")
async def noted() -> None:
    pass


def commands(command: click.Command = cli, path: str = "") -> Iterator[tuple[str, click.Command]]:
    """Yield every command that can be called, with its words."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            part = command.get_command(context, name)
            assert part is not None
            yield from commands(part, f"{path} {name}".strip())
    if not isinstance(command, click.Group) or command.invoke_without_command:
        yield path, command


COMMANDS = dict(commands())

WITH_COMMAS = {("run", "inputs"), ("run", "variables")}
"""Options that are only repeated: their values are texts for a workflow and may contain commas."""


def test_all_options_with_several_values_take_them_repeated_and_separated_by_commas():
    options = [
        (path, option)
        for path, command in COMMANDS.items()
        for option in command.params
        if isinstance(option, click.Option) and option.multiple
    ]

    assert len(options) > 30
    assert [
        (path, option.name)
        for path, option in options
        if option.callback is not _flatten and (path, option.name) not in WITH_COMMAS
    ] == []


@pytest.mark.parametrize("weights", [["gold=3,tin=1"], ["gold=3", "tin=1"]])
def test_weights_are_repeated_or_separated(call, weights):
    options = [word for weight in weights for word in ("--weight", weight)]

    assert call.json("lanes", "set", "mail", *options)["weights"] == {"gold": 3, "tin": 1}


def test_soft_limits_are_repeated_or_separated(call):
    call("budgets", "set", "team", "tokens=9", "money=9", "--soft", "tokens=1,money=2")
    call("budgets", "set", "crew", "tokens=9", "money=9", "--soft", "tokens=1", "--soft", "money=2")

    (crew, team) = (budget["dimensions"] for budget in call.items("budgets"))
    assert crew == team
    assert {name: line["soft"] for name, line in team.items()} == {"tokens": 1, "money": 2}
    assert "amount" in call.error("budgets", "set", "x", "tokens=9", "--soft", "tokens=1,", code=2)


@pytest.mark.parametrize(
    "words",
    [
        ["--lane", "a,b"],
        ["--lane", "a", "--lane", "b"],
        ["--workflow", "mail,post"],
        ["--workflow", "mail", "--workflow", "post"],
        ["--version", "1,2"],
        ["--version", "1", "--version", "2"],
    ],
)
def test_runs_are_selected_by_several_names(call, database, words):
    with closing(Engine(database)) as engine:
        for name, lane, version in (("mail", "a", "1"), ("post", "b", "2"), ("print", "c", "3")):
            engine.start(name, id=name, lane=lane, version=version)

    assert [run["id"] for run in call.items("runs", *words)] == ["post", "mail"]
    first = call.json("runs", *words, "--limit", "1")
    assert [run["id"] for run in first["items"]] == ["post"]
    (line,) = [
        text
        for text in call.text("runs", *words, "--limit", "1").splitlines()
        if text.startswith("next page: ")
    ]
    following = line.split()[line.split().index("runs") :]
    assert [run["id"] for run in call.items(*following)] == ["mail"]
    call("cancel", *words, "--force", "--yes")
    assert [run["id"] for run in call.items("runs", "--live")] == ["print"]


@pytest.mark.parametrize(
    "words",
    [
        ["runs", "--limit", "1", "--limit", "2"],
        ["runs", "--since", "1h", "--live", "--since=1h"],
        ["cancel", "x", "--reason", "a", "--reason", "b"],
        ["gates", "--workflow", "a", "--workflow", "b"],
        ["gates", "show", "x", "--db", "a", "--db", "b"],
        ["--namespace", "a", "--namespace", "b", "runs"],
        ["events", "webhooks", "set", "x", "--attempts", "1", "--attempts", "2"],
    ],
)
def test_an_option_with_one_value_is_refused_if_it_is_given_twice(call, words):
    name = next(word for word in reversed(words) if word.startswith("--")).partition("=")[0]

    message = call.error(*words, code=2)

    assert f"option '{name}' is given twice, but takes one value (see holdfast" in message


def test_a_database_is_named_once(call, database):
    run = call.start("shop.py:listener")

    twice = call.error("--db", database, "runs", "--db", database, code=2)

    assert "option '--db' is given twice" in twice
    assert [found["id"] for found in call.items("--db", database, "runs", "--live", "--live")] == [
        run
    ]


DELETING = {"delete", "prune", "remove", "unsubscribe", "apply"}
"""The last words of commands that delete."""


def test_every_command_that_deletes_asks_first():
    deleting = {path for path in COMMANDS if path.rpartition(" ")[2] in DELETING}
    asking = {path for path, command in COMMANDS.items() if _has(command, "yes")}

    assert len(deleting) > 10
    assert deleting - asking == set()


def _has(command: click.Command, *names: str) -> bool:
    return set(names) <= {option.name for option in command.params}


def test_every_list_has_pages():
    """A group that can be called without a command prints a list, except `db`; so do the commands
    of LISTING."""
    paged = {path for path, command in COMMANDS.items() if _has(command, "limit", "after")}
    groups = {path for path, command in COMMANDS.items() if isinstance(command, click.Group)}

    assert len(groups) > 10
    assert groups - {"", "db"} - paged == set()
    listing = {path for path in COMMANDS if path.rpartition(" ")[2] in LISTING}
    assert len(listing) > 8
    assert listing - paged == set()


LISTING = {"list", "runs", "audit", "attempts", "children", "incidents", "tokens", "dead-letters"}
LISTING |= {"subscriptions", "steps"}
"""The last words of further commands that print lists."""


@pytest.fixture
def filled(call, database):
    """A database with three things of each kind."""
    for name in ("a", "b", "c"):
        call("schedules", "set", name, "shop.py:parcel", '"x"', "--cron", "0 2 * * *")
        call("budgets", "set", name, "tokens=5")
        call("lanes", "set", name, "--concurrency", "5")
        call("db", "retention", "set", name, "--older-than", "30d")
        call("events", "webhooks", "set", name, "https://example.org/hook")
        call("flows", "create", "research", name, "--owner", "ann")
        call("db", "keys", "rotate", "--grace", "7d")
        call("api-keys", "add", name, "--role", "viewer")
    with closing(Engine(database)) as engine:
        for _ in range(3):
            graph = Graph()
            graph.add(noted)
            engine.graphs.start(graph)
    return call


@pytest.mark.parametrize(
    "name",
    [
        "flows",
        "graphs",
        "graphs events last",
        "schedules",
        "budgets",
        "lanes",
        "api-keys list",
        "audit",
        "db keys",
        "db retention",
        "events subscriptions",
        "events webhooks",
    ],
)
def test_a_list_is_read_page_by_page(filled, name):
    words = name.split()
    everything = filled.items(*words)
    assert len(everything) >= 2

    items, cursor = [], None
    for _ in everything:
        after = [] if cursor is None else ["--after", cursor]
        page = filled.json(*words, "--limit", "1", *after)
        items += page["items"]
        cursor = page["next"]

    assert items == everything
    assert cursor is None
    first = filled.json(*words, "--limit", "1")["next"]
    assert f"{' '.join(words)} --limit 1 --after {first}" in filled.text(*words, "--limit", "1")
    assert "next page" not in filled.text(*words)


def test_a_cursor_that_a_list_does_not_have_is_wrong_usage(filled):
    assert "begin again without --after" in filled.error(
        "events", "webhooks", "--after", "z", code=2
    )

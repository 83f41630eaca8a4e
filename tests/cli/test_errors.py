"""Whatever goes wrong is one line on stderr, an exit code, and no traceback."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys

import click
import pytest

from holdfast.cli import main

LOOKING = [
    ["runs"],
    ["show", "last"],
    ["why", "last"],
    ["signal", "last", "x"],
    ["cancel", "last"],
    ["resume", "last"],
    ["replay", "last"],
    ["fork", "last"],
    ["db", "export", "last", "copy.db"],
    ["db", "prune", "--older-than", "1d", "--yes"],
    ["lanes"],
    ["workers"],
    ["budgets"],
    ["db", "retention"],
    ["schedules"],
    ["db", "keys"],
    ["db", "backup", "copy.db"],
    ["tasks", "claim", "--lane", "x"],
    ["db", "check"],
    ["db", "info"],
    ["doctor"],
]


@pytest.mark.parametrize("words", LOOKING, ids=" ".join)
def test_looking_creates_no_database(call, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HOLDFAST_DB")

    assert "there is no database holdfast.db" in call.error(*words)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("words", "look"),
    [
        (["tasks", "submit", "render", "3"], ["runs"]),
        (["graphs", "start", "graph.json"], ["graphs"]),
        (["flows", "create", "research", "compare", "--owner", "me"], ["flows"]),
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_starting_something_creates_it(call, tmp_path, monkeypatch, words, look):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HOLDFAST_DB")
    (tmp_path / "graph.json").write_text('{"members": {"a": {"workflow": "render", "args": [1]}}}')

    name = call(*words).stdout.split()[0]

    assert name in call(*look, "--json").stdout


@pytest.mark.parametrize(
    "words",
    [
        ["lanes", "set", "x", "--pause"],
        ["budgets", "set", "team", "tokens=5"],
        ["db", "keys", "rotate"],
        ["db", "retention", "set", "old", "--older-than", "30d"],
        ["events", "webhooks", "set", "billing", "https://example.org/hook"],
    ],
    ids=" ".join,
)
def test_setting_something_creates_it(call, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HOLDFAST_DB")

    call(*words)

    group = words[: next(place for place, word in enumerate(words) if word in ("set", "rotate"))]
    assert len(call.items(*group)) == 1


@pytest.mark.parametrize("words", [words for words in LOOKING if "last" in words], ids=" ".join)
def test_there_may_be_no_run_yet(call, database, words):
    call.start("shop.py:parcel", '"a"')
    call("cancel", "last", "--force")
    call("db", "prune", "--older-than", "0s", "--yes")

    assert "the database has no runs yet" in call.error(*words)


@pytest.mark.parametrize("words", [words for words in LOOKING if "last" in words], ids=" ".join)
def test_an_unknown_run_is_one_line(call, words):
    call.start("shop.py:parcel", '"a"')

    line = call.error(*["nosuchrun" if word == "last" else word for word in words])

    assert "There is no such run" in line
    assert "nosuchrun" in line


def test_a_file_that_is_no_database(call, database):
    database.write_bytes(b"this is a text, not a database, and long enough to be sure of it\n" * 50)

    assert "not a sound database" in call.error("runs")
    assert "not a sound database" in call.error("run", "shop.py:parcel", '"a"')


def test_a_damaged_database(call, database):
    call.run("shop.py:parcel", '"a"')
    whole = database.read_bytes()
    database.write_bytes(whole[:100] + b"\xff" * (len(whole) - 100))

    assert "not a sound database" in call.error("runs")


def test_an_empty_file_is_left_alone(call, database):
    database.touch()

    assert "is empty" in call.error("runs")
    assert database.read_bytes() == b""


def test_a_folder_is_no_database(call, tmp_path):
    assert "it is a folder" in call.error("--db", tmp_path, "runs")


@pytest.mark.parametrize("url", ["mysql://host/db", "sqlite://", ":memory:"])
def test_an_url_that_names_no_database(call, url):
    line = call.error("--db", url, "run", "shop.py:parcel", '"a"', code=2)

    assert "Holdfast does not understand this database URL" in line


@pytest.mark.parametrize(
    "words, code, told",
    [
        (["run", "shop.py:parcel", "{"], 2, "is not JSON"),
        (["run", "shop.py:parcel", "abc"], 2, "a string needs quotes"),
        (["signal", "last", "paid", "{'a': 1}"], 2, "is not JSON"),
        (["run", "shop.py:parcel", '"a"', "--delay", "soon"], 2, "neither a duration such as 1h"),
        (
            ["run", "shop.py:parcel", '"a"', "--tag", "customer"],
            2,
            "is not a tag such as customer=7",
        ),
        (
            ["run", "shop.py:parcel", '"a"', "--priority", "5000"],
            2,
            "whole number from -1000 to 1000",
        ),
        (["run", "shop.py:parcel", '"a"', "--priority", "high"], 2, "not a valid int"),
        (["run", "shop.py"], 2, "use MODULE:NAME"),
        (["run"], 2, "Missing argument"),
        (["run", "nothing_deployed", "{}"], 2, "neither a deployed process or text"),
        (["run", "nowhere.py:parcel"], 1, "there is no file nowhere.py"),
        (["run", "nowhere:parcel"], 1, "there is no module 'nowhere'"),
        (["run", "nowhere.deep:parcel"], 1, "there is no module 'nowhere.deep'"),
        (["run", "shop.py:nothing"], 1, "its workflows are branches, calling, checkout"),
        (["run", "shop.py:not_a_workflow"], 1, "is not a workflow but a int"),
        (["run", "shop.py:pack"], 1, "is not a workflow but a Step"),
        (["run", "empty.py:x"], 1, "the module defines no workflow with @workflow"),
        (["run", "broken.py:x"], 1, "importing broken.py failed: ValueError: half-written"),
        (["run", "needy.py:x"], 1, "No module named 'no_such_thing'"),
        (["run", "syntax.py:x"], 1, "SyntaxError"),
        (
            ["worker", "shop.py:not_a_workflow"],
            1,
            "not an Engine, a workflow or a list of workflows",
        ),
        (["worker", "shop.py:nothing"], 1, "has no nothing"),
        (["worker", "shop.py", "--concurrency", "0"], 2, "not in the range"),
        (["worker", "shop.py:some", "--shutdown-timeout", "long"], 2, "is not a duration"),
        (["runs", "--status", "finished"], 2, "is not valid: use pending"),
        (["runs", "--since", "yesterday"], 2, "neither a duration"),
        (["runs", "--limit", "0"], 2, "not in the range"),
        (["lanes", "set", "mail"], 2, "nothing to set"),
        (["lanes", "set", "mail", "--rate", "fast"], 2, "write it like 10/s"),
        (["lanes", "set", "mail", "--concurrency", "many"], 2, "neither a number nor"),
        (["lanes", "set", "mail", "--weight", "gold"], 2, "not a weight such as gold=3"),
        (["lanes", "set", "mail", "--rate-per-share", "fast"], 2, "rate_per_share"),
        (["lanes", "set", "", "--concurrency", "1"], 2, "lane"),
        (["runs", "--nonsense"], 2, "No such option"),
        (["nonsense"], 2, "No such command 'nonsense'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_bad_input_is_one_line_and_the_right_exit_code(call, words, code, told):
    call.start("shop.py:parcel", '"a"')

    assert told in call.error(*words, code=code)


def test_what_nobody_foresaw_names_the_exception_and_how_to_see_more(call, monkeypatch):
    call.start("shop.py:parcel", '"a"')
    monkeypatch.setattr("holdfast.connect.open_database.open_store", lambda url, **_: 1 / 0)

    assert (
        call.error("runs")
        == "holdfast: unexpected ZeroDivisionError: division by zero (set HOLDFAST_DEBUG=1 for the"
        " traceback)"
    )

    monkeypatch.setenv("HOLDFAST_DEBUG", "1")
    assert "Traceback (most recent call last)" in call("runs", code=1).stderr


def test_the_log_is_as_it_was_after_a_worker_that_could_not_start(call):
    log = logging.getLogger("holdfast")
    before = (log.handlers, log.level, log.propagate)

    call.error("worker", "shop.py:nothing")

    assert (log.handlers, log.level, log.propagate) == before


def test_an_interrupt_is_130(call, monkeypatch):
    call.start("shop.py:parcel", '"a"')

    def interrupted(url, **_):
        raise KeyboardInterrupt

    monkeypatch.setattr("holdfast.connect.open_database.open_store", interrupted)

    assert call("runs", code=130).stdout == ""


def test_a_pipe_that_nobody_reads_is_silent(call, env, folder):
    for number in range(50):
        call.start("shop.py:parcel", f'"{number}"')
    listing = subprocess.Popen(
        [sys.executable, "-m", "holdfast", "runs", "--json"],
        env=env,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert listing.stdout is not None
    listing.stdout.close()

    _, stderr = listing.communicate(timeout=60)

    assert stderr == b""
    assert listing.returncode != 0


def test_importing_holdfast_loads_neither_click_nor_rich(env):
    program = "import sys, holdfast; sys.exit(bool({'click', 'rich'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", program], env=env).returncode == 0


def test_the_version_and_the_help_are_no_errors(call):
    assert call.text("--version").startswith("holdfast, version ")
    assert "Commands:" in call.text("--help")


@pytest.mark.parametrize("words", [[], ["db"]])
def test_without_a_command_the_help_is_shown(call, words):
    assert "Commands:" in call(*words, code=2).stderr


def every_command():
    context = click.Context(main.cli, info_name="holdfast")
    subcommands = [
        (name, main.cli.get_command(context, name)) for name in main.cli.list_commands(context)
    ]
    inner = [
        (f"{name} {each_name}", command.commands[each_name])
        for name, command in subcommands
        if hasattr(command, "commands")
        for each_name in command.commands
    ]
    return subcommands + inner


@pytest.mark.parametrize(
    "name, command", every_command(), ids=lambda value: value if isinstance(value, str) else None
)
def test_every_command_and_option_has_help_and_an_example(name, command):
    assert command.help
    assert "holdfast " in (command.epilog or "")
    for option in command.params:
        if isinstance(option, click.Option):
            assert option.help, option.name
            assert option.is_flag or option.name == "db" or "E.g." in option.help, option.name


def test_looking_leaves_the_database_of_somebody_else_alone(call, tmp_path):
    import sqlite3

    path = tmp_path / "other.db"
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE theirs (a)")
    db.commit()
    db.close()
    before = path.read_bytes()

    assert "no tables of Holdfast" in call.error("runs", "--db", str(path))
    assert path.read_bytes() == before


def test_json_that_cannot_be_read_is_refused_in_one_line(call):
    assert "not valid Unicode" in call.error("signal", "last", "x", '"\udcff"', code=2)
    assert "nested too deeply" in call.error("signal", "last", "x", "[" * 100_000, code=2)


def test_with_json_an_error_is_one_json_object(call):
    call.start("shop.py:parcel", '"a"')

    result = call("show", "nosuchrun", "--json", code=1)

    assert result.stdout == ""
    assert json.loads(result.stderr) == {
        "error": "RunNotFound",
        "message": "There is no such run: `holdfast runs` lists the runs. (run='nosuchrun')",
        "hint": "`holdfast runs` lists the runs.",
        "facts": {"run": "nosuchrun"},
    }


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (["runs", "--status", "lost", "--json"], 2, "UsageError"),
        (["--json", "nonsense"], 2, "UsageError"),
        (["--json", "schedules", "show", "none"], 1, "ScheduleNotFound"),
        (["budgets", "set", "team", "to kens=1", "--json"], 2, "BadOption"),
        (["schedules", "remove", "none", "--json"], 2, "UsageError"),
    ],
    ids=lambda words: words[0] if isinstance(words, list) else None,
)
def test_errors_as_json_have_the_same_exit_codes(call, words, code, error):
    call.start("shop.py:parcel", '"a"')

    result = call(*words, code=code)

    report = json.loads(result.stderr)
    assert (result.stdout, report["error"]) == ("", error)
    assert report["message"]
    assert set(report) == {"error", "message", "hint", "facts"}


DELETING = [
    ["budgets", "remove", "team"],
    ["lanes", "remove", "mail"],
    ["workers", "remove", "gpu-1"],
    ["api-keys", "revoke", "ci"],
    ["db", "backup", "shop.py"],
    ["db", "prune", "--older-than", "0s"],
    ["db", "retention", "remove", "old"],
    ["db", "retention", "apply"],
    ["schedules", "remove", "nightly"],
    ["events", "unsubscribe", "mirror"],
    ["events", "webhooks", "remove", "billing"],
    ["graphs", "prune", "--older-than", "0s"],
    ["flows", "prune", "--older-than", "0s"],
    ["delete", "last"],
    ["delete", "--status", "completed"],
]


@pytest.mark.parametrize("words", DELETING, ids=" ".join)
def test_a_command_that_deletes_asks_first(call, words):
    call.run("shop.py:parcel", '"a"')

    assert "use --yes" in call.error(*words, code=2)

    assert len(call.json("runs")["items"]) == 1


ONLY_AT_A_TERMINAL = {
    "signal",
    "cancel",
    "resume",
    "replay",
    "release",
    "prioritise",
    "migrate",
}
"""The commands that change many runs and delete none: without a terminal they do not ask."""


def test_every_command_that_deletes_is_known_here():
    def deleting(command, path=()):
        if isinstance(command, click.Group):
            for name in command.list_commands(click.Context(command)):
                inner = command.get_command(click.Context(command), name)
                yield from deleting(inner, (*path, name))
        elif any(option.name == "yes" for option in command.params):
            yield path
        else:
            assert path[-1] not in ("remove", "prune", "delete"), path

    for path in deleting(main.cli):
        known = any(tuple(words[: len(path)]) == path for words in DELETING)
        assert known or path[-1] in ONLY_AT_A_TERMINAL, path


@pytest.mark.parametrize(
    "words",
    [
        ["--status", "completed", "--status", "pending"],
        ["--status", "completed,pending"],
        ["--tag", "a=1", "--tag", "b=2,3"],
        ["--tag", "a=1,b=2,3"],
    ],
    ids=" ".join,
)
def test_several_values_are_repeated_or_separated_by_commas(call, words):
    call.run("shop.py:parcel", '"a"', "--tag", "a=1", "--tag", "b=2,3")
    call("run", "shop.py:failing", code=1)

    (run,) = call.json("runs", *words)["items"]

    assert run["tags"] == {"a": "1", "b": "2,3"}


def test_the_top_level_is_small():
    names = (
        "demo run worker serve mcp ui runs show why tags signal cancel resume replay release"
        " prioritise delete fork tail approve reject gates waits tasks graphs flows models"
        " schedules budgets lanes operations workers api-keys audit events db check fmt draw"
        " lsp dmn bench doctor"
    )

    assert " ".join(main.COMMANDS) == names

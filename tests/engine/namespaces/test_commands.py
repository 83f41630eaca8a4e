"""Every command respects the namespace that is named."""

from __future__ import annotations

from collections.abc import Iterator

import click
from click.testing import CliRunner

from holdfast.cli.main import cli
from tests.bpmn.models import process_of
from tests.engine.databases import execute
from tests.engine.namespaces.things import theirs_stored

COMMANDS = {
    "": "",
    "runs": "",
    "show": "{run}",
    "why": "{run}",
    "tail": "{done}",
    "events": "",
    "events subscriptions": "",
    "events unsubscribe": "hush-reader --yes",
    "events webhooks": "",
    "events webhooks set": "hush-hook https://example.org/hush",
    "events webhooks dead-letters": "hush-hook",
    "events webhooks remove": "hush-hook --yes",
    "events webhooks redeliver": "hush-hook",
    "signal": "{run} hush-signal",
    "gates": "",
    "gates answer": "{link}",
    "gates link": "{gate} approve --by hush-ann",
    "gates show": "{gate}",
    "gates update": "{gate} 1",
    "gates withdraw": "{gate}",
    "api-keys add": "ours-key --role viewer",
    "api-keys list": "",
    "api-keys revoke": "hush-key --yes",
    "approve": "{gate} --by hush-ann",
    "reject": "{gate} --by hush-ann",
    "gates decide": "{gate} approve --by hush-ann",
    "gates delegate": "{gate} --to bob --by hush-ann",
    "gates reassign": "{gate} --to bob",
    "waits": "--run {run}",
    "waits token": "{wait}",
    "waits release": "{run}",
    "cancel": "{run}",
    "resume": "{run}",
    "tags": "{run} --set a=b",
    "replay": "{done}",
    "release": "{run}",
    "prioritise": "{run} 5",
    "delete": "{done} --yes",
    "audit": "",
    "operations": "",
    "operations list": "",
    "operations show": "{operation}",
    "operations stop": "{operation}",
    "operations wait": "{operation}",
    "fork": "{done}",
    "db export": "{done} {folder}/cli.db",
    "db prune": "--older-than 0s --yes",
    "models": "",
    "models activate": "hush-model 1",
    "models broadcast": "hush-broadcast",
    "models complete": "{task}",
    "models deploy": "{folder}/model.bpmn",
    "models deprecate": "hush-model 1",
    "models incidents": "--run {model_run}",
    "models message": "hush-message",
    "models migrate": "{model_run} --to 2",
    "models modify": "{model_run} --add x",
    "models resume": "{model_run}",
    "models retry": "{incident}",
    "models set": "{model_run} {{}}",
    "models show": "hush-model",
    "models skip": "{incident}",
    "models start-activity": "{model_run} hush-scope hush-activity",
    "models suspend": "{model_run}",
    "models tasks": "--run {model_run}",
    "models throw": "{task} hush-code",
    "models tokens": "{model_run}",
    "models trace": "{model_run}",
    "models trigger": "{model_run} hush-element",
    "models variables": "{model_run}",
    "schedules": "",
    "schedules backfill": "hush-schedule --since 1d",
    "schedules next": "hush-schedule",
    "schedules pause": "hush-schedule",
    "schedules remove": "hush-schedule --yes",
    "schedules resume": "hush-schedule",
    "schedules show": "hush-schedule",
    "schedules trigger": "hush-schedule",
    "db retention": "",
    "db retention apply": "--yes",
    "db retention remove": "x --yes",
    "db retention set": "x --older-than 1d",
    "lanes": "",
    "lanes set": "default --pause",
    "lanes remove": "default --yes",
    "budgets": "",
    "budgets raise": "x tokens=1",
    "budgets refund": "{done}",
    "budgets remove": "x --yes",
    "budgets usage": "{done}",
    "budgets reset": "x",
    "budgets set": "x tokens=1",
    "budgets show": "x",
    "budgets spend": "x tokens=1",
    "workers": "",
    "workers remove": "hush-holder --yes",
    "tasks cancel": "{proof}",
    "tasks claim": "--workflow hush-task",
    "tasks complete": "{proof}",
    "tasks delay": "{proof} 1m",
    "tasks emit": "{proof} 1",
    "tasks fail": "{proof} permanent x",
    "tasks override": "{run} x",
    "tasks priority": "{run} 1",
    "tasks progress": "{proof} 1",
    "tasks reclaim": "{run}",
    "tasks renew": "{proof}",
    "tasks revoke": "{run}",
    "tasks attempts": "{run}",
    "tasks children": "{proof}",
    "tasks start": "{proof} x",
    "tasks wait-children": "{proof}",
    "tasks spend": "{proof} tokens=1",
    "tasks submit": "ours-task",
    "tasks suspend": "{proof} x",
    "tasks wait": "{proof} x",
    "flows": "",
    "flows advance": "{flow} {{}}",
    "flows cancel": "{flow}",
    "flows create": "c g --owner o",
    "flows deliver": "{flow} topic correlation",
    "flows fail": "{flow} x",
    "flows finish": "{flow}",
    "flows observe": "{flow} name running --task x",
    "flows prune": "--older-than 0s --yes",
    "flows resume": "{flow}",
    "flows show": "{flow}",
    "flows start": "{flow}",
    "flows wait": "{flow} --until 1h",
    "flows set": "{flow} --goal x",
    "flows steps": "{flow}",
    "flows deliver-all": "topic correlation",
    "flows append-event": "{flow} x",
    "flows wake": "",
    "graphs": "",
    "graphs cancel": "{graph}",
    "graphs events": "{graph}",
    "graphs extend": "{graph} {folder}/graph.json",
    "graphs join": "{graph} {run}",
    "graphs prune": "--older-than 0s --yes",
    "graphs replay": "{graph} hush-member",
    "graphs show": "{graph}",
    "graphs start": "{folder}/graph.json",
    "graphs wait": "{graph} --timeout 1s",
    "graphs why": "{graph} hush-member",
    "db keys": "",
    "db keys rotate": "",
    "db keys generate": "",
    "db": "",
    "db check": "",
    "db backup": "{folder}/backup.db",
    "db copy": "{database} {folder}/copy.db",
    "db info": "",
    "db rekey": "",
    "db unseal": "",
    "doctor": "",
    "check": "--live",
}

BY_CODE = {"demo", "run", "worker", "bench", "schedules set"}
"""The commands that open an engine with that namespace and run code of the user, or need no
database."""

OF_FILES = {"dmn", "draw", "fmt", "lsp"}
"""The commands that read files, and no database."""

SERVERS = {"mcp", "serve", "ui"}
"""The commands that serve an engine with that namespace until they are stopped."""


def commands(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[str]:
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            subcommand = command.get_command(click.Context(command), name)
            assert subcommand is not None
            yield from commands(subcommand, (*path, name))
    if not isinstance(command, click.Group) or command.invoke_without_command:
        yield " ".join(path)


def test_every_command_respects_the_namespace_that_is_named(database, things, tmp_path):
    before = theirs_stored(database)
    (tmp_path / "graph.json").write_text('{"members": {"only": {"workflow": "ours-task"}}}')
    (tmp_path / "model.bpmn").write_bytes(process_of('<startEvent id="s"/>', id="ours-model"))
    assert set(commands(cli)) == set(COMMANDS) | BY_CODE | OF_FILES | SERVERS
    leaks = []
    for command, text in COMMANDS.items():
        given = text.format(**things._asdict(), folder=tmp_path, database=database).split()
        done = CliRunner().invoke(
            cli, ["--db", database, "--namespace", "ours", *command.split(), *given]
        )
        said = done.output
        named = [part for word in given for part in (word, *word.split("@"))]
        for one in sorted([*named, database, things.proof.split(".")[0]], key=len, reverse=True):
            said = said.replace(one, "...")
        crashed = done.exception is not None and not isinstance(done.exception, SystemExit)
        misused = done.exit_code == 2 and command not in ("", "db")
        if crashed or misused or "hush" in said:
            leaks.append(f"{command}: {done.output} {done.exception!r}")

    assert "\n".join(leaks) == ""
    assert theirs_stored(database) == before


def test_a_key_that_is_added_in_a_namespace_is_bound_to_it(database):
    def add(name: str, *options: str) -> str:
        bound = ["--db", database, "--namespace", "ours", "api-keys", "add", name]
        return CliRunner().invoke(cli, [*bound, "--role", "admin", *options]).output

    add("own")
    add("named", "--namespace", "ours")
    refused = add("other", "--namespace", "theirs")

    rows = execute(database, "SELECT name, namespace FROM holdfast.api_key ORDER BY name")
    assert [tuple(row) for row in rows] == [("named", "ours"), ("own", "ours")]
    assert "bound to a namespace" in refused

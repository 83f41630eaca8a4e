"""``holdfast models tasks, complete, message, broadcast``: what the runs of models wait for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from holdfast.cli.context import command_context, printing
from holdfast.cli.output import print_json, print_table
from holdfast.cli.paging import paged, print_page
from holdfast.cli.params import DURATION, OBJECT
from holdfast.views.model_runs import ModelTaskView
from holdfast.views.text import seconds, short


@click.command("tasks", epilog="Example: holdfast models tasks --process order --mine ann")
@click.option("--run", metavar="RUN", help="Only tasks of this run. E.g. --run last")
@click.option("--process", metavar="NAME", help="Only tasks of this process. E.g. --process order")
@click.option("--element", metavar="ID", help="Only tasks of this element. E.g. --element approve")
@click.option(
    "--mine", metavar="NAME", help="Only user tasks that NAME may complete. E.g. --mine ann"
)
@click.option(
    "--role", metavar="NAME", help="Only user tasks that this role may complete. E.g. --role clerks"
)
@paged(limit=50)
@printing
def tasks(run: str | None, limit: int, after: str | None, **filters: Any) -> None:
    """List the open tasks of people and of remote workers, oldest first."""
    with command_context().opened() as database:
        run_id = None if run is None else database.find(run).id
        listed = database.engine.models.tasks(run=run_id, after=after, limit=limit + 1, **filters)
    print_page(listed, limit, _id, _print_tasks)


def _id(task: ModelTaskView) -> str:
    return task.id


def _print_tasks(page: Sequence[ModelTaskView]) -> None:
    rows = [
        (task.id, task.kind, task.run_id, task.element, _who(task), seconds(task.since), _due(task))
        for task in page
    ]
    print_table(("TASK", "KIND", "RUN", "ELEMENT", "WHO", "SINCE", "DUE"), rows)


def _due(task: ModelTaskView) -> str:
    return "" if task.due is None else seconds(task.due)


def _who(task: ModelTaskView) -> str:
    if task.topic is not None:
        return f"topic {task.topic}"
    return short(", ".join([*task.assignees, *task.roles]) or "anyone", 30)


@click.command(
    "complete", epilog="Example: holdfast models complete 01m7gq '{\"approved\": true}' --by ann"
)
@click.argument("task", metavar="TASK")
@click.argument("variables", metavar="[VARIABLES_JSON]", type=OBJECT, required=False)
@click.option(
    "--by", metavar="NAME", help="Who completes it; default: its first assignee. E.g. --by ann"
)
@printing
def complete(task: str, variables: dict[str, Any] | None, by: str | None) -> None:
    """Finish a user task, or an external task that no worker has claimed."""
    with command_context().opened() as database:
        database.engine.models.complete(task, variables, by)
    if command_context().as_json:
        print_json({"completed": task})
    else:
        print(f"task {task} is completed")


@click.command("throw", epilog="Example: holdfast models throw 01m7gq too-much --by ann")
@click.argument("task", metavar="TASK")
@click.argument("code", metavar="CODE")
@click.argument("variables", metavar="[VARIABLES_JSON]", type=OBJECT, required=False)
@click.option("--message", metavar="TEXT", default="", help="Why. E.g. --message 'no such person'")
@click.option("--by", metavar="NAME", help="Who throws it. E.g. --by ann")
@printing
def throw(
    task: str, code: str, variables: dict[str, Any] | None, message: str, by: str | None
) -> None:
    """Throw a BPMN error from an open task: the model catches it. A worker applies it."""
    with command_context().opened() as database:
        database.engine.models.throw(task, code, message, variables, by)
    if command_context().as_json:
        print_json({"thrown": code, "task": task})
    else:
        print(f"task {task} has thrown {code}")


@click.command(
    "message",
    epilog='Example: holdfast models message "payment received" \'{"paid": 10}\' --key order-7',
)
@click.argument("name", metavar="NAME")
@click.argument("variables", metavar="[VARIABLES_JSON]", type=OBJECT, required=False)
@click.option("--key", metavar="KEY", help="The key of the receiver. E.g. --key order-7")
@click.option(
    "--id",
    metavar="ID",
    help="The id of the message: a second one with it is a duplicate. E.g. --id mail-77",
)
@click.option(
    "--ttl",
    metavar="DURATION",
    type=DURATION,
    help="Keep the message so long if it has no receiver yet. E.g. --ttl 1h",
)
@click.option("--run", metavar="RUN", help="Only to this run. E.g. --run last")
@click.option("--element", metavar="ID", help="Only to this element. E.g. --element wait-for-money")
@printing
def message(name: str, variables: dict[str, Any] | None, run: str | None, **options: Any) -> None:
    """Send a message to one run that waits for it, or start a run with it."""
    with command_context().opened() as database:
        run_id = None if run is None else database.find(run).id
        delivery = database.engine.models.message(name, variables, run=run_id, **options)
    if command_context().as_json:
        print_json(delivery)
        return
    receiver = "" if delivery.run_id is None else f": run {delivery.run_id}"
    element = "" if delivery.element is None else f", element {delivery.element}"
    print(f"{delivery.effect}{receiver}{element}")


@click.command("broadcast", epilog="Example: holdfast models broadcast \"prices changed\" '{}'")
@click.argument("name", metavar="NAME")
@click.argument("variables", metavar="[VARIABLES_JSON]", type=OBJECT, required=False)
@printing
def broadcast(name: str, variables: dict[str, Any] | None) -> None:
    """Send a BPMN signal to all runs that wait for it, and to the start events that it starts."""
    with command_context().opened() as database:
        sent = database.engine.models.broadcast(name, variables)
    if command_context().as_json:
        print_json(sent)
        return
    print(f"{len(sent.reached)} runs reached, {len(sent.started)} started")
    for run_id in sent.started:
        print(run_id)


WORK_COMMANDS = (tasks, complete, throw, message, broadcast)

"""``holdfast models``: deploy models, list them, and choose the version of new runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click
import msgspec

from holdfast.cli.commands.model_migration import migrate
from holdfast.cli.commands.model_operators import OPERATOR_COMMANDS
from holdfast.cli.commands.model_work import WORK_COMMANDS
from holdfast.cli.context import command_context, printing
from holdfast.cli.loading import load_module
from holdfast.cli.model_files import check_files, print_checked, require_sound, sources_of
from holdfast.cli.output import print_fields, print_json, print_table
from holdfast.cli.paging import items_after, paged, print_page
from holdfast.cli.params import many
from holdfast.connect.model_procedures import SAGA
from holdfast.views.models import DeploymentView, ModelView
from holdfast.views.text import seconds

F = TypeVar("F", bound=Callable[..., Any])

EPILOG = """\b
Examples:
  holdfast models deploy order.bpmn rates.dmn --using handlers.py
  holdfast models deploy order.bpmn --check          only list its problems
  holdfast run order '{"amount": 10}'                run the process order
  holdfast models tasks                              open work of people and other programs
  holdfast models incidents                          failed elements that need an operator"""


@click.group(
    short_help="Deploy models and texts, and operate their runs.",
    epilog=EPILOG,
    invoke_without_command=True,
)
@paged(limit=50, after="bpmn:order:1")
@printing
@click.pass_context
def models(ctx: click.Context, limit: int, after: str | None) -> None:
    """List all versions of the deployed models; the commands below deploy them and operate their
    runs."""
    if ctx.invoked_subcommand is not None:
        return
    with command_context().opened() as database:
        views = [msgspec.structs.replace(view, xml=None) for view in database.engine.models.list()]
    listed = items_after(views, after, _place, limit)
    print_page(listed, limit, _place, _print_models)


def _place(model: ModelView) -> str:
    return f"{model.kind}:{model.name}:{model.version}"


def _print_models(page: Sequence[ModelView]) -> None:
    rows = [
        (model.name, model.kind, str(model.version), model.state, seconds(model.deployed_at))
        for model in page
    ]
    print_table(("MODEL", "KIND", "VERSION", "STATE", "DEPLOYED"), rows)


@models.command(
    "deploy", epilog="Example: holdfast models deploy order.bpmn rates.dmn --using handlers.py"
)
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("--check", is_flag=True, help="Only list the problems of the files.")
@many(
    "--using",
    "modules",
    metavar="MODULE",
    help=(
        "The modules that bind the handlers of tasks and the executors of texts. E.g."
        " --using handlers.py"
    ),
)
@click.option(
    "--saga",
    type=click.Choice(SAGA),
    help="What is compensated when a task has used up its retries. E.g. --saga scope",
)
@click.option(
    "--element-events",
    is_flag=True,
    help="Record an event for each element that a run enters, completes or cancels.",
)
@click.option("--by", metavar="NAME", help="Who deploys. E.g. --by ann")
@click.option("--reason", metavar="TEXT", help="The reason. E.g. --reason 'a new rate'")
@printing
def deploy(files: tuple[str, ...], check: bool, modules: list[str], **options: Any) -> None:
    """Deploy .bpmn, .dmn and .wf files, and processes as .json files: all or none. The same content
    is the same version. A .wf file is deployed with all workflows that it can call.

    With --check nothing is deployed: every problem is one line, FILE:LINE: severity element:
    message, and the exit code is 1 if one of them is an error."""
    for module in modules:
        load_module(module)
    if check:
        print_checked(check_files(files))
        return
    if not command_context().is_remote:  # a server may have other handlers than this process
        require_sound(check_files(files))
    with command_context().opened(create=True) as database:
        deployment = database.engine.models.deploy(*sources_of(files), **options)
    _print_deployment(deployment)


def _print_deployment(deployment: DeploymentView) -> None:
    if command_context().as_json:
        print_json(deployment)
        return
    for kind, versions in (("process", deployment.processes), ("decision", deployment.decisions)):
        for name, version in versions.items():
            known = "" if name in deployment.created else ", deployed before"
            print(f"{kind} {name}: version {version}{known}")


@models.command("show", epilog="Example: holdfast models show order --xml")
@click.argument("process", metavar="PROCESS")
@click.option(
    "--version",
    metavar="N",
    type=click.IntRange(min=1),
    help="This version; default: the version that new runs use. E.g. --version 2",
)
@click.option("--xml", is_flag=True, help="Print the file that was deployed.")
@printing
def show(process: str, version: int | None, xml: bool) -> None:
    """Show a deployed model and its warnings."""
    with command_context().opened() as database:
        model = database.engine.models.get(process, version)
    if command_context().as_json:
        print_json(model)
    elif xml:
        print(model.xml or "")
    else:
        _print_model(model)


def _print_model(model: ModelView) -> None:
    fields = [
        ("model", model.name),
        ("kind", model.kind),
        ("version", str(model.version)),
        ("state", model.state),
        ("deployed", seconds(model.deployed_at)),
        ("by", model.by or ""),
        ("digest", model.digest),
    ]
    print_fields(fields)
    for problem in model.problems:
        print(f"  {problem}")


def _recorded(command: F) -> F:
    by = click.option(
        "--by", metavar="NAME", help="Who does it; default: your user name. E.g. --by ann"
    )
    reason = click.option(
        "--reason", metavar="TEXT", help="The reason. E.g. --reason 'version 3 has a fault'"
    )
    return by(reason(command))


@models.command("activate", epilog="Example: holdfast models activate order 2")
@click.argument("process", metavar="PROCESS")
@click.argument("version", metavar="VERSION", type=click.IntRange(min=1))
@_recorded
@printing
def activate(process: str, version: int, by: str | None, reason: str | None) -> None:
    """Let new runs use this version."""
    person = command_context().person(by)
    with command_context().opened() as database:
        database.engine.models.activate(process, version, by=person, reason=reason)
        _print_state(database.engine.models.get(process, version))


@models.command("deprecate", epilog="Example: holdfast models deprecate order 1")
@click.argument("process", metavar="PROCESS")
@click.argument("version", metavar="VERSION", type=click.IntRange(min=1))
@_recorded
@printing
def deprecate(process: str, version: int, by: str | None, reason: str | None) -> None:
    """Let new runs use another active version; runs of this version continue."""
    person = command_context().person(by)
    with command_context().opened() as database:
        database.engine.models.deprecate(process, version, by=person, reason=reason)
        _print_state(database.engine.models.get(process, version))


def _print_state(model: ModelView) -> None:
    if command_context().as_json:
        print_json(msgspec.structs.replace(model, xml=None))
    else:
        print(f"{model.kind} {model.name}, version {model.version}, is {model.state}")


for command in (*WORK_COMMANDS, *OPERATOR_COMMANDS, migrate):
    models.add_command(command)

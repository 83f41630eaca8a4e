"""``holdfast mcp``: serve workflows and the database to an agent, over stdin and stdout."""

from __future__ import annotations

import asyncio
import logging

import click

from holdfast.cli.commands.worker import _load_workflows
from holdfast.cli.context import command_context, shared, user_name, version
from holdfast.cli.log_output import logging_to_stderr
from holdfast.cli.params import many
from holdfast.connect.blocking.engine import Engine
from holdfast.core.api_keys import Grant, checked_roles

EPILOG = """\b
Examples:
  holdfast mcp shop.flows                          tools from @workflow(tool=True) of a module
  holdfast mcp shop.flows --tool nightly_report    another workflow as a tool
  holdfast mcp --role viewer                       look at a database, and nothing else
  holdfast mcp shop.flows --role operator          also cancel and replay runs"""


@click.command(short_help="Serve an agent over MCP.", epilog=EPILOG)
@click.argument("targets", metavar="[MODULE[:NAME]]...", nargs=-1)
@many("--tool", "tools", metavar="A,B", help="Further workflows that are tools. E.g. --tool report")
@many(
    "--role",
    "roles",
    metavar="A,B",
    help="The rights of the agent; default: viewer,starter,approver. E.g. --role operator",
)
@click.option("--name", metavar="NAME", help="The name of the agent in histories. E.g. --name ann")
@click.option("--no-work", is_flag=True, help="Only start runs: a worker elsewhere executes them.")
@shared
def mcp(
    targets: tuple[str, ...], tools: list[str], roles: list[str], name: str | None, no_work: bool
) -> None:
    """Serve the workflows of the modules to an agent as tools, over stdin and stdout, until stdin
    ends. Without a module, the agent only sees the database. Runs are durable: they continue after
    this process has ended, in a worker or in the next `holdfast mcp`."""
    try:
        from holdfast.server.mcp.stdio import serve
    except ModuleNotFoundError as error:
        why = "the library is not installed: pip install 'holdfast[mcp]'"
        raise click.ClickException(why) from error
    context = command_context()
    grant = Grant(
        name=name or user_name(),
        roles=checked_roles(roles or ["viewer", "starter", "approver"]),
        namespace=context.namespace,
    )
    loaded = [_load_workflows(target) for target in targets]
    named = [workflow for workflows in loaded for workflow in workflows or ()]
    is_all = None in loaded
    engine = Engine(
        context.url,
        workflows=None if is_all else named,
        codec=context.codec(),
        namespace=context.namespace,
        read_only_values=not targets,
    )
    # stdout belongs to the protocol
    with logging_to_stderr(logging.WARNING):
        try:
            if targets and not no_work:
                engine.work()
            asyncio.run(serve(engine, grant, tools=tools, version=version()))
        finally:
            engine.close()

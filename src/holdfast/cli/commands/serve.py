"""``holdfast serve``: answer HTTP requests for a database until SIGTERM or SIGINT."""

from __future__ import annotations

import asyncio
import getpass
import logging
from typing import Any

import click

from holdfast.cli.commands.worker import _load_workflows
from holdfast.cli.context import command_context, shared
from holdfast.cli.log_output import logging_options, logging_to_stderr
from holdfast.cli.params import many
from holdfast.cli.stop_signals import StopSignals
from holdfast.connect.blocking.engine import Engine
from holdfast.server.app import app as make_app
from holdfast.server.auth import COOKIE
from holdfast.server.proxies import user_of_header
from holdfast.server.rates import DEFAULT_RATE
from holdfast.server.serving import (
    PORT,
    HttpServer,
    bound_socket,
    check_exposure,
    one_time_link,
)

log = logging.getLogger("holdfast")

EPILOG = """\b
Examples:
  holdfast serve                                   on 127.0.0.1:4653, for this machine
  holdfast serve --worker shop.py                  also execute the workflows of shop.py
  holdfast serve --host 0.0.0.0 --host-name flows.example.org
Without an API key, the server listens on loopback addresses only. `holdfast api-keys add` adds
one."""


@click.command(short_help="Serve the HTTP API and the web UI.", epilog=EPILOG)
@click.option(
    "--host",
    metavar="ADDRESS",
    default="127.0.0.1",
    show_default=True,
    help="The address to listen on. E.g. --host 0.0.0.0",
)
@click.option(
    "--port",
    metavar="N",
    type=click.IntRange(0, 65535),
    default=PORT,
    show_default=True,
    help="The port to listen on; 0 for a free one. E.g. --port 8080",
)
@many(
    "--host-name",
    "host_names",
    metavar="A,B",
    help="Host names that the server answers for, besides loopback. E.g. --host-name example.org",
)
@click.option("--read-only", is_flag=True, help="Refuse every request that changes something.")
@many(
    "--worker",
    "targets",
    metavar="MODULE",
    help="Also execute the workflows of this module, in this process. E.g. --worker shop.py",
)
@click.option(
    "--rate",
    metavar="RATE",
    default=DEFAULT_RATE,
    show_default=True,
    help="The requests that one API key may send. E.g. --rate 100/s",
)
@click.option(
    "--max-body",
    metavar="BYTES",
    type=click.IntRange(min=1024),
    default=4 * 1024 * 1024,
    show_default=True,
    help="The maximum size of a request. E.g. --max-body 1000000",
)
@click.option(
    "--trusted-proxy",
    metavar="A,B",
    help="Proxies whose X-Forwarded headers are trusted. E.g. --trusted-proxy 10.0.0.0/8",
)
@click.option(
    "--trust-user-header",
    metavar="HEADER",
    help=(
        "The header in which a trusted proxy names the person that it has authenticated."
        " E.g. --trust-user-header X-Forwarded-User"
    ),
)
@many(
    "--user-role",
    "user_roles",
    metavar="A,B",
    help="The roles of these people; default: viewer. E.g. --user-role operator",
)
@many(
    "--tools",
    "tools",
    metavar="A,B",
    help="Workflows that agents may call over MCP, besides @workflow(tool=True). E.g. --tools a,b",
)
@click.option("--no-link", is_flag=True, help="Do not print a one-time link.")
@logging_options
@shared
def serve(targets: list[str], quiet: bool, log_format: str, **options: Any) -> None:
    """Serve the HTTP API and the web UI of a database. The printed link logs a browser of this
    machine in, once, within five minutes. SIGTERM or SIGINT stops the server within two seconds,
    whatever streams are open."""
    with logging_to_stderr(logging.WARNING if quiet else logging.INFO, log_format):
        engine = _engine(targets)
        try:
            if targets:
                engine.work()
            asyncio.run(_serve(engine, **options))
        finally:
            engine.close()


def _engine(targets: list[str]) -> Engine:
    """Return an engine on the database of the command line; without *targets*, it knows no
    workflows."""
    context = command_context()
    loaded = [_load_workflows(target) for target in targets]
    named = [workflow for workflows in loaded for workflow in workflows or ()]
    return Engine(
        context.url,
        workflows=None if None in loaded else named,
        codec=context.codec(),
        namespace=context.namespace,
        read_only_values=not targets,
    )


async def _serve(
    engine: Engine,
    *,
    host: str,
    port: int,
    host_names: list[str],
    read_only: bool,
    rate: str,
    max_body: int,
    trusted_proxy: str | None,
    trust_user_header: str | None,
    user_roles: list[str],
    no_link: bool,
    tools: list[str],
) -> None:
    who = None
    if trust_user_header is not None:
        if trusted_proxy is None:
            raise click.UsageError("--trust-user-header needs --trusted-proxy")
        who = user_of_header(trust_user_header, user_roles or ["viewer"])
    bound = bound_socket(host, port)
    app = make_app(
        engine,
        who=who,
        hosts=[*host_names, host],
        read_only=read_only,
        rate=rate,
        max_body=max_body,
        tools=tools,
        # Loopback cookies are shared by all ports.
        cookie=f"{COOKIE}_{bound.getsockname()[1]}",
    )
    await check_exposure(app, host)
    stop_signals = StopSignals()
    server = HttpServer(app, bound, proxies=trusted_proxy)
    server.start()
    log.info("serving %s", server.address)
    if not no_link:
        token = await one_time_link(app, getpass.getuser())
        click.echo(f"{server.address}#login={token}")
    await stop_signals.first.wait()
    log.info("stopping")
    await server.stop()

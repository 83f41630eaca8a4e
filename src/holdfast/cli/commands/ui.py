"""``holdfast ui``: open the web UI of a database in a browser of this machine."""

from __future__ import annotations

import asyncio

import click

from holdfast.cli.context import command_context, shared
from holdfast.cli.local_ui import show_ui
from holdfast.connect.blocking.engine import Engine

EPILOG = """\b
Examples:
  holdfast ui                 open the overview
  holdfast ui order-7         open the page of a run
  holdfast ui --no-open       only print the link"""


@click.command(short_help="Open the web UI.", epilog=EPILOG)
@click.argument("run", required=False)
@click.option("--no-open", is_flag=True, help="Print the link, and open no browser.")
@shared
def ui(run: str | None, no_open: bool) -> None:
    """Open the web UI of a database, at the page of RUN if it is given. The printed link logs one
    browser of this machine in, within five minutes. Ctrl-C ends it."""
    context = command_context()
    screen = "overview"
    if run is not None:
        with context.opened() as database:
            screen = f"run/{database.find(run).id}"
    engine = Engine(
        context.url,
        workflows=[],
        work=False,
        codec=context.codec(),
        namespace=context.namespace,
        read_only_values=True,
    )
    with engine:
        asyncio.run(show_ui(engine, screen, opens_browser=not no_open))

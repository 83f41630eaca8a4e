"""Serve the web UI of a database to a browser of this machine, until SIGTERM or SIGINT."""

from __future__ import annotations

import html
import os
import sys
import tempfile
import webbrowser
from pathlib import Path
from urllib.parse import quote

import click

from holdfast.cli.context import user_name
from holdfast.cli.stop_signals import StopSignals
from holdfast.connect.blocking.engine import Engine
from holdfast.errors import PortInUse
from holdfast.server.app import app as make_app
from holdfast.server.auth import COOKIE
from holdfast.server.serving import PORT, HttpServer, bound_socket, one_time_link

HOST = "127.0.0.1"


async def show_ui(engine: Engine, screen: str, *, opens_browser: bool) -> None:
    """Print a one-time link to a screen of the UI, open it in a browser if there is one, and serve
    until a stop signal. The usual port is taken if it is free."""
    try:
        bound = bound_socket(HOST, PORT)
    except PortInUse:
        bound = bound_socket(HOST, 0)
    # Loopback cookies are shared by all ports.
    app = make_app(engine, hosts=[HOST], cookie=f"{COOKIE}_{bound.getsockname()[1]}")
    stop_signals = StopSignals()
    server = HttpServer(app, bound)
    server.start()
    token = await one_time_link(app, user_name())
    link = f"{server.address}#login={token}&to={quote(screen)}"
    click.echo(link)
    if opens_browser and has_browser():
        open_browser(link)
    await stop_signals.first.wait()
    await server.stop()


def has_browser() -> bool:
    """Return whether a browser with a window can be opened. A browser in the terminal would take it
    over."""
    if sys.platform in ("darwin", "win32"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def open_browser(link: str) -> None:
    """Open a link that logs in. It is passed in a private file: other users of the machine can read
    the arguments of a process."""
    descriptor, name = tempfile.mkstemp(suffix=".html", prefix="holdfast-")
    with os.fdopen(descriptor, "w") as file:
        file.write(f'<meta http-equiv="refresh" content="0; url={html.escape(link)}">')
    webbrowser.open(Path(name).as_uri())

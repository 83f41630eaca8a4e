"""``holdfast lsp``: the language server for ``.wf`` files."""

from __future__ import annotations

import os

import click

from holdfast.cli.context import version

EPILOG = """\b
Examples:
  holdfast lsp                    the command that an editor starts for .wf files"""


@click.command(short_help="Serve editors that show .wf files.", epilog=EPILOG)
@click.option("--stdio", is_flag=True, help="Use stdin and stdout, as always.")
def lsp(stdio: bool) -> None:
    """Serve an editor over stdin and stdout, by the Language Server Protocol: problems while
    typing, formatting, completion, and go to a sub-workflow. It needs the extra `lsp`:
    pip install "holdfast[lsp]".
    """
    try:
        from holdfast.authoring.wf.lsp import make_server
    except ImportError as error:
        if error.name not in ("pygls", "lsprotocol"):
            raise
        raise click.ClickException(
            'the language server needs pygls: pip install "holdfast[lsp]"'
        ) from None
    # The server closes its streams at the end; the command line flushes stdout after that.
    with os.fdopen(os.dup(0), "rb") as stdin, os.fdopen(os.dup(1), "wb") as stdout:
        make_server(version()).start_io(stdin, stdout)

"""The command line. Nothing of it is loaded before it is called."""

from __future__ import annotations


def main() -> None:
    """Do what the command line says, and exit."""
    from holdfast.cli.main import cli

    cli()

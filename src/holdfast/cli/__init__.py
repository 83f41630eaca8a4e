"""The command line interface ``holdfast``; its modules are imported only when it is called."""

from __future__ import annotations


def main() -> None:
    """Run the command line and exit the process."""
    from holdfast.cli.main import cli

    cli()

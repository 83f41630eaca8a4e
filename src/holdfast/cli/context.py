"""The context of a command: its database and output format, and the lookup of runs by name."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click

from holdfast.cli.codec import codec_of
from holdfast.connect.open_database import OpenDatabase, opened
from holdfast.connect.open_store import file_of
from holdfast.core.codec import Codec
from holdfast.core.redaction import redacted
from holdfast.errors import NamespaceBound

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT = "holdfast.db"


class CommandContext:
    """The global options of the command line: database, output format, codec and namespace."""

    def __init__(
        self, db: str | None, as_json: bool, codec: str | None = None, namespace: str | None = None
    ) -> None:
        self.db: str | None = db
        self.as_json: bool = as_json
        self._codec: str | None = codec
        self.namespace: str | None = namespace
        """The only namespace that the command reads. None means all namespaces for runs, and the
        default namespace for tasks, graphs, flows and schedules."""

    @property
    def url(self) -> str:
        """The database: ``--db``, else HOLDFAST_DB, else ``holdfast.db`` in the current folder.
        Raises BadUrl."""
        url = self.db or os.environ.get("HOLDFAST_DB") or DEFAULT
        file_of(url)  # raises BadUrl for a database that would be gone with this command
        return url

    def codec(self) -> Codec | None:
        """Return the codec of ``--codec`` or of the environment; None for plain JSON."""
        return codec_of(self._codec)

    @contextmanager
    def opened(self, *, create: bool = False) -> Iterator[OpenDatabase]:
        """Open the database. Pass *create* in commands that start or set something; commands that
        only read must not create a file."""
        if not create:
            must_be_there(self.url, "name one with --db, or start a run with `holdfast run`")
        with opened(
            self.url, create=create, codec=self.codec(), namespace=self.namespace
        ) as database:
            yield database

    def concerns_all(self, call: str) -> None:
        """Refuse a command for the whole installation if a namespace was given. Raises
        NamespaceBound."""
        if self.namespace is not None:
            why = "it concerns the whole installation: leave --namespace and HOLDFAST_NAMESPACE out"
            raise NamespaceBound(namespace=self.namespace, call=call, why=why)

    def command(self, command: str) -> str:
        """Return *command* as the user should type it, with the ``--db`` of this command."""
        if self.db is None:
            return command
        return f"{command} --db {shlex.quote(without_secret(self.db))}"


def command_context() -> CommandContext:
    """Return the context of the command that is running."""
    return click.get_current_context().find_object(CommandContext) or CommandContext(None, False)


def must_be_there(url: str, remedy: str) -> None:
    """Raise ClickException if *url* is a file that does not exist or is empty."""
    path = file_of(url)
    if path is not None and not os.path.exists(path):
        raise click.ClickException(f"there is no database {path}: {remedy}")
    if path is not None and os.path.isfile(path) and os.path.getsize(path) == 0:
        raise click.ClickException(f"{path} is empty, not a Holdfast database: {remedy}")


def need_command(ctx: click.Context) -> None:
    """Print the help of a group and exit with 2 if no subcommand was given."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help(), err=True)
        ctx.exit(2)


def version() -> str:
    """Return the version of Holdfast."""
    return str(sys.modules["holdfast"].__version__)


def without_secret(url: str) -> str:
    """Return *url* with its password redacted."""
    return redacted(url)


def shared(command: F) -> F:
    """Add the option --db to a command; it is accepted before the command, too."""
    return click.option(
        "--db",
        metavar="URL",
        expose_value=False,
        callback=_take_db,
        help="The database, a path or a URL; also accepted before the command.",
    )(command)


def printing(command: F) -> F:
    """Add --json and --db to a command that prints data; both are accepted before it, too."""
    return click.option(
        "--json", is_flag=True, expose_value=False, callback=_take_json, help="Print data as JSON."
    )(shared(command))


def deleting(command: F) -> F:
    """Add --yes to a command that deletes something; the command must call `confirm`."""
    return click.option("--yes", is_flag=True, help="Do not ask for confirmation.")(command)


def pages(
    things: str, metavar: str = "NAME", default: int = 50, example: str = "mail"
) -> Callable[[F], F]:
    """Add --after and --limit to a command that lists *things* in pages; *example* is a cursor."""

    def add(command: F) -> F:
        after = click.option(
            "--after",
            metavar=metavar,
            help=f"The next page: only {things} after this one. E.g. --after {example}",
        )
        limit = click.option(
            "--limit",
            metavar="N",
            type=click.IntRange(1, 10_000),
            default=default,
            show_default=True,
            help=f"The maximum number of {things}. E.g. --limit 500",
        )
        return after(limit(command))

    return add


def confirm(question: str, *, yes: bool, preview: str = "") -> None:
    """Ask for confirmation unless *yes*. *preview* names an option that shows what would be
    deleted. Raises ClickException if the answer is no, UsageError without a terminal."""
    if yes:
        return
    if not sys.stdin.isatty():
        alternative = f", or {preview} for a preview" if preview else ""
        raise click.UsageError(
            "stdin is not a terminal, so you cannot be asked for confirmation: use --yes"
            f"{alternative}"
        )
    if not click.confirm(question, err=True):
        raise click.ClickException("nothing was deleted")


def _take_db(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
    if value is not None:
        ctx.ensure_object(CommandContext).db = value


def _take_json(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        ctx.ensure_object(CommandContext).as_json = True

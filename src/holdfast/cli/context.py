"""The context of a command: its database and output format, and the lookup of runs by name."""

from __future__ import annotations

import getpass
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from holdfast.cli.codec import codec_of
from holdfast.connect.open_store import file_of
from holdfast.core.codec import Codec
from holdfast.core.redaction import redacted
from holdfast.errors import NamespaceBound, NotRemote

if TYPE_CHECKING:
    from holdfast.connect.open_database import OpenDatabase

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
    def raw_url(self) -> str:
        """The database or the server, as the user named it."""
        return self.db or os.environ.get("HOLDFAST_DB") or DEFAULT

    @property
    def is_remote(self) -> bool:
        """Whether the database is behind a server."""
        return self.raw_url.startswith(("http://", "https://"))

    @property
    def url(self) -> str:
        """The database: ``--db``, else HOLDFAST_DB, else ``holdfast.db`` in the current folder.
        Raises BadUrl."""
        url = self.raw_url
        if self.is_remote:
            raise NotRemote(
                why="this command needs the database itself: it does not work over HTTP"
            )
        file_of(url)  # raises BadUrl for a database that would be gone with this command
        return url

    def person(self, named: str | None = None) -> str | None:
        """Return the name under which an action is recorded: *named*, else the user of this
        machine. A server records actions under the name of the API key."""
        if named is not None or self.is_remote:
            return named
        return user_name()

    def codec(self) -> Codec | None:
        """Return the codec of ``--codec`` or of the environment; None for plain JSON."""
        return codec_of(self._codec)

    @contextmanager
    def opened(self, *, create: bool = False) -> Iterator[OpenDatabase]:
        """Open the database. Pass *create* in commands that start or set something; commands that
        only read must not create a file. A URL of a server is called over HTTP."""
        if self.is_remote:
            from holdfast.remote.database import opened_remote

            with opened_remote(self.raw_url, self.namespace, self.codec()) as remote:
                yield cast("OpenDatabase", remote)
            return
        if not create:
            must_be_there(self.url, "name one with --db, or start a run with `holdfast run`")
        # Here: saves most of the imports of commands that open no database.
        from holdfast.connect.open_database import opened

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


def user_name() -> str:
    """Return the name of the user of this machine. In a container it may have only a number."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # KeyError before Python 3.13
        return f"user {os.getuid()}"


def command_context() -> CommandContext:
    """Return the context of the command that is running."""
    return click.get_current_context().find_object(CommandContext) or CommandContext(None, False)


def refuse_code(target: str, example: str, using: Sequence[str] = ()) -> None:
    """Refuse a target that this process would have to load. Raises UsageError."""
    if ":" in target or target.endswith((".py", ".wf", ".bpmn")) or using:
        raise click.UsageError(
            "over HTTP, a worker of the server has the code: name the workflow alone,"
            f" such as `holdfast {example}`"
        )


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


def named_database(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    """Refuse an empty name: ``--db "$FILE"`` without the variable must not use another database."""
    if value is not None and not value.strip():
        raise click.BadParameter("the name is empty: leave --db out to use HOLDFAST_DB")
    return value


def _take_db(ctx: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if named_database(ctx, parameter, value) is not None:
        ctx.ensure_object(CommandContext).db = value


def _take_json(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        ctx.ensure_object(CommandContext).as_json = True

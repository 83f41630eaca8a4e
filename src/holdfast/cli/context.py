"""What every command has at hand: which database, JSON or text, and how a run is named."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click

from holdfast.cli.codec import codec_of
from holdfast.connect.engine import Engine
from holdfast.connect.open_store import file_of, open_store
from holdfast.core.codec import Codec, JsonCodec
from holdfast.core.redaction import redacted
from holdfast.core.runs import RunRecord
from holdfast.errors import NamespaceBound, RunNotFound
from holdfast.payloads.sealer import PayloadSealer
from holdfast.store.contract import RunFilter, Store

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT = "holdfast.db"
SHORTEST = 6
"""Characters of an id that can stand for it."""

AFTER_OURS = "1"
"""The ids that Holdfast makes come before this one, for the next thousand years."""

_LAST_CHARACTER = "\U0010ffff"


class CommandContext:
    """The database that was asked for, and how to print."""

    def __init__(
        self, db: str | None, as_json: bool, codec: str | None = None, namespace: str | None = None
    ) -> None:
        self.db, self.as_json, self._codec = db, as_json, codec
        self.namespace = namespace
        """The only namespace that is looked at; None for all, and for tasks, graphs, flows and
        schedules of the default one."""

    @property
    def url(self) -> str:
        """The database: what was said, else what the environment says, else a file in this
        folder."""
        return self.db or os.environ.get("HOLDFAST_DB") or DEFAULT

    def codec(self) -> Codec | None:
        """The codec to read and write with, when one is named, or when the environment has keys."""
        return codec_of(self._codec)

    @contextmanager
    def opened(self, *, create: bool = False) -> Iterator[OpenDatabase]:
        """Open a database; who starts something, or sets something, creates it, looking does
        not."""
        if not create:
            must_be_there(self.url, "name one with --db, or start something with `holdfast run`")
        codec = self.codec()
        # A command runs no code of the user's that could open the file with Python's own SQLite.
        options: dict[str, Any] = {} if file_of(self.url) is None else {"driver": "safest"}
        store = open_store(
            self.url,
            create=create,
            codec=JsonCodec.name if codec is None else codec.name,
            **options,
        )
        try:
            engine = Engine(
                self.url,
                store=store,
                workflows=[],
                codec=codec,
                locked=True,
                namespace=self.namespace,
            )
            yield OpenDatabase(store, engine)
        finally:
            store.close()

    def concerns_all(self, call: str) -> None:
        """Refuse a command that concerns the whole installation when a namespace was named. Raises
        NamespaceBound."""
        if self.namespace is not None:
            why = "it concerns the whole installation: leave --namespace and HOLDFAST_NAMESPACE out"
            raise NamespaceBound(namespace=self.namespace, call=call, why=why)

    def command(self, command: str) -> str:
        """Return a command to be typed, with the database that this one was given."""
        return (
            command if self.db is None else f"{command} --db {shlex.quote(without_secret(self.db))}"
        )


class OpenDatabase:
    """An open database: a store to look into, and an engine, not at work, to ask for things."""

    def __init__(self, store: Store, engine: Engine) -> None:
        self.store, self.engine = store, engine

    @property
    def sealer(self) -> PayloadSealer:
        """What opens values that are sealed."""
        return self.engine._parts.sealer

    def find(self, name: str, *, mine: bool = False) -> RunRecord:
        """Return the run that an id, the beginning of one, or "last" names: in the namespace that
        was named, or in all; if *mine*, in the default one instead of all. Raises RunNotFound."""
        namespace = self.engine._parts.client.namespace if mine else command_context().namespace
        if name == "last":
            return self._newest(namespace)
        found = self.store.run(name) or self._by_prefix(name, namespace)
        if namespace is not None and found.namespace != namespace:
            raise RunNotFound(run=name)
        return found

    def _newest(self, namespace: str | None) -> RunRecord:
        """The run that was started last and is nobody's child. Ids that people chose need not sort
        by time: look at both."""
        ours = self.store.runs(
            RunFilter(roots=True, before=AFTER_OURS, limit=1, namespace=namespace)
        )
        found = [*ours, *self.store.runs(RunFilter(roots=True, limit=100, namespace=namespace))]
        if not found:
            raise click.ClickException("there is no run yet")
        return max(found, key=lambda run: (run.created_at, run.id))

    def _by_prefix(self, name: str, namespace: str | None) -> RunRecord:
        if len(name) < SHORTEST:
            raise RunNotFound(run=name)
        page = self.store.runs(
            RunFilter(before=name + _LAST_CHARACTER, limit=2, namespace=namespace)
        )
        found = [run for run in page if run.id.startswith(name)]
        if not found:
            raise RunNotFound(run=name)
        if len(found) > 1:
            raise click.ClickException(
                f"several runs begin with {name}, such as {found[0].id} and {found[1].id}: say more"
                " of it"
            )
        return found[0]


def command_context() -> CommandContext:
    """Return the desk of the command that is running."""
    return click.get_current_context().find_object(CommandContext) or CommandContext(None, False)


def must_be_there(url: str, remedy: str) -> None:
    """Refuse a file that is not there, or is no database yet."""
    path = file_of(url)
    if path is not None and not os.path.exists(path):
        raise click.ClickException(f"there is no database {path}: {remedy}")
    if path is not None and os.path.isfile(path) and os.path.getsize(path) == 0:
        raise click.ClickException(f"{path} is empty: it is no Holdfast database yet")


def need_command(ctx: click.Context) -> None:
    """Whoever names a group and no command of it is shown what there is."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help(), err=True)
        ctx.exit(2)


def version() -> str:
    """Return the version of Holdfast."""
    return str(sys.modules["holdfast"].__version__)


def without_secret(url: str) -> str:
    """Return a URL as it may be shown."""
    return redacted(url)


def shared(command: F) -> F:
    """Let a command take --db, which may also stand before it."""
    return click.option(
        "--db",
        metavar="URL",
        expose_value=False,
        callback=_take_db,
        help="The database; may stand before the command, too.",
    )(command)


def printing(command: F) -> F:
    """Let a command that prints data take --json, which may also stand before it."""
    return click.option(
        "--json", is_flag=True, expose_value=False, callback=_take_json, help="Print data as JSON."
    )(shared(command))


def _take_db(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
    if value is not None:
        ctx.ensure_object(CommandContext).db = value


def _take_json(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        ctx.ensure_object(CommandContext).as_json = True

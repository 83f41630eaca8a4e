"""``holdfast api-keys``: add, list and revoke the credentials of the server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from holdfast.cli.context import command_context, confirm, deleting, printing
from holdfast.cli.output import print_json, print_table
from holdfast.cli.paging import items_after, paged, print_page
from holdfast.cli.params import MOMENT, many
from holdfast.core.api_keys import Role
from holdfast.errors import NamespaceBound
from holdfast.views.api_keys import ApiKeyView
from holdfast.views.text import seconds

EPILOG = """\b
Examples:
  holdfast api-keys add ci --role starter,viewer --namespace acme --expires 90d
  holdfast api-keys add ann --role approver --gate-role finance
  holdfast api-keys list
  holdfast api-keys revoke ci"""


@click.group("api-keys", short_help="Add, list and revoke API keys.", epilog=EPILOG)
def api_keys() -> None:
    """Add, list and revoke the API keys with which programs and people use the server."""


@api_keys.command(epilog="Example: holdfast api-keys add ci --role starter --expires 90d")
@click.argument("name", metavar="NAME")
@many(
    "--role",
    "roles",
    metavar="A,B",
    required=True,
    help=f"Its roles: {', '.join(Role)}. E.g. --role viewer,starter",
)
@many(
    "--gate-role",
    "gate_roles",
    metavar="A,B",
    help="The roles of its person among the deciders of gates. E.g. --gate-role finance",
)
@click.option(
    "--namespace", metavar="NAME", help="The only namespace of the key. E.g. --namespace acme"
)
@click.option(
    "--expires", metavar="TIME", type=MOMENT, help="When the key expires. E.g. --expires 90d"
)
@click.option("--no-values", is_flag=True, help="Hide inputs, results and other values from it.")
@printing
def add(name: str, no_values: bool, namespace: str | None, **options: Any) -> None:
    """Add an API key and print it. It is shown this once: the database keeps only a digest."""
    context = command_context()
    if namespace is not None and context.namespace not in (None, namespace):
        raise NamespaceBound(namespace=context.namespace, asked=namespace)
    namespace = namespace or context.namespace
    context.namespace = None  # the key is bound to the namespace, not the command
    with context.opened(create=True) as database:
        key = database.engine.api_keys.add(
            name,
            namespace=namespace,
            values=not no_values,
            by=command_context().person(),
            **options,
        )
    if command_context().as_json:
        print_json(key)
    else:
        print(key.api_key)


@api_keys.command("list", epilog="Example: holdfast api-keys list --json")
@paged(limit=100)
@printing
def list_keys(limit: int, after: str | None) -> None:
    """List all API keys, newest first, without their secrets."""
    command_context().concerns_all("api-keys list")
    with command_context().opened() as database:
        listed = items_after(database.engine.api_keys.list(), after, _id, limit)
    print_page(listed, limit, _id, _print_keys)


def _id(key: ApiKeyView) -> str:
    return key.id


def _print_keys(keys: Sequence[ApiKeyView]) -> None:
    rows = [
        (
            key.name,
            key.state,
            ", ".join(key.roles),
            key.namespace or "all",
            seconds(key.expires_at) or "never",
            seconds(key.used_at) or "never",
            key.id,
        )
        for key in keys
    ]
    print_table(("NAME", "STATE", "ROLES", "NAMESPACE", "EXPIRES", "USED", "ID"), rows)


@api_keys.command(epilog="Example: holdfast api-keys revoke ci --yes")
@click.argument("name", metavar="NAME")
@deleting
@printing
def revoke(name: str, yes: bool) -> None:
    """Revoke an API key, by its name or id: the server refuses it at once."""
    command_context().concerns_all("api-keys revoke")
    with command_context().opened() as database:
        confirm(f"Revoke the API key {name}?", yes=yes)
        key = database.engine.api_keys.revoke(name, by=command_context().person())
    if command_context().as_json:
        print_json(key)
    else:
        print(f"API key {key.name} is revoked")

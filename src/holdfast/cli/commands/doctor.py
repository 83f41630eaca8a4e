"""``holdfast doctor``: is everything well? Exit 1 when something is not."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Iterator
from typing import Any

import click
import msgspec

from holdfast.cli.context import OpenDatabase, command_context, printing, version
from holdfast.cli.output import error_line, print_fields, print_json
from holdfast.connect.open_store import missing_rights
from holdfast.core.status import Status
from holdfast.core.why.workers import Liveness, WorkerView
from holdfast.service.why import look_at_workers, unserved
from holdfast.store.contract import RunFilter

SHOWN = 5


class DoctorFinding(msgspec.Struct):
    """Something that is not well, and the command that looks into it."""

    text: str
    remedy: str | None = None


@click.command(short_help="Check that all is well.", epilog="Example: holdfast doctor --json")
@printing
def doctor() -> None:
    """Check the installation: versions, the database and its laws, workers, stuck runs, runs that
    nobody serves.

    On PostgreSQL it also prints, as statements for an administrator, the rights that the role of
    the URL needs and lacks. Exit 1 when something is wrong; warnings alone are no error."""
    command_context().concerns_all("doctor")
    grants = missing_rights(command_context().url)
    if grants:
        _print_grants(grants)
        raise click.exceptions.Exit(1)
    _examine()


def _print_grants(grants: list[str]) -> None:
    text = (
        "this role lacks rights: let an administrator of the database execute the statements below,"
        " in that database"
    )
    if command_context().as_json:
        print_json(
            {
                "ok": False,
                "facts": {},
                "warnings": [],
                "troubles": [DoctorFinding(text)],
                "grants": grants,
            }
        )
        return
    print(f"wrong: {text}")
    print("\n".join(f"  {grant};" for grant in grants))


def _examine() -> None:
    with command_context().opened() as office:
        workers = look_at_workers(office.store)
        facts, troubles = _facts(office, workers), [*_troubles(office, workers)]
        warnings = facts.pop("warnings", [])
        cipher, keys = office.sealer.cipher, office.store.keys_in_use()
        if keys:
            facts["keys"] = keys
        warnings += [
            f"{count} values are encrypted with key {key}, which is not known here"
            for key, count in keys.items()
            if cipher is None or not cipher.knows(key)
        ]
        if command_context().as_json:
            print_json(
                {
                    "ok": not troubles,
                    "facts": facts,
                    "warnings": warnings,
                    "troubles": troubles,
                    "grants": [],
                }
            )
        else:
            _print(facts, warnings, troubles)
        if troubles:
            raise click.exceptions.Exit(1)


def _facts(office: OpenDatabase, workers: list[WorkerView]) -> dict[str, Any]:
    return {
        "holdfast": version(),
        "python": platform.python_version(),
        "system": platform.platform(),
        **office.store.facts(),
        "runs": office.store.counts(),
        "workers": dict(Counter(seen.life.value for seen in workers)),
    }


def _print(facts: dict[str, Any], warnings: list[str], troubles: list[DoctorFinding]) -> None:
    print_fields([(name, _shown(value)) for name, value in facts.items()])
    print()
    for warning in warnings:
        print(f"warning: {warning}")
    for trouble in troubles:
        print(f"wrong: {trouble.text}")
        if trouble.remedy is not None:
            print(f"  $ {command_context().command(trouble.remedy)}")
    if not troubles:
        print("all is well")


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{count} {name}" for name, count in value.items()) or "none"
    return str(value)


def _troubles(office: OpenDatabase, workers: list[WorkerView]) -> Iterator[DoctorFinding]:
    store = office.store
    for law in store.check():
        yield DoctorFinding(law, "holdfast db check")
    for run in map(
        office.sealer.shown, store.runs(RunFilter(statuses=[Status.STUCK.value], limit=SHOWN))
    ):
        yield DoctorFinding(
            f"run {run.id} of {run.workflow} is stuck: {error_line(run.error)}",
            f"holdfast why {run.id}",
        )
    stuck = store.counts().get(Status.STUCK.value, 0)
    if stuck > SHOWN:
        yield DoctorFinding(f"{stuck - SHOWN} more runs are stuck", "holdfast runs --status stuck")
    for seen in workers:
        if seen.life is Liveness.SILENT:
            yield DoctorFinding(f"{seen.place} has stopped beating", "holdfast workers")
    for one in unserved(store, workers):
        yield DoctorFinding(one.text, one.remedy)

"""``holdfast dmn``: evaluate a decision of a DMN file."""

from __future__ import annotations

from typing import Any

import click

from holdfast.cli.context import printing
from holdfast.cli.output import print_json
from holdfast.cli.params import JSON
from holdfast.connect.decisions import load
from holdfast.errors import BadOption
from holdfast.views.decisions import decision_value

EPILOG = """\b
Examples:
  holdfast dmn claim.dmn "Approval" '{"amount": 1200, "since": "2024-05-01"}'
  holdfast dmn claim.dmn                        the only decision of the file, without variables"""


@click.command(short_help="Evaluate a decision of a DMN file.", epilog=EPILOG)
@click.argument("file", metavar="FILE")
@click.argument("decision", metavar="[DECISION]", required=False)
@click.argument("variables", metavar="[VARIABLES]", type=JSON, required=False)
@printing
def dmn(file: str, decision: str | None, variables: Any) -> None:
    """Evaluate a decision of a DMN file, without a database, and print its value as JSON.

    DECISION is the name or the id of a decision or decision service; a file with one decision needs
    no name. VARIABLES is a JSON object; texts become dates, times and durations where the file
    declares such an input."""
    if variables is None:
        variables = {}
    if not isinstance(variables, dict):
        raise BadOption(option="VARIABLES", why="give a JSON object, as in '{\"amount\": 5}'")
    print_json(decision_value(load(file).evaluate(decision, variables)))

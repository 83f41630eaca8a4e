"""``holdfast draw``: print a ``.wf`` or ``.bpmn`` file as a Mermaid flowchart."""

from __future__ import annotations

import click

from holdfast.authoring.bpmn.draw import mermaid
from holdfast.authoring.bpmn.loading import ENDINGS
from holdfast.authoring.bpmn.loading import load as load_model
from holdfast.authoring.wf.draw import draw as draw_document
from holdfast.authoring.wf.files import load

EPILOG = """\b
Examples:
  holdfast draw nightly.wf        print the flowchart, to paste it into Markdown
  holdfast draw order.bpmn        the same for a model"""


@click.command(short_help="Draw a .wf or .bpmn file.", epilog=EPILOG)
@click.argument("path")
def draw(path: str) -> None:
    """Print the workflow of a .wf or .wft file as a Mermaid flowchart, or the processes of a .bpmn
    file. Every step is named by its key. A .wf file with errors is refused, with its problems."""
    if path.endswith(ENDINGS):
        print(mermaid(load_model(path)), end="")
    else:
        print(draw_document(load(path)), end="")

"""The shared cases of the language, if they are there."""

import json
import os
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = Path(os.environ.get("HOLDFAST_CASES", ROOT.parent / "shared" / "cases")) / "wf"
MANIFEST = FOLDER / "manifest.json"
ARE_THERE = MANIFEST.exists()


def manifest():
    return json.loads(MANIFEST.read_text("utf-8")) if ARE_THERE else {}


def texts():
    """Return the texts of all programs, by path."""
    return {path: path.read_text("utf-8") for path in sorted(FOLDER.glob("files/*/*.wf"))}

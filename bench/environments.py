"""A virtual environment for each peer, made once under ``.bench`` by pip and the names of packages."""

from __future__ import annotations

import hashlib
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".bench"
PACKAGES = {
    "holdfast": ("-e", f"{ROOT}[postgres]"),
    "raw": ("psycopg[binary]",),
    "dbos": ("dbos>=3.3,<4", "psycopg[binary]"),
    "absurd": ("absurd-sdk>=0.5,<0.6", "absurdctl>=0.5,<0.6", "psycopg[binary]"),
    "procrastinate": ("procrastinate>=3.10,<4", "psycopg[binary,pool]"),
    "default": ("-e", str(ROOT)),
}
"""What pip is asked for. "default" is Holdfast as it comes, without extras."""

SHOWN = {"holdfast": "holdfast", "raw": "psycopg", "dbos": "dbos", "absurd": "absurd-sdk", "procrastinate": "procrastinate"}


def environment(peer: str) -> pathlib.Path:
    """Return the Python of a peer's environment, made if need be. Raises RuntimeError when it cannot be."""
    folder = FOLDER / peer
    python = folder / "bin" / "python"
    stamp = folder / f".made-{hashlib.sha256(repr((PACKAGES[peer], sys.version)).encode()).hexdigest()[:12]}"
    if stamp.exists():
        return python
    _run(sys.executable, "-m", "venv", "--clear", str(folder))
    _run(str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES[peer])
    stamp.touch()
    return python


def version(peer: str) -> str:
    """Return the version of a peer that is installed in its environment."""
    code = f"import importlib.metadata as m; print(m.version({SHOWN[peer]!r}))"
    return subprocess.run([environment(peer), "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    if done.returncode != 0:
        said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        raise RuntimeError(said[-1] if said else f"{command[0]} failed")

"""A virtual environment for each peer, made once under ``.bench`` by pip and the names of
packages."""

from __future__ import annotations

import hashlib
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".bench"
BEFORE = FOLDER / "before-source"
PACKAGES = {
    "holdfast": ("-e", f"{ROOT}[postgres]"),
    "raw": ("psycopg[binary]",),
    "dbos": ("dbos>=3.3,<4", "psycopg[binary]"),
    "absurd": ("absurd-sdk>=0.5,<0.6", "absurdctl>=0.5,<0.6", "psycopg[binary]"),
    "procrastinate": ("procrastinate>=3.10,<4", "psycopg[binary,pool]"),
    "default": ("-e", str(ROOT)),
    "before": ("-e", f"{BEFORE}[postgres]"),
}
"""What pip is asked for. "default" is Holdfast as it comes, without extras; "before" is an earlier
revision."""

SHARED = {"async": "holdfast", "before_async": "before"}
"""Whose environment a peer uses, where it is not its own."""

SHOWN = {
    "holdfast": "holdfast",
    "before": "holdfast",
    "raw": "psycopg",
    "dbos": "dbos",
    "absurd": "absurd-sdk",
    "procrastinate": "procrastinate",
}


def check_out(revision: str) -> None:
    """Put an earlier revision of Holdfast where "before" is installed from."""
    shutil.rmtree(BEFORE, ignore_errors=True)
    BEFORE.mkdir(parents=True)
    archive = subprocess.run(
        ["git", "-C", str(ROOT), "archive", revision], capture_output=True, check=False
    )
    if archive.returncode != 0:
        raise RuntimeError(f"{revision} is no revision of Holdfast")
    subprocess.run(["tar", "-x", "-C", str(BEFORE)], input=archive.stdout, check=True)


def environment(peer: str) -> pathlib.Path:
    """Return the Python of a peer's environment, made if need be. Raises RuntimeError when it
    cannot be."""
    peer = SHARED.get(peer, peer)
    folder = FOLDER / peer
    python = folder / "bin" / "python"
    stamp = (
        folder
        / f".made-{hashlib.sha256(repr((PACKAGES[peer], sys.version)).encode()).hexdigest()[:12]}"
    )
    if stamp.exists():
        return python
    _run(sys.executable, "-m", "venv", "--clear", str(folder))
    _run(
        str(python),
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        *PACKAGES[peer],
    )
    stamp.touch()
    return python


def version(peer: str) -> str:
    """Return the version of a peer that is installed in its environment."""
    code = f"import importlib.metadata as m; print(m.version({SHOWN[SHARED.get(peer, peer)]!r}))"
    return subprocess.run(
        [environment(peer), "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    if done.returncode != 0:
        said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        raise RuntimeError(said[-1] if said else f"{command[0]} failed")

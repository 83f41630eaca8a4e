"""Install schemathesis, which checks the HTTP API against its OpenAPI document.

It has an environment of its own (``.tools/schemathesis``), because its dependencies would replace
those of the project; ``.venv/bin/schemathesis`` is a link to it.
"""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / ".tools" / "schemathesis"
LINK = Path(sys.executable).parent / "schemathesis"
VERSION = "schemathesis>=4,<5"


def main() -> None:
    """Create the environment, unless it is there, and link its program."""
    if not (HOME / "bin" / "python").exists():
        venv.create(HOME, with_pip=True)
    pip = [str(HOME / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--quiet", VERSION], check=True)
    LINK.unlink(missing_ok=True)
    LINK.symlink_to(HOME / "bin" / "schemathesis")


if __name__ == "__main__":
    main()

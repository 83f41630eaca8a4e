"""Run a command whose temporary files are in memory, where there is enough of it, and remove them.

No test needs a disk: the ones about lost power have a disk of their own that loses writes. In
memory a commit takes as long as its work, not as long as its disk.

``python tools/scratch.py pytest -n 2``
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

MEMORY = "/dev/shm"
NEEDED = 6 * 2**30
"""Bytes that must be free: more than all tests together use."""


def scratch_folder() -> str:
    """Return the folder that TMPDIR names, one in memory, or the default of the system."""
    return MEMORY if "TMPDIR" not in os.environ and _has_room() else tempfile.gettempdir()


def _has_room() -> bool:
    try:
        is_usable = os.access(MEMORY, os.W_OK) and not os.statvfs(MEMORY).f_flag & os.ST_NOEXEC
        return is_usable and min(shutil.disk_usage(MEMORY).free, _free_memory()) >= NEEDED
    except OSError:
        return False


def _free_memory() -> int:
    """Return the bytes of memory that programs can still get."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) * 1024
    return 0


def main(command: list[str]) -> int:
    """Run *command* and return its exit code."""
    folder = tempfile.mkdtemp(prefix="holdfast-", dir=scratch_folder())
    # Servers that tests start as another user must reach their own folders in it.
    os.chmod(folder, 0o711)
    try:
        return subprocess.call(command, env={**os.environ, "TMPDIR": folder})
    except KeyboardInterrupt:
        return 130
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

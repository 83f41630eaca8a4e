"""The shell script runs to its end, with the command line of this installation."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).with_name("worker.sh")


def test_a_shell_script_works_on_leased_tasks(tmp_path):
    command = tmp_path / "holdfast"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m holdfast "$@"\n')
    command.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
        "HOLDFAST_DB": str(tmp_path / "shell.db"),
    }

    done = subprocess.run(
        ["bash", str(SCRIPT)], env=environment, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "completed ['page 1', 'page 2']"

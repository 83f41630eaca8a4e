"""Scripts of text workflows: the command line, its environment, the folders in which its file is
looked up, and its output."""

from __future__ import annotations

import inspect
import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.authoring.wf.outputs import StepOutput, context_of_text, parse_block
from holdfast.authoring.wf.processes import checked_end, decoded, run_process
from holdfast.authoring.wf.registrations import EnvironmentAsk
from holdfast.errors.wf_runs import ScriptFailed

REFUSED_NAMES = frozenset(
    {
        "PATH",
        "LD_PRELOAD",
        "LD_LIBRARY_PATH",
        "DYLD_LIBRARY_PATH",
        "DYLD_INSERT_LIBRARIES",
        "PYTHONPATH",
        "RUBYLIB",
        "NODE_PATH",
        "GH_TOKEN",
    }
)
"""The environment variables that a text must not set."""

LONGEST_VALUE = 100_000
"""Bytes of a value in the environment of a script; the system refuses much longer ones."""

PREFIXES = ("HOLDFAST_", "CONDUCTOR_")
_WORD = re.compile(r"^[A-Za-z0-9_]+$")


def check_env_name(name: str) -> str | None:
    """Return why a text must not set this environment variable; None if it may."""
    if not name or "=" in name or "\0" in name:
        return "the name of an environment variable has no = and no NUL"
    if name.upper() in REFUSED_NAMES:
        return f"{name} is set by the host: register an environment instead"
    return None


def search_folders(root: str, cwd: str) -> list[Path]:
    """Return the folders in which the file of a script is looked up."""
    folders: list[Path] = []
    for base in (Path(cwd), Path(root)):
        folders += [base, base / ".conductor" / "scripts", base / "scripts"]
    skills = Path.home() / ".claude" / "skills"
    return list(dict.fromkeys([*folders, skills]))


def locate(word: str, folders: Iterable[Path]) -> Path | None:
    """Return the file that a word of a command line names, under one of the folders."""
    if ".." in Path(word).parts or os.path.isabs(word):
        return None
    for folder in folders:
        path = folder / word
        if path.is_file() and _is_under(path, folder):
            return path
    return None


def _is_under(path: Path, folder: Path) -> bool:
    """Return whether a file is inside a folder; a link out of it is not."""
    try:
        return path.resolve().is_relative_to(folder.resolve())
    except OSError:
        return False


def command_line(run: str, root: str, cwd: str, name: str) -> str:
    """Return the command line for the shell: its first word is the file that it names, if it names
    one. Raises ScriptFailed if that is missing or not executable."""
    first = first_word(run)
    folders = search_folders(root, cwd)
    path = locate(first, folders)
    if path is None:
        if "/" in first:
            searched = ", ".join(str(folder) for folder in folders)
            why = f"there is no file {first}"
            if os.path.isabs(first) or ".." in Path(first).parts:
                why = f"{first} leaves its folder: use a path below one of the searched folders"
            raise ScriptFailed(script=name, why=why, searched=searched)
        return run
    if not is_executable(path):
        raise ScriptFailed(script=name, why=f"{path} is not executable: chmod +x {path}")
    rest = run.lstrip()[len(_first_part(run)) :]
    return shlex.quote(str(path.absolute())) + rest


def is_executable(path: Path) -> bool:
    """Return whether a file may be executed."""
    return os.access(path, os.X_OK)


def first_word(run: str) -> str:
    """Return the first word of a command line, without its quotes."""
    part = _first_part(run)
    try:
        words = shlex.split(part)
    except ValueError:
        return part
    if words:
        return words[0]
    return ""


def _first_part(run: str) -> str:
    """Return the first word of a command line, as written."""
    text = run.lstrip()
    quote = ""
    for index, char in enumerate(text):
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char.isspace() or char in ";|&<>()":
            return text[:index]
    return text


def host_environment() -> dict[str, str]:
    """Return the environment of this process without the settings of Holdfast, which may contain
    secrets."""
    return {name: value for name, value in os.environ.items() if not name.startswith(PREFIXES)}


async def script_environment(
    *,
    name: str,
    providers: Sequence[Callable[[EnvironmentAsk], Any]],
    ask: EnvironmentAsk,
    inputs: Mapping[str, str],
    own: Mapping[str, str],
) -> dict[str, str]:
    """Return the environment of a script: of the host, of the registered providers, the inputs,
    and the options of the text, each over the ones before it. Raises ScriptFailed."""
    env = host_environment()
    for provider in providers:
        provided = provider(ask)
        if inspect.isawaitable(provided):
            provided = await provided
        for key, value in (provided or {}).items():
            env[str(key)] = str(value)
    for key, value in inputs.items():
        if not _WORD.match(key):
            continue
        if len(value.encode("utf-8", "replace")) > LONGEST_VALUE:
            raise ScriptFailed(
                script=name,
                why=f"the input {key} is longer than {LONGEST_VALUE} bytes: pass it in a file",
            )
        for prefix in PREFIXES:
            env[prefix + key.upper()] = value
    for key, value in own.items():
        fault = check_env_name(key)
        if fault is not None:
            raise ScriptFailed(script=name, why=fault)
        env[key] = value
    return env


async def run_script(
    name: str, line: str, *, root: str, cwd: str, env: Mapping[str, str]
) -> StepOutput:
    """Run a command line with the shell and return its output. Raises ScriptFailed."""
    if not os.path.isdir(cwd):
        raise ScriptFailed(script=name, why=f"its working folder {cwd} does not exist")
    command = command_line(line, root, cwd, name)
    finished = await run_process(["/bin/sh", "-c", command], name=name, cwd=cwd, env=env)
    checked_end(name, finished)
    text = decoded(finished.stdout, name, "stdout")
    block = parse_block(text)
    if block is not None:
        return block
    return StepOutput([], context_of_text(text))

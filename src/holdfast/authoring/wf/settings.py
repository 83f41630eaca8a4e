"""``holdfast.toml``: executors, providers, resolvers, environments and schemas as data.

```toml
[executors.review]
agent = ["claude", "-p"]            # prompt on stdin, output block on stdout
[executors.score]
command = ["python", "score.py"]    # JSON on stdin, JSON on stdout
[executors.render]
url = "http://127.0.0.1:9000/render"
[fallback]
agent = ["claude", "-p"]
[providers.tickets]
command = ["python", "tickets.py"]
ordered = true
[resolvers.pr_checks]
command = ["python", "pr_checks.py"]
every = "30s"
[environment]
set = { LANG = "C" }
[schemas.verdict.fields]
approved = "boolean"
```

``targets = ["repo", "ticket"]``, at its top, lists the targets that texts may name.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from holdfast.authoring.wf.executors import Agent, CommandProgram, Endpoint
from holdfast.authoring.wf.registrations import (
    Ask,
    EnvironmentAsk,
    GateAsk,
    Registrations,
    approved,
    rejected,
)
from holdfast.authoring.wf.scripts import check_env_name
from holdfast.core.problems import did_you_mean
from holdfast.errors import HoldfastError
from holdfast.errors.wf_runs import BadSettings, ProgramUnusable

NAME = "holdfast.toml"
PROGRAM_TIMEOUT = "60s"
"""How long a provider, a resolver or an environment may take."""

_TABLES = ("executors", "fallback", "providers", "resolvers", "environment", "schemas", "targets")


def find_settings(root: str) -> dict[str, Any] | None:
    """Return the settings of the folder *root*; None if it has none. Raises BadSettings."""
    path = Path(root, NAME)
    if not path.is_file():
        return None
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadSettings(path=str(path), why=str(error)) from None


def apply_settings(registrations: Registrations, settings: Mapping[str, Any], root: str) -> None:
    """Register all that the settings declare. Raises BadSettings."""
    _check_keys("", settings, _TABLES)
    for name, entry in _table(settings, "executors").items():
        registrations.executor(name)(_executor(f"executors.{name}", entry, root))
    if "fallback" in settings:
        registrations.executor()(_executor("fallback", settings["fallback"], root))
    for name, entry in _table(settings, "providers").items():
        _provider(registrations, name, entry, root)
    for name, entry in _table(settings, "resolvers").items():
        _resolver(registrations, name, entry, root)
    if "environment" in settings:
        registrations.environment(_environment(settings["environment"], root))
    if "targets" in settings:
        _targets(registrations, settings["targets"])
    for name, data in _table(settings, "schemas").items():
        _guarded(f"schemas.{name}", partial(registrations.schema, name, data))


def _targets(registrations: Registrations, names: Any) -> None:
    if not isinstance(names, list):
        raise BadSettings(entry="targets", why='it must be a list, such as ["repo"]')
    _guarded("targets", partial(registrations.allow_targets, *names))


def _table(settings: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    table = settings.get(name, {})
    if not isinstance(table, Mapping):
        raise BadSettings(entry=name, why="it must be a table")
    return table


def _check_keys(entry: str, table: Any, known: tuple[str, ...]) -> None:
    if not isinstance(table, Mapping):
        raise BadSettings(entry=entry, why="it must be a table")
    for key in table:
        if key not in known:
            place = f"{entry}.{key}" if entry else key
            hint = did_you_mean(key, known) or f"the keys are {', '.join(known)}"
            raise BadSettings(entry=place, why=f"there is no such key: {hint}")


def _guarded(entry: str, work: Callable[[], Any]) -> Any:
    """Return the value of *work*; its errors name the entry. Raises BadSettings."""
    try:
        return work()
    except BadSettings:
        raise
    except HoldfastError as error:
        raise BadSettings(entry=entry, why=str(error)) from None
    except (TypeError, ValueError) as error:
        raise BadSettings(entry=entry, why=str(error)) from None


def _executor(entry: str, table: Any, root: str) -> Any:
    _check_keys(entry, table, ("agent", "command", "url", "timeout", "headers", "folders"))
    kinds = [key for key in ("agent", "command", "url") if key in table]
    if len(kinds) != 1:
        raise BadSettings(entry=entry, why="give one of agent, command and url")

    def make() -> Any:
        if kinds[0] == "agent":
            folders = [str(Path(root, folder)) for folder in table.get("folders", ())]
            return Agent(table["agent"], folders=folders)
        if kinds[0] == "url":
            return Endpoint(
                table["url"], headers=table.get("headers"), timeout=table.get("timeout")
            )
        return CommandProgram(table["command"], name=entry, cwd=root, timeout=table.get("timeout"))

    return _guarded(entry, make)


def _program(entry: str, table: Mapping[str, Any], root: str) -> CommandProgram:
    if "command" not in table:
        raise BadSettings(entry=entry, why='give a command, such as ["python", "x.py"]')
    timeout = table.get("timeout", PROGRAM_TIMEOUT)
    program: CommandProgram = _guarded(
        entry, lambda: CommandProgram(table["command"], name=entry, cwd=root, timeout=timeout)
    )
    return program


def _provider(registrations: Registrations, name: str, table: Any, root: str) -> None:
    entry = f"providers.{name}"
    _check_keys(entry, table, ("command", "ordered", "needs_filter", "needs_scope", "timeout"))
    program = _program(entry, table, root)
    needed = tuple(table.get("needs_scope", ()))

    async def provide(ask: Ask) -> Any:
        return await program.ask({**_fields(ask)}, ask.cwd)

    def check(scope: Mapping[str, str], filter: Mapping[str, str]) -> list[str]:
        if needed and not any(word in scope for word in needed):
            return [f"the scope needs one of {', '.join(needed)}"]
        return []

    registrations.provider(
        name,
        ordered=table.get("ordered") is True,
        needs_filter=table.get("needs_filter") is True,
        check=check,
    )(provide)


def _fields(ask: Any) -> dict[str, Any]:
    return {
        name: dict(value) if isinstance(value, Mapping) else value
        for name, value in ((name, getattr(ask, name)) for name in ask.__struct_fields__)
        if name != "query"
    }


def _resolver(registrations: Registrations, name: str, table: Any, root: str) -> None:
    entry = f"resolvers.{name}"
    _check_keys(entry, table, ("command", "every", "timeout"))
    program = _program(entry, table, root)

    async def resolve(ask: GateAsk) -> Any:
        answer = await program.ask(_fields(ask), root)
        if answer is None:
            return None
        if isinstance(answer, dict) and answer.keys() <= {"approved", "rejected", "feedback"}:
            if answer.get("approved") is True:
                return approved(answer.get("feedback"))
            if answer.get("rejected"):
                return rejected(str(answer["rejected"]))
            if not answer or answer.get("approved") is False:
                return None
        raise ProgramUnusable(
            program=entry, why='it must print {"approved": true}, {"rejected": "why"} or nothing'
        )

    every = table.get("every", "30s")
    _guarded(entry, lambda: registrations.resolver(name, every=every)(resolve))


def _environment(table: Any, root: str) -> Any:
    _check_keys("environment", table, ("set", "command", "timeout"))
    fixed = table.get("set", {})
    if not isinstance(fixed, Mapping):
        raise BadSettings(entry="environment.set", why="it must be a table")
    for name in fixed:
        fault = check_env_name(name) if name != "PATH" else None
        if fault is not None and "=" in name:
            raise BadSettings(entry=f"environment.set.{name}", why=fault)
    program = _program("environment", table, root) if "command" in table else None

    async def environment(ask: EnvironmentAsk) -> dict[str, str]:
        env = {str(name): str(value) for name, value in fixed.items()}
        if program is not None:
            answer = await program.ask(_fields(ask), root)
            if answer is not None and not isinstance(answer, dict):
                raise ProgramUnusable(program="environment", why="it must print a JSON object")
            env.update({str(name): str(value) for name, value in (answer or {}).items()})
        return env

    return environment

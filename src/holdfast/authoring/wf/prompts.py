"""The prompt of a command line agent: its agent file, snippets, and output instructions.

Files of the workflow's own folder come first, then those beside the workflows, then ``.claude``;
later folders of the library before earlier ones. No path leaves its root.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from holdfast.authoring.wf.registrations import ExecutorCall
from holdfast.authoring.wf.schemas import OutputSchema, instructions
from holdfast.authoring.wf.variables import substitute
from holdfast.authoring.wf.yaml_text import YamlProblem, read_yaml
from holdfast.errors.wf_runs import ProgramUnusable

LARGEST_FILE = 1_000_000

DO_NOT_COMMIT = (
    "This is a dry run: do not commit, push, merge, publish or change anything outside this"
    " working folder. Say what you would have done.\n\n"
)


class AgentFile(msgspec.Struct, frozen=True):
    """An agent file: its body, and the settings of its front matter."""

    body: str
    role: str = "reviewer"
    can_commit: bool = False
    model: str = ""


def read_agent(path: Path) -> AgentFile:
    """Return an agent file. Raises ProgramUnusable."""
    text = _text(path)
    if not text.startswith("---"):
        return AgentFile(text)
    head, mark, body = text[3:].partition("\n---")
    if not mark:
        return AgentFile(text)
    try:
        settings = read_yaml(head.strip("\n")) or {}
    except YamlProblem as error:
        raise ProgramUnusable(agent=str(path), why=f"its front matter: {error}") from None
    if not isinstance(settings, dict):
        settings = {}
    return AgentFile(
        body.partition("\n")[2],
        str(settings.get("role") or "reviewer"),
        settings.get("can_commit") is True,
        str(settings.get("model") or ""),
    )


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise ProgramUnusable(file=str(path), why=f"it has more than {LARGEST_FILE} bytes")
        return path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ProgramUnusable(file=str(path), why=f"it cannot be read: {error}") from None


class PromptFolders:
    """Finds the agent file, the snippets and the schema of a call."""

    def __init__(self, library: Any, folders: Sequence[str], call: ExecutorCall) -> None:
        self._library: Any = library
        self._call: ExecutorCall = call
        roots = [Path(folder) for folder in folders]
        self._root: Path = Path(call.cwd)
        if library is not None:
            roots += reversed(library.folders)
            self._root = Path(library.root)
        self._places: list[Path] = []
        for folder in roots:
            for base in (folder, folder.parent):
                self._places += [base / call.workflow, base]
        self._roots: list[Path] = [self._root, Path(call.cwd), *(each.parent for each in roots)]

    def agent(self) -> AgentFile:
        """Return the agent file of the call. Raises ProgramUnusable if there is none."""
        name = self._call.name
        if "/" in name or name.endswith(".md"):
            bases = (Path(self._call.cwd), self._root, *self._places)
            candidates = [base / name for base in bases]
        else:
            candidates = [place / "agents" / f"{name}.md" for place in self._places]
            for root in (Path(self._call.cwd), self._root):
                candidates.append(root / ".conductor" / "agents" / f"{name}.md")
                candidates.append(root / ".claude" / "agents" / f"{name}.md")
        path = self._first(candidates, name)
        if path is None:
            searched = ", ".join(dict.fromkeys(str(each.parent) for each in candidates))
            raise ProgramUnusable(agent=name, why="there is no agent file", searched=searched)
        return read_agent(path)

    def snippets(self) -> list[str]:
        """Return the texts of the snippets. Raises ProgramUnusable if one is missing."""
        texts = []
        for name in self._call.snippets:
            stem = name if name.endswith(".md") else f"{name}.md"
            candidates = [place / "prompts" / stem for place in self._places]
            candidates.append(self._root / ".conductor" / "prompts" / stem)
            if "/" in name:
                candidates = [Path(self._call.cwd) / name, self._root / name]
            path = self._first(candidates, name)
            if path is None:
                raise ProgramUnusable(snippet=name, why="there is no such file")
            texts.append(_text(path).strip())
        return texts

    def schema(self) -> OutputSchema | None:
        """Return the schema of the call, if it has one."""
        if self._call.schema is None or self._library is None:
            return None
        schema: OutputSchema | None = self._library.find_schema(
            self._call.workflow, self._call.schema
        )
        return schema

    def _first(self, candidates: Sequence[Path], name: str) -> Path | None:
        """Return the first candidate that is a file below one of the roots. Raises
        ProgramUnusable for a path that leaves them."""
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise ProgramUnusable(file=name, why="the path leaves its folder")
        for path in candidates:
            if path.is_file() and self._is_inside(path):
                return path
        return None

    def _is_inside(self, path: Path) -> bool:
        real = path.resolve()
        return any(real.is_relative_to(root.resolve()) for root in self._roots)


def compose_prompt(
    agent: AgentFile, snippets: Sequence[str], schema: OutputSchema | None, call: ExecutorCall
) -> str:
    """Return the prompt of an agent; placeholders are replaced, unknown ones removed."""
    parts = [agent.body.strip(), *snippets, instructions(schema)]
    if call.last_error:
        parts.append(f"The attempt before this one failed: {call.last_error}")
    prompt = substitute("\n\n".join(part for part in parts if part), call.inputs)
    if call.dry_run and agent.can_commit:
        return DO_NOT_COMMIT + prompt
    return prompt

"""Find the file of a command line, for the static checks."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from holdfast.authoring.wf.check.surroundings import ScriptFault
from holdfast.authoring.wf.scripts import first_word, is_executable, locate, search_folders

CONDUCTOR = ".conductor"


def fault_of_script(command: str, folders: Sequence[Path]) -> ScriptFault | None:
    """Return why the file of a command line cannot be executed; None if it can, or if it is a
    program on PATH."""
    word = first_word(command)
    path = locate(word, folders)
    if path is None:
        if "/" not in word:
            return None
        searched = ", ".join(str(folder) for folder in folders)
        return ScriptFault(is_missing=True, why=f"there is no file {word} in {searched}")
    if not is_executable(path):
        hint = f"chmod +x {path}"
        return ScriptFault(is_missing=False, why=f"{path} is not executable", hint=hint)
    return None


def folders_beside(path: str) -> list[Path]:
    """Return the folders in which the scripts of a file are looked up if its root is not known: the
    current folder, the folder of the file, its parent, and the parent of ``.conductor``."""
    folder = Path(os.path.abspath(os.path.dirname(path) or "."))
    roots = [Path.cwd(), folder, folder.parent]
    roots += [each.parent for each in (folder, *folder.parents) if each.name == CONDUCTOR]
    folders = [place for root in roots for place in search_folders(str(root), str(root))]
    return list(dict.fromkeys(folders))

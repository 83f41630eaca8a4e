"""Answers that are files, which the engine writes to a folder that is deleted afterwards."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from urllib.parse import quote

from starlette.background import BackgroundTask
from starlette.responses import FileResponse, Response


async def exported(name: str, write: Callable[[str], Awaitable[object]]) -> Response:
    """Return the database file that *write* writes to a path. Raises the errors of *write*."""
    folder = tempfile.mkdtemp(prefix="holdfast-export-")
    path = Path(folder) / "export.db"
    try:
        await write(str(path))
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return FileResponse(
        path,
        headers={
            "Cache-Control": "no-store",
            "Content-Disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}",
        },
        media_type="application/vnd.sqlite3",
        background=BackgroundTask(shutil.rmtree, folder, ignore_errors=True),
    )

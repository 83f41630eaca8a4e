"""Serve the files of the web UI from the package: plain ES modules, no build."""

from __future__ import annotations

import mimetypes
from pathlib import Path

from starlette.responses import FileResponse, HTMLResponse, Response

from holdfast.errors import RouteNotFound

UI = Path(__file__).parent / "ui"
PAGE = "index.html"
VERSION = "{version}"
"""The text in the page that stands for the version."""

SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
"""On every answer of the server."""

_TYPES = {".js": "text/javascript", ".mjs": "text/javascript", ".css": "text/css"}


class UiFiles:
    """The files below ``ui/``. Nothing outside that folder is read."""

    def __init__(self, folder: Path = UI, version: str = "") -> None:
        self._folder: Path = folder.resolve()
        self._version: str = version

    def response(self, segments: list[str]) -> Response:
        """Return the file of an address; the page itself for an address of one of its screens.
        A path that contains the version never changes. Raises RouteNotFound."""
        is_versioned = bool(segments) and segments[0] == f"v{self._version}"
        path = self._file(segments[1:] if is_versioned else segments)
        if path is None:
            if segments and "." in segments[-1]:
                raise RouteNotFound(path="/" + "/".join(segments))
            return self._page()
        if path.name == PAGE:
            return self._page()
        cache = "public, max-age=31536000, immutable" if is_versioned else "no-cache"
        kind = _TYPES.get(path.suffix) or mimetypes.guess_type(path.name)[0]
        return FileResponse(path, headers={"Cache-Control": cache}, media_type=kind)

    def _page(self) -> Response:
        """Return the page, whose files are named with the version. Raises RouteNotFound."""
        path = self._file([PAGE])
        if path is None:
            raise RouteNotFound(path="/", why="this installation has no web UI")
        text = path.read_text("utf-8").replace(VERSION, self._version)
        return HTMLResponse(text, headers={"Cache-Control": "no-cache"})

    def _file(self, segments: list[str]) -> Path | None:
        if not segments or any(not part or part.startswith(".") for part in segments):
            return None
        if any("/" in part or "\\" in part or "\0" in part for part in segments):
            return None
        try:
            path = self._folder.joinpath(*segments).resolve()
            return path if path.is_relative_to(self._folder) and path.is_file() else None
        except OSError:  # a name that no file can have
            return None

"""Resources: a run, its timeline and its output, as JSON."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote

import mcp_types as types
from mcp.shared.exceptions import MCPError

from holdfast.core.api_keys import Right
from holdfast.errors import HoldfastError
from holdfast.server.masking import masked
from holdfast.server.mcp.callers import McpCaller
from holdfast.views.values import as_json

MIME = "application/json"
TEMPLATES = {
    "holdfast://runs/{id}": ("run", "A run: its status, times, waits, input, result and error."),
    "holdfast://runs/{id}/timeline": ("timeline", "The history of a run, as rows in time."),
    "holdfast://runs/{id}/output": ("output", "The output that a run has written."),
}
LISTED = 20
"""The number of newest runs that are listed as resources."""

_URI = re.compile(r"holdfast://runs/([^/]+)(?:/(timeline|output))?")


def templates() -> list[types.ResourceTemplate]:
    """Return the templates of all resources."""
    return [
        types.ResourceTemplate(uri_template=uri, name=name, description=text, mime_type=MIME)
        for uri, (name, text) in TEMPLATES.items()
    ]


async def newest(caller: McpCaller) -> list[types.Resource]:
    """Return the newest runs as resources."""
    if Right.VIEW not in caller.rights:
        return []
    page = await caller.engine.runs().page(limit=LISTED)
    return [
        types.Resource(
            uri=f"holdfast://runs/{run.id}",
            name=run.id,
            description=f"{run.workflow}, {run.status.value}",
            mime_type=MIME,
        )
        for run in page
    ]


async def read(caller: McpCaller, uri: str) -> types.ReadResourceResult:
    """Return a resource. Raises MCPError for an unknown one."""
    matched = _URI.fullmatch(uri)
    if matched is None or Right.VIEW not in caller.rights:
        raise _not_found(uri)
    run = caller.run(unquote(matched[1]))
    answer: Any
    try:
        if matched[2] == "timeline":
            answer = await run.timeline()
        elif matched[2] == "output":
            answer = await caller.engine.streams.read(run.id)
        else:
            answer = await run.record()
    except HoldfastError:
        raise _not_found(uri) from None
    if not caller.grant.sees_values:
        answer = masked(answer)
    text = as_json(answer).decode()
    contents = types.TextResourceContents(uri=uri, mime_type=MIME, text=text)
    return types.ReadResourceResult(contents=[contents])


def _not_found(uri: str) -> MCPError:
    return MCPError(types.INVALID_PARAMS, "Resource not found", {"uri": uri})

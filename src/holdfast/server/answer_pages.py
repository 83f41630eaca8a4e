"""The public page of a gate link: GET shows the pending decision, POST decides.

Programs that scan mails follow every link, so GET never decides. The page needs no JavaScript and
no API key; the token in its address is the credential, and it is never logged.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from urllib.parse import parse_qs

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from holdfast.connect.components import Components
from holdfast.connect.faces import AsyncFaces
from holdfast.core.duration import as_datetime
from holdfast.core.gates.model import GateStatus
from holdfast.errors import HoldfastError, TokenRefused
from holdfast.server.auth import Gatekeeper
from holdfast.server.bodies import read_body
from holdfast.server.problems import problem_of

PAGE = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><meta name="robots" content="noindex">
<title>{title} · Holdfast</title><link rel="stylesheet" href="../answer.css"></head>
<body><main><p class="brand">Holdfast</p><h1>{title}</h1>{body}</main></body>
</html>
"""
FORM = """<dl>{facts}</dl>{data}
<form method="post"><p><label>Comment <textarea name="feedback" rows="3"></textarea></label></p>
<p><button type="submit">{choice}</button></p></form>
<p class="soft">Nothing is decided until you press the button.</p>"""


class AnswerPages:
    """Answers the requests at ``/answer/{token}``."""

    def __init__(self, faces: AsyncFaces, gatekeeper: Gatekeeper) -> None:
        self._faces: AsyncFaces = faces
        self._gatekeeper: Gatekeeper = gatekeeper

    async def answer(self, request: Request, token: str) -> Response:
        """Show the pending decision, or make it. Errors are pages, too."""
        try:
            if request.method == "POST":
                return await self._decide(request, token)
            return await self._show(token)
        except HoldfastError as error:
            problem = problem_of(error)
            remedy = "" if problem.remedy is None else f"<p>{escape(problem.remedy)}</p>"
            return _page(problem.title, remedy, problem.status)

    async def _show(self, token: str) -> Response:
        title, body = await self._faces.call(lambda parts: _pending(parts, token))
        return _page(title, body, 200)

    async def _decide(self, request: Request, token: str) -> Response:
        self._gatekeeper.stranger(request)
        body = (await read_body(request, 100_000)).decode("utf-8", "replace")
        feedback = parse_qs(body).get("feedback", [None])[0]
        engine = await self._faces.of(None)
        gate = await engine.gates.answer(token, feedback=feedback)
        facts = _facts({"Decision": gate.prompt, "Answer": gate.choice or "waits for others"})
        return _page("Your decision was recorded", f"<dl>{facts}</dl>", 200)


def _pending(parts: Components, token: str) -> tuple[str, str]:
    """Return the title and the body of the page of a link. Raises TokenRefused, TokenExpired."""
    claims = parts.gates.link_claims(token)
    gate = parts.store.gates.get(claims["gate"])
    if gate is None or not parts.client.may_access(claims["run"]):
        raise TokenRefused()
    if gate.status != GateStatus.OPEN:
        decided = gate.choice or str(gate.status)
        return gate.prompt, f"<p>This decision was made before: {escape(decided)}</p>"
    data = ""
    if gate.data is not None:
        data = f"<h2>What will be done</h2><pre>{escape(as_text(gate.data))}</pre>"
    facts = {"You are": claims["by"], "Your answer": claims["choice"], "Run": claims["run"]}
    if gate.deadline is not None:
        facts["Until"] = f"{as_datetime(gate.deadline):%Y-%m-%d %H:%M} UTC"
    return gate.prompt, FORM.format(facts=_facts(facts), choice=escape(claims["choice"]), data=data)


def _facts(facts: Mapping[str, str]) -> str:
    return "".join(
        f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts.items()
    )


def as_text(data: bytes) -> str:
    """Return stored JSON as indented text, digit by digit; other bytes as they are."""
    try:
        return msgspec.json.format(bytes(data), indent=2).decode()
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return bytes(data).decode("utf-8", "replace")


def _page(title: str, body: str, status: int) -> Response:
    # The address of the page ends with ``answer/TOKEN``: its style is one folder up, below any
    # prefix at which the server is mounted.
    text = PAGE.format(title=escape(title), body=body)
    headers = {"Cache-Control": "no-store", "X-Robots-Tag": "noindex"}
    return Response(text, status, headers, media_type="text/html")

"""The executors that ship with Holdfast: agents on the command line, programs, HTTP endpoints.

An agent gets its prompt on stdin and prints an output block. A program gets JSON on stdin and
prints JSON. An endpoint gets JSON by POST and answers JSON. Each is stopped, with all its
processes, if its step is cancelled or exceeds its time limit.
"""

from __future__ import annotations

import asyncio
import http.client
import os
import shlex
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from holdfast.authoring.wf.outputs import MOST_BYTES, StepOutput
from holdfast.authoring.wf.processes import checked_end, decoded, run_process
from holdfast.authoring.wf.prompts import AgentFile, PromptFolders, compose_prompt
from holdfast.authoring.wf.registrations import ExecutorCall
from holdfast.authoring.wf.scripts import host_environment
from holdfast.core import duration
from holdfast.core.duration import Duration
from holdfast.core.trace_context import TAG, traceparent_here
from holdfast.errors import Fail
from holdfast.errors.wf_runs import BadRegistration, ProgramUnusable

ENDPOINT_TIMEOUT = 600_000_000
"""Microseconds that an endpoint may take, unless its registration says otherwise."""

_TRY_AGAIN = frozenset({408, 409, 425, 429})


def command_words(command: str | Sequence[str]) -> list[str]:
    """Return a command as a list of words. Raises BadRegistration."""
    words = shlex.split(command) if isinstance(command, str) else list(command)
    if not words or not all(isinstance(word, str) and "\0" not in word for word in words):
        raise BadRegistration(command=command, why='give a command, such as ["claude", "-p"]')
    return words


def call_as_data(call: ExecutorCall) -> dict[str, Any]:
    """Return a call as plain data, for programs and endpoints."""
    fields = {name: getattr(call, name) for name in call.__struct_fields__}
    fields["inputs"] = dict(call.inputs)
    return fields


class Agent:
    """An executor that starts a command line agent: its prompt is the agent file of the call, the
    snippets, and instructions for the output block."""

    def __init__(self, command: str | Sequence[str], *, folders: Sequence[str] = ()) -> None:
        self._command: list[str] = command_words(command)
        self._folders: Sequence[str] = folders
        self.library: Any = None
        """Set when it is registered in a library, whose folders have the agent files."""

    async def __call__(self, call: ExecutorCall) -> StepOutput:
        """Run the agent once. Raises ScriptFailed, ProgramUnusable."""
        folders = PromptFolders(self.library, self._folders, call)
        agent = folders.agent()
        prompt = compose_prompt(agent, folders.snippets(), folders.schema(), call)
        finished = await run_process(
            self._command,
            name=call.name,
            cwd=call.cwd,
            env={**host_environment(), **agent_environment(call, agent)},
            stdin=prompt.encode(),
        )
        checked_end(call.name, finished)
        return StepOutput(text=decoded(finished.stdout, call.name, "stdout"))


def agent_environment(call: ExecutorCall, agent: AgentFile) -> dict[str, str]:
    """Return the facts of a call that an agent finds in its environment."""
    env = {
        "HOLDFAST_RUN": call.run,
        "HOLDFAST_STEP": call.step,
        "HOLDFAST_ATTEMPT": str(call.attempt),
        "HOLDFAST_IDEMPOTENCY_KEY": call.idempotency_key,
        "HOLDFAST_DRY_RUN": "true" if call.dry_run else "false",
        "HOLDFAST_PLUGIN_DIRS": os.pathsep.join(call.plugin_dirs),
        "HOLDFAST_IDENTITY": call.identity or "",
        "HOLDFAST_MODEL": agent.model,
    }
    if call.max_turns is not None:
        env["HOLDFAST_MAX_TURNS"] = str(call.max_turns)
    return env


class CommandProgram:
    """An executor, provider, resolver or environment that is a command line: JSON on stdin, JSON on
    stdout."""

    def __init__(
        self,
        command: str | Sequence[str],
        *,
        name: str = "",
        cwd: str | os.PathLike[str] | None = None,
        timeout: Duration | None = None,
    ) -> None:
        self._command: list[str] = command_words(command)
        self.name: str = name or Path(self._command[0]).name
        self._cwd: str | None = None if cwd is None else os.path.abspath(os.fspath(cwd))
        self._timeout: float | None = None
        if timeout is not None:
            self._timeout = duration.parse(timeout) / 1_000_000

    async def __call__(self, call: ExecutorCall) -> Any:
        """Execute a call. Raises ScriptFailed, ProgramUnusable."""
        answer = await self.ask(call_as_data(call), call.cwd)
        if answer is not None and not isinstance(answer, dict):
            raise ProgramUnusable(
                program=self.name, why="it must print a JSON object with markers, context, output"
            )
        return answer

    async def ask(self, question: Any, cwd: str) -> Any:
        """Return the answer to a question; None if it printed nothing. Raises ScriptFailed,
        ProgramUnusable."""
        work = run_process(
            self._command,
            name=self.name,
            cwd=self._cwd or cwd,
            env=host_environment(),
            stdin=msgspec.json.encode(question),
        )
        try:
            finished = await asyncio.wait_for(work, self._timeout)
        except TimeoutError:
            raise ProgramUnusable(
                program=self.name, why=f"it gave no answer within {self._timeout:g} seconds"
            ) from None
        checked_end(self.name, finished)
        text = decoded(finished.stdout, self.name, "stdout").strip()
        if not text:
            return None
        try:
            return msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError) as error:
            raise ProgramUnusable(
                program=self.name, why=f"it printed no JSON: {error}", printed=text[:200]
            ) from None


class Endpoint:
    """An executor that is an HTTP endpoint: the call is posted as JSON, with its idempotency key in
    the header ``Idempotency-Key``; the answer is JSON, or a text with an output block."""

    def __init__(
        self,
        url: str,
        *,
        headers: dict[str, str] | None = None,
        timeout: Duration | None = None,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise BadRegistration(url=url, why="give a URL that begins with http:// or https://")
        self._url: str = url
        self._headers: dict[str, str] = dict(headers or {})
        limit = ENDPOINT_TIMEOUT if timeout is None else duration.parse(timeout)
        self._timeout: float = limit / 1_000_000

    async def __call__(self, call: ExecutorCall) -> Any:
        """Post the call and return the answer. Raises ProgramUnusable, Fail."""
        connection = self._connect()
        body = msgspec.json.encode(call_as_data(call))
        headers = {
            "Content-Type": "application/json",
            "Idempotency-Key": call.idempotency_key,
            **self._headers,
        }
        parent = traceparent_here()
        if parent is not None:
            headers[TAG] = parent
        try:
            return await asyncio.wait_for(
                asyncio.to_thread(self._post, connection, body, headers), self._timeout
            )
        except TimeoutError:
            raise ProgramUnusable(
                url=self._url, why=f"it gave no answer within {self._timeout:g} seconds"
            ) from None
        finally:
            _close(connection)

    def _connect(self) -> http.client.HTTPConnection:
        parts = urlsplit(self._url)
        host = parts.hostname or ""
        if parts.scheme == "https":
            return http.client.HTTPSConnection(host, parts.port, timeout=self._timeout)
        return http.client.HTTPConnection(host, parts.port, timeout=self._timeout)

    def _post(
        self, connection: http.client.HTTPConnection, body: bytes, headers: dict[str, str]
    ) -> Any:
        parts = urlsplit(self._url)
        path = parts.path or "/"
        if parts.query:
            path = f"{path}?{parts.query}"
        try:
            connection.request("POST", path, body, headers)
            response = connection.getresponse()
            data = response.read(2 * MOST_BYTES)
        except (OSError, http.client.HTTPException) as error:
            why = str(error) or type(error).__name__
            raise ProgramUnusable(url=self._url, why=f"no answer: {why}") from None
        return self._read(response, data)

    def _read(self, response: http.client.HTTPResponse, data: bytes) -> Any:
        text = data.decode("utf-8", "replace")
        if response.status >= 300:
            shown = text.strip()[:500]
            if 400 <= response.status < 500 and response.status not in _TRY_AGAIN:
                raise Fail(f"the endpoint refused the call: {shown}", status=response.status)
            raise ProgramUnusable(url=self._url, status=response.status, answer=shown)
        if "json" not in (response.headers.get_content_type() or ""):
            return text
        try:
            return msgspec.json.decode(data or b"null")
        except (msgspec.DecodeError, RecursionError) as error:
            raise ProgramUnusable(url=self._url, why=f"the answer is not JSON: {error}") from None


def _close(connection: http.client.HTTPConnection) -> None:
    """Close a connection, also one in which a thread still waits for an answer."""
    sock = connection.sock
    if sock is not None:
        with suppress(OSError):
            sock.shutdown(2)
    connection.close()

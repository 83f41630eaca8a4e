"""Random requests against a server process: no answer is outside the OpenAPI document."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from contextlib import suppress
from urllib.parse import urlsplit

import pytest

from holdfast import Engine
from holdfast.core.api_keys import Right
from holdfast.errors import MethodRefused, RouteNotFound
from holdfast.server.operation_table import OPERATIONS
from holdfast.server.router import Router, segments_of
from tests.conftest import SYSTEM_PATH
from tests.server import openapi_module
from tests.server.clients import ServeProcess

pytestmark = pytest.mark.needs_tool("schemathesis")

WITHOUT_END = ("events.follow", "streams.tail")
"""Operations whose answers do not end."""

PARAMETERS = """
[parameters]
"path.id" = ["completed", "failed", "asking", "waiting"]
"path.run" = ["completed", "failed", "asking", "waiting"]
"path.run_id" = ["completed", "failed", "asking", "waiting"]
"path.gate" = ["asking"]
"path.name" = ["lane", "budget", "schedule", "webhook", "rule", "openapi.completes"]
"""
"""The names of what there is: random names would find nothing."""

CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,"
    "response_schema_conformance,unsupported_method,allow_header_conformance"
)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("openapi")
    database = str(folder / "openapi.db")
    openapi_module.populate(database)
    with Engine(database, work=False) as engine:
        keys = {
            role: engine.api_keys.add(f"a {role}", roles=role).api_key
            for role in (*RIGHTS_OF, "admin")
        }
        keys["bound operator"] = engine.api_keys.add(
            "ann", roles=["operator", "worker"], namespace="acme", values=False
        ).api_key
    with ServeProcess(database, "--worker", openapi_module.__file__) as process:
        process.keys = keys
        yield process


RIGHTS_OF = {
    "viewer": {Right.VIEW},
    "starter": {Right.START},
    "approver": {Right.DECIDE},
    "worker": {Right.WORK},
    "operator": {Right.VIEW, Right.START, Right.DECIDE, Right.OPERATE},
}
"""The rights of each role, as the documentation says, not as the code does."""


@pytest.mark.parametrize(("key", "mode"), [("admin", "all"), ("bound operator", "positive")])
def test_every_answer_is_one_that_the_document_describes(server, tmp_path, key, mode):
    ended = fuzzed(server, tmp_path, key, mode)

    assert ended.returncode == 0, ended.stdout[-8000:] + ended.stderr[-2000:]


ROLES = list(RIGHTS_OF) if "HOLDFAST_EXAMPLES" in os.environ else ["approver"]
"""The role with the fewest rights; ``test_access.py`` calls each operation with each role."""


@pytest.mark.parametrize("role", ROLES)
def test_no_role_exceeds_its_rights(server, tmp_path, role):
    """Every answer to an operation beyond the rights of the role is 403, whatever is sent."""
    log = tmp_path / "answers.har"
    options = ("--report-har-path", log, "--max-examples", "1")

    ended = fuzzed(server, tmp_path, role, "positive", *options)

    assert ended.returncode == 0, ended.stdout[-8000:] + ended.stderr[-2000:]
    answers = list(answers_of(log))
    refused = {name for name, status in answers if status == 403}
    admitted = {name for name, status in answers if status not in (401, 403, 405)}
    own = {
        operation.name
        for operation in OPERATIONS
        if operation.right is None or {operation.right, operation.other_right} & RIGHTS_OF[role]
    }
    assert admitted and admitted <= own, admitted - own
    assert refused, "the role is refused nothing"


def answers_of(log):
    """Yield the name of the operation and the status of each answer in an HTTP archive."""
    router = Router(OPERATIONS)
    for entry in json.loads(log.read_text("utf-8"))["log"]["entries"]:
        path = urlsplit(entry["request"]["url"]).path.encode()
        segments = segments_of({"raw_path": path, "path": ""})[2:]
        with suppress(RouteNotFound, MethodRefused):
            operation, _ = router.find(entry["request"]["method"], segments)
            yield operation.name, entry["response"]["status"]


def fuzzed(server, tmp_path, key, mode, *more):
    """Send random requests with an API key, and return the ended process."""
    config = tmp_path / "schemathesis.toml"
    config.write_text(PARAMETERS)
    options = ["--checks", CHECKS, "--phases", "fuzzing", "--mode", mode, "--max-examples", "2"]
    options += ["--seed", "7", "--no-shrink", "--suppress-health-check", "all", "--warnings", "off"]
    for name in WITHOUT_END:
        options += ["--exclude-operation-id", name]
    options += map(str, more)

    return subprocess.run(
        [
            shutil.which("schemathesis", path=SYSTEM_PATH),
            "--config-file",
            str(config),
            "run",
            f"{server.url}api/v1/openapi.json",
            "--header",
            f"Authorization: Bearer {server.keys[key]}",
            *options,
        ],
        capture_output=True,
        text=True,
        timeout=200,
        cwd=tmp_path,
    )

"""The operation table is complete: every method has a route, every error a status."""

import importlib
import pkgutil
import subprocess
import sys

import msgspec
import pytest

import holdfast.views
from holdfast import errors
from holdfast.core.api_keys import Right
from holdfast.server import openapi
from holdfast.server.masking import HIDDEN
from holdfast.server.operation_table import (
    NOT_OVER_HTTP,
    OPERATIONS,
    SAME_AS,
    without_operation,
)
from holdfast.server.problems import STATUSES


def test_every_error_has_a_status():
    assert openapi.missing_statuses() == []
    assert [name for name in STATUSES if not hasattr(errors, name)] == []


def test_every_method_of_the_engine_has_an_operation():
    names = {operation.name for operation in OPERATIONS}

    assert without_operation() == []
    assert [name for name in SAME_AS.values() if name not in names] == []
    assert [name for name in NOT_OVER_HTTP if name in names] == []


def test_every_field_that_may_hold_a_value_is_classified():
    """A field of any type is hidden from keys without values, or listed here as harmless."""
    harmless = {
        "breached",
        "details",
        "facts",
        "items",
        "filters",
        "limits",
        "policy",
        "problems",
        "rule",
        "serves",
        "state",
        "statuses",
        "unreadable",
        "which",
    }
    unknown = set()
    for module in pkgutil.iter_modules(holdfast.views.__path__):
        views = importlib.import_module(f"holdfast.views.{module.name}")
        for view in vars(views).values():
            if isinstance(view, type) and issubclass(view, msgspec.Struct):
                for field in msgspec.structs.fields(view):
                    if "Any" in str(field.type):
                        unknown.add(field.name)

    assert sorted(unknown - HIDDEN - harmless) == []


NOT_RECORDED = {
    "budgets.spend": "an amount that was used, which the budget counts",
    "database.check": "it changes nothing",
    "database.check_payloads": "it changes nothing",
    "operations.wait": "it continues what another call has recorded",
    "retention.preview": "it changes nothing",
    "server.check_versions": "it changes nothing",
    "server.delete": "the handler names the caller",
    "server.end_login": "the handler names the caller",
}
"""Operations of operators that take no name, with the reason."""


def test_every_operation_of_an_operator_records_the_caller():
    nameless = {
        operation.name
        for operation in OPERATIONS
        if operation.changes
        and operation.right in (Right.OPERATE, Right.ADMIN, Right.DECIDE)
        and "by" not in operation.names
    }

    assert nameless == set(NOT_RECORDED)


def test_no_two_operations_share_a_name_or_an_address():
    names = [operation.name for operation in OPERATIONS]
    addresses = [(operation.method, operation.path) for operation in OPERATIONS]

    assert len(set(names)) == len(names)
    assert len(set(addresses)) == len(addresses)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_an_operation_is_declared_completely(operation):
    described = openapi.document([operation], "1")["paths"][operation.path]
    method = described[operation.method.lower()]

    assert operation.summary.endswith(".")
    assert method["operationId"] == operation.name
    assert {"400", "401", "403", "422", "429", "503"} <= set(method["responses"])
    assert operation.changes or operation.right in (None, *openapi.READS)
    assert operation.right is not None or operation.public or operation.name == "server.me"
    assert operation.function is not None or operation.handler is not None


def test_an_import_of_holdfast_loads_no_server():
    code = "import holdfast, sys; holdfast.Engine; print(sorted(set(sys.modules) & {LIST}))"
    unwanted = {"starlette", "uvicorn", "prometheus_client", "anyio", "h11", "holdfast.server"}
    done = subprocess.run(
        [sys.executable, "-c", code.replace("{LIST}", repr(unwanted))],
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.strip() == "[]"

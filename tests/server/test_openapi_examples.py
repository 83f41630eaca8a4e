"""The examples of the OpenAPI document are requests that the server accepts."""

import pytest

from holdfast.server import openapi
from holdfast.server.bodies import decode_body
from holdfast.server.openapi_examples import EXAMPLES
from holdfast.server.operation_table import OPERATIONS
from holdfast.views.values import as_json

BY_NAME = {operation.name: operation for operation in OPERATIONS}
NEEDS_SOMETHING = {
    "gates.decide",
    "lease.fail",
    "run.cancel",
    "run.signal",
    "schedules.set",
    "server.claim",
    "server.complete",
    "waits.deliver",
}
"""The operations that are about a thing which must exist."""


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_fits_its_operation(name):
    decode_body(BY_NAME[name], as_json(EXAMPLES[name]))


@pytest.mark.parametrize("name", sorted({*EXAMPLES} - NEEDS_SOMETHING))
def test_an_example_is_accepted(admin, name):
    operation = BY_NAME[name]

    response = admin(operation.method, operation.path.replace("{name}", "x"), EXAMPLES[name])

    assert response.status_code == operation.status, response.text
    if name == "server.check":
        assert response.json()["ok"], response.text


def test_every_operation_is_described_and_public_ones_need_no_key(admin):
    document = openapi.document(OPERATIONS, "1")
    described = [item for path in document["paths"].values() for item in path.values()]

    assert all(item["summary"] and item["description"] for item in described)
    public = {item["operationId"] for item in described if item.get("security") == []}
    assert public == {"gates.answer", "waits.deliver"}
    assert document["paths"]["/runs"]["post"]["requestBody"]["content"]["application/json"][
        "example"
    ]

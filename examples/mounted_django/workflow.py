"""Holdfast inside a Django project, through its ASGI entry: the API and the web UI below `/flows`.

    pip install django
    python examples/mounted_django/workflow.py
    curl -X POST localhost:8000/invoices/7
    curl -H 'x-user: ann' localhost:8000/flows/api/v1/runs

Django has no lifespan: the engine is opened here, and a worker of its own executes the runs
(`holdfast worker`), or this process does (`engine.work()`).
"""

from __future__ import annotations

import sys
from typing import Any

import django
import uvicorn
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.http import HttpRequest, JsonResponse
from django.urls import path

from holdfast import Engine, step, workflow
from holdfast.server import Caller, app

PREFIX = "/flows"


@step
def write_invoice(number: int) -> str:
    """Write an invoice."""
    return f"invoice {number}"


@workflow
def send_invoice(number: int) -> str:
    """Write and send an invoice."""
    return f"{write_invoice(number)} is sent"


def invoice(request: HttpRequest, number: int) -> JsonResponse:
    """A view of the project: it starts a run."""
    run = ENGINES[-1].start(send_invoice, number, id=f"invoice-{number}")
    return JsonResponse({"run": run.id}, status=202)


urlpatterns = [path("invoices/<int:number>", invoice)]
ENGINES: list[Engine] = []


def who(request: Any) -> Caller | None:
    """Return the user of a request. A real project looks at the session of Django."""
    user = request.headers.get("x-user")
    return None if user is None else Caller(name=user, roles=["operator"])


def build(engine: Engine) -> Any:
    """Return the ASGI entry of the project: `asgi.py` of a real one."""
    if not settings.configured:
        settings.configure(
            ROOT_URLCONF=__name__, ALLOWED_HOSTS=["localhost"], SECRET_KEY="an example", USE_TZ=True
        )
        django.setup()
    ENGINES.append(engine)
    project = get_asgi_application()
    flows = app(engine, who=who)

    async def entry(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and (scope["path"] + "/").startswith(f"{PREFIX}/"):
            await flows({**scope, "root_path": scope.get("root_path", "") + PREFIX}, receive, send)
        else:
            await project(scope, receive, send)

    return entry


if __name__ == "__main__":
    with Engine(sys.argv[1] if len(sys.argv) > 1 else "django.db") as engine:
        uvicorn.run(build(engine), port=8000, lifespan="off")

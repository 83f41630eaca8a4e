"""Holdfast inside a Starlette program: its API and its web UI below `/flows`.

    python examples/mounted_starlette/workflow.py
    curl -H 'x-user: ann' localhost:8000/flows/api/v1/runs

A mounted app gets no lifespan events; Holdfast needs none.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route

from holdfast import AsyncEngine, step, workflow
from holdfast.server import Caller, app


@step
async def weigh_parcel(grams: int) -> str:
    """Return the class of a parcel."""
    return "letter" if grams < 500 else "parcel"


@workflow
async def post_parcel(grams: int) -> str:
    """Weigh and post."""
    return f"posted as a {await weigh_parcel(grams)}"


def who(request: Request) -> Caller | None:
    """Return the user of a request. A real program looks at its own session."""
    user = request.headers.get("x-user")
    return None if user is None else Caller(name=user, roles=["operator"])


def build(database: str) -> Starlette:
    """Return the program."""
    engine = AsyncEngine(database)

    @asynccontextmanager
    async def lifespan(program: Starlette) -> AsyncIterator[None]:
        async with engine:
            yield

    async def post(request: Request) -> JSONResponse:
        run = await engine.start(post_parcel, int(request.path_params["grams"]))
        return JSONResponse({"run": run.id}, status_code=202)

    routes = [
        Route("/post/{grams:int}", post, methods=["POST"]),
        Mount("/flows", app=app(engine, who=who)),
    ]
    return Starlette(routes=routes, lifespan=lifespan)


if __name__ == "__main__":
    uvicorn.run(build(sys.argv[1] if len(sys.argv) > 1 else "starlette.db"), port=8000)

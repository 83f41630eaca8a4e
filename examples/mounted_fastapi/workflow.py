"""Holdfast inside a FastAPI program: its API and its web UI below `/flows`.

pip install fastapi
python examples/mounted_fastapi/workflow.py
curl -X POST localhost:8000/orders/7
curl -H 'x-user: ann' localhost:8000/flows/api/v1/runs
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from fastapi import FastAPI

from holdfast import AsyncEngine, step, workflow
from holdfast.server import Caller, app


@step(retries=3)
async def book_order(number: int) -> str:
    """Write an order into the books."""
    return f"order {number}"


@workflow
async def place_order(number: int) -> str:
    """Book an order."""
    return f"{await book_order(number)} is placed"


def build(database: str) -> FastAPI:
    """Return the program."""
    engine = AsyncEngine(database)

    @asynccontextmanager
    async def lifespan(program: FastAPI) -> AsyncIterator[None]:
        async with engine:
            yield

    program = FastAPI(lifespan=lifespan)

    @program.post("/orders/{number}", status_code=202)
    async def place(number: int) -> dict[str, str]:
        run = await engine.start(place_order, number, id=f"order-{number}")
        return {"run": run.id}

    def who(request: object) -> Caller | None:
        user = request.headers.get("x-user")  # type: ignore[attr-defined]
        return None if user is None else Caller(name=user, roles=["operator"])

    program.mount("/flows", app(engine, who=who))
    return program


if __name__ == "__main__":
    uvicorn.run(build(sys.argv[1] if len(sys.argv) > 1 else "fastapi.db"), port=8000)

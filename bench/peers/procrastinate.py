"""procrastinate: a queue of jobs. A workflow of steps is a chain of jobs, the only durable form
that it has. Ten jobs at once; polled every 0.1 s besides its notifications, because it can lose one
and then waits for the next poll."""

from __future__ import annotations

import asyncio
from typing import Any

import procrastinate

from bench.place import Place

CONCURRENCY = 10
done: dict[str, asyncio.Future[None]] = {}


def app(place: Place) -> Any:
    connector = procrastinate.PsycopgConnector(
        conninfo=place.url, min_size=2, max_size=CONCURRENCY + 10
    )
    made: Any = procrastinate.App(connector=connector)

    @made.task(name="job", queue="q")
    async def job(number: int) -> int:
        return number

    @made.task(name="chain", queue="q")
    async def chain(key: str, number: int, count: int) -> int:
        if number + 1 < count:
            await chain.defer_async(key=key, number=number + 1, count=count)
        elif key in done:
            done[key].set_result(None)
        return number

    @made.task(name="plain", queue="q")
    def plain(key: str, number: int, count: int) -> int:
        if number + 1 < count:
            plain.defer(key=key, number=number + 1, count=count)
        elif key in done:
            done[key].get_loop().call_soon_threadsafe(done[key].set_result, None)
        return number

    made.job, made.chain, made.plain = job, chain, plain
    return made


async def opened(place: Place, *, fresh: bool = True) -> Any:
    made = app(place)
    await made.open_async()
    if fresh:
        await made.schema_manager.apply_schema_async()
    return made


def work(made: Any, concurrency: int = CONCURRENCY) -> asyncio.Task[None]:
    return asyncio.create_task(
        made.run_worker_async(
            concurrency=concurrency,
            install_signal_handlers=False,
            listen_notify=True,
            fetch_job_polling_interval=0.1,
        )
    )


async def stop(made: Any, worker: asyncio.Task[None]) -> None:
    worker.cancel()
    await asyncio.gather(worker, return_exceptions=True)
    await made.close_async()


async def chain(made: Any, key: str, count: int) -> None:
    """Run a chain of jobs to its end."""
    done[key] = asyncio.get_running_loop().create_future()
    await made.chain.defer_async(key=key, number=0, count=count)
    await done[key]
    del done[key]


async def prepare(place: Place) -> None:
    """Create its tables."""
    await (await opened(place)).close_async()


async def chains(place: Place, form: str, count: int, length: int, callers: int) -> None:
    """Run many chains with a worker of their own, started by some callers at once."""
    made = await opened(place, fresh=False)
    worker = work(made)
    calling = asyncio.Semaphore(callers)
    keys = [f"{form}-{number}" for number in range(count)]

    async def run(key: str) -> None:
        done[key] = asyncio.get_running_loop().create_future()
        async with calling:
            await getattr(made, form).defer_async(key=key, number=0, count=length)
        await done[key]

    await asyncio.wait_for(asyncio.gather(*map(run, keys)), 120)
    await stop(made, worker)

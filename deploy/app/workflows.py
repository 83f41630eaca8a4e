"""Workflows of the worker in `compose.yaml`: replace them with your own."""

from holdfast import step, workflow


@step(retries=3)
async def say_hello(name: str) -> str:
    """Return a greeting."""
    return f"Hello, {name}!"


@workflow
async def hello(name: str = "world") -> str:
    """Greet somebody, durably."""
    return await say_hello(name)

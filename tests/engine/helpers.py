"""Steps and functions that are defined in another module than the workflow that calls them."""

from __future__ import annotations

from holdfast import step


@step
async def deliver() -> str:
    return "delivered"


async def deliver_it() -> str:
    return await deliver()


class Courier:
    """Call a step in a method and in ``__aenter__``."""

    async def bring(self) -> str:
        return await deliver()

    async def __aenter__(self) -> str:
        return await deliver()

    async def __aexit__(self, *exc: object) -> None: ...


class Desk:
    """A class with a step as an attribute."""

    hand_over = deliver

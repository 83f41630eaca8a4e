"""S4: one workflow starts a thousand children and waits for all of them."""

from __future__ import annotations

from bench.place import Place, check, wait_until
from bench.scenario import Scenario, Target

SCENARIO = Scenario(
    "s4",
    "fan-out of 1,000 children and join",
    "seconds",
    "s",
    size={"n": 1000},
    targets=(
        Target("sqlite", "seconds", 1 / 20, "dbos", at_most=True),
        Target("postgres", "seconds", 1 / 20, "dbos", at_most=True),
        Target("postgres", "seconds", 1 / 10, "absurd", at_most=True),
    ),
)


def holdfast(place: Place) -> dict[str, float]:
    from bench.peers import ours
    from holdfast import Engine

    with Engine(place.url) as engine:
        check(engine.start(ours.parent, 10).result(), 10)
        with place.meter() as meter:
            check(engine.start(ours.parent, place.n).result(), place.n)
        return place.per(meter, place.n, "child")


def dbos(place: Place) -> dict[str, float]:
    from bench.peers import dbos as peer

    peer.launch(place)
    check(peer.parent(5, 0), 5)
    with place.meter() as meter:
        check(
            peer.parent(place.n, peer.THREADS["sqlite"] if place.store == "sqlite" else 0), place.n
        )
    return place.per(meter, place.n, "child")


def absurd(place: Place) -> dict[str, float]:
    from bench.peers import absurd as peer

    client, count = peer.install(place, "kids"), peer.finished(place, "kids")
    stop = peer.work(place, queue="kids")
    with place.meter() as meter:
        task = client.spawn("parent", {"count": place.n})["task_id"]
        client.work_batch(claim_timeout=300)
        check(client.fetch_task_result(task).state, "completed")
    wait_until(count, place.n)
    stop()
    return place.per(meter, place.n, "child")

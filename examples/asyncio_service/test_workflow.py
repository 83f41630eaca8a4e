import asyncio
import json

from examples.asyncio_service.workflow import Service, signup

from holdfast import AsyncEngine


def test_a_signup_is_confirmed_over_http(tmp_path):
    async def talk():
        async with AsyncEngine(tmp_path / "service.db") as engine:
            server = await asyncio.start_server(Service(engine).connected, "127.0.0.1", 0)
            port = server.sockets[0].getsockname()[1]
            async with server:
                answers = [await request(port, "POST", "/signup/ann") for _ in range(2)]
                answers.append(await request(port, "POST", "/confirm/signup-ann"))
                await (await engine.run("signup-ann")).result(timeout="30s")
                return [*answers, await request(port, "GET", "/runs/signup-ann")]

    started, again, confirmed, shown = asyncio.run(talk())

    assert started == again == (202, {"run": "signup-ann"})
    assert confirmed == (204, None)
    assert shown == (200, {"status": "completed", "result": "welcome, ann"})


def test_what_is_not_there_is_not_found_and_what_is_over_is_over(tmp_path):
    async def talk():
        async with AsyncEngine(tmp_path / "service.db") as engine:
            service = Service(engine)
            run = await engine.start(signup, "bob", id="signup-bob")
            await run.signal("confirmed")
            await run.result(timeout="30s")
            paths = [("GET", "/runs/nobody"), ("GET", "/nowhere"), ("POST", "/confirm/signup-bob")]
            return [(await service.answer(*path))[0] for path in paths]

    assert asyncio.run(talk()) == [404, 404, 409]


def test_who_does_not_confirm_within_two_days_is_too_late(holdfast_lab):
    assert holdfast_lab.run_to_end(signup, "ann") == "too late, ann"


def test_a_crash_anywhere_changes_nothing(crash_everywhere):
    crash_everywhere(signup, "ann", signals=["confirmed"])


async def request(port, method, path):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    await writer.wait_closed()
    return int(head.split()[1]), json.loads(body) if body else None

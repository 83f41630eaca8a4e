"""A worker in plain Python, without Holdfast: it leases runs of the workflow "render" over HTTP.

HOLDFAST_URL and HOLDFAST_API_KEY name the server and a key with the role "worker".
"""

import json
import os
import threading
import time
from urllib.request import Request, urlopen

BASE = os.environ["HOLDFAST_URL"].rstrip("/") + "/api/v1"
SECONDS = float(os.environ.get("WORK_SECONDS", "0"))
LEASE = os.environ.get("LEASE_TTL", "30s")


def post(path, body=None, **headers):
    request = Request(
        BASE + path,
        json.dumps(body or {}).encode(),
        {
            "Authorization": f"Bearer {os.environ['HOLDFAST_API_KEY']}",
            "Content-Type": "application/json",
            **headers,
        },
    )
    with urlopen(request, timeout=60) as response:
        return json.load(response)


def renew(worker):
    while True:
        time.sleep(1)
        post(f"{worker}/renew")


def render(task):
    print("render", task["size"], flush=True)
    time.sleep(SECONDS)
    return {"url": f"image-{task['size']}.png", "by": "python"}


def main():
    offer = {"worker": "python", "workflows": ["render"], "ttl": LEASE}
    worker = "/remote-workers/" + post("/remote-workers", offer)["remote_worker"]
    threading.Thread(target=renew, args=[worker], daemon=True).start()
    number = 0
    while True:
        number += 1  # a repeated claim with the same key gets the same leases
        key = {"Idempotency-Key": str(number)}
        leases = post(f"{worker}/claim", {"limit": 16, "wait": "20s"}, **key)["items"]
        done = [{"proof": lease["proof"], "result": render(lease["input"])} for lease in leases]
        if done:
            post(f"{worker}/complete", {"completions": done})


if __name__ == "__main__":
    main()

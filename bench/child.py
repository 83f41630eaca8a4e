"""One measurement, in a process and an environment of its own: call the contestant's function and
print what it found."""

from __future__ import annotations

import gc
import importlib
import json
import logging
import os
import sys

from bench.place import Place, say


def main() -> None:
    place = Place(**json.loads(sys.argv[1]))
    logging.disable(logging.WARNING)
    os.environ.setdefault("PYTHONHASHSEED", "0")
    gc.set_threshold(
        20_000, 20, 20
    )  # the same for everybody: what a process that does nothing but work would set
    found = getattr(importlib.import_module(f"bench.scenarios.{place.scenario}"), place.contestant)(
        place
    )
    say("result " + json.dumps(found))
    os._exit(0)  # some peers have threads that never end


if __name__ == "__main__":
    main()

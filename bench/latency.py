"""A proxy that makes a database farther away: what it passes on arrives later, as much in each
direction, and in order. Threads, because an event loop rounds a pause up to a millisecond."""

from __future__ import annotations

import queue
import socket
import threading
import time


class Proxy:
    """Listens on loopback and passes on to a socket of the file system."""

    def __init__(self, target: str, round_trip_ms: float) -> None:
        self._target = target
        self._delay = round_trip_ms / 2e3
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            near, _ = self._listening.accept()
            near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            far = socket.socket(socket.AF_UNIX)
            far.connect(self._target)
            for source, sink in ((near, far), (far, near)):
                sent: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()
                threading.Thread(target=self._read, args=(source, sent), daemon=True).start()
                threading.Thread(target=self._write, args=(sink, sent), daemon=True).start()

    def _read(self, source: socket.socket, sent: queue.SimpleQueue[tuple[float, bytes]]) -> None:
        data = b"x"
        while data:
            try:
                data = source.recv(1 << 16)
            except OSError:
                data = b""
            sent.put((time.perf_counter() + self._delay, data))

    def _write(self, sink: socket.socket, sent: queue.SimpleQueue[tuple[float, bytes]]) -> None:
        while True:
            due, data = sent.get()
            pause = due - time.perf_counter()
            if pause > 0:
                time.sleep(pause)
            try:
                if not data:
                    return sink.shutdown(socket.SHUT_WR)
                sink.sendall(data)
            except OSError:
                return None

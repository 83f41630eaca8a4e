"""A receiver of webhooks: a local HTTP server that records its deliveries."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Receiver:
    """An HTTP server that records deliveries of events and can refuse them; *tls* is an optional
    TLS context."""

    def __init__(self, tls=None):
        self.heard, self.answers, self.came, self.may_answer = (
            [],
            [],
            threading.Event(),
            threading.Event(),
        )
        self.may_answer.set()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.heard.append((dict(self.headers), body))
                receiver.came.set()
                receiver.may_answer.wait(60)
                answer = receiver.answers.pop(0) if receiver.answers else 204
                self.send_response(answer)
                if answer == 302:
                    self.send_header("Location", "/elsewhere")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if tls is not None:
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_port
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook?x=1"
        self.thread = threading.Thread(
            target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )
        self.thread.start()

    def wait(self, count):
        """Wait until *count* deliveries have arrived."""
        while len(self.heard) < count:
            self.came.clear()
            assert len(self.heard) >= count or self.came.wait(60), self.heard

    def events(self):
        return [
            (event["run_id"], event["seq"])
            for event in (json.loads(body) for _, body in self.heard)
        ]

    def close(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

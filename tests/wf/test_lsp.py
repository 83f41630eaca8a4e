"""The language server in a process of its own, over stdin and stdout."""

import json
import queue
import subprocess
import sys
import threading

import pytest

pytest.importorskip("pygls")

PATIENCE = 60


class Editor:
    """An editor: writes messages to the server and reads its answers."""

    def __init__(self, folder):
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, "-m", "holdfast", "lsp", "--stdio"],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self.messages = queue.Queue()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        self.count = 0

    def _read(self):
        while header := self.process.stdout.readline():
            length = int(header.split(b":")[1])
            while self.process.stdout.readline().strip():
                pass
            self.messages.put(json.loads(self.process.stdout.read(length)))

    def send(self, method, params, **more):
        message = {"jsonrpc": "2.0", "method": method, **more}
        if params is not None:
            message["params"] = params
        data = json.dumps(message).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(data), data))
        self.process.stdin.flush()

    def ask(self, method, params):
        """Return the result of a request."""
        self.count += 1
        self.send(method, params, id=self.count)
        return self.wait(lambda message: message.get("id") == self.count)["result"]

    def wait(self, wanted):
        while True:
            message = self.messages.get(timeout=PATIENCE)
            if wanted(message):
                return message

    def diagnostics(self):
        message = self.wait(lambda m: m.get("method") == "textDocument/publishDiagnostics")
        return [
            (item["code"], item["range"]["start"]["line"], item["range"]["start"]["character"])
            for item in message["params"]["diagnostics"]
        ]

    def uri(self, name):
        return (self.folder / name).as_uri()

    def open(self, name, text):
        document = {"uri": self.uri(name), "languageId": "wf", "version": 1, "text": text}
        self.send("textDocument/didOpen", {"textDocument": document})
        return self.diagnostics()

    def change(self, name, text):
        document = {"uri": self.uri(name), "version": 2}
        self.send(
            "textDocument/didChange",
            {"textDocument": document, "contentChanges": [{"text": text}]},
        )
        return self.diagnostics()

    def place(self, name, line, character):
        return {
            "textDocument": {"uri": self.uri(name)},
            "position": {"line": line, "character": character},
        }

    def close(self):
        self.ask("shutdown", None)
        self.send("exit", None)
        self.process.stdin.close()
        code = self.process.wait(PATIENCE)
        self.reader.join(PATIENCE)
        self.process.stdout.close()
        return code


@pytest.fixture
def editor(tmp_path):
    (tmp_path / "other.wf").write_text("// the other\nworkflow other {\n  call x\n}\n")
    editor = Editor(tmp_path)
    editor.ask("initialize", {"processId": None, "rootUri": None, "capabilities": {}})
    editor.send("initialized", {})
    yield editor
    if editor.process.poll() is None:
        editor.process.kill()
        editor.process.wait(PATIENCE)


def test_an_editor_is_served(editor):
    text = 'workflow w {\n  emit "\U0001f600" call b { retrys = 1 }\n  call workflow othr\n}\n'

    assert editor.open("w.wf", text) == [("unknown-option", 1, 21), ("unknown-workflow", 2, 16)]
    assert editor.change("w.wf", text.replace("othr", "other").replace("retrys", "retries")) == []
    place = editor.place("w.wf", 2, 18)
    target = editor.ask("textDocument/definition", place)
    assert target["uri"] == editor.uri("other.wf")
    assert target["range"]["start"] == {"line": 1, "character": 9}
    offered = editor.ask("textDocument/completion", editor.place("w.wf", 2, 16))
    assert {item["label"] for item in offered} == {"w", "other"}
    edits = editor.ask(
        "textDocument/formatting",
        {
            "textDocument": {"uri": editor.uri("w.wf")},
            "options": {"tabSize": 2, "insertSpaces": True},
        },
    )
    assert edits[0]["newText"].splitlines()[1:3] == [
        '  emit "\U0001f600"',
        "  call b { retries = 1 }",
    ]
    assert editor.change("w.wf", "workflow w { " + "{" * 5000 + "\x00")[0][0] == "syntax"
    assert editor.close() == 0

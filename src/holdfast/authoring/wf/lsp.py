"""The language server: problems while typing, formatting, completion, go to a sub-workflow.

It needs ``pygls`` (the extra ``lsp``). Columns of the protocol count UTF-16 units, columns of
problems count characters.
"""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import unquote, urlsplit

from lsprotocol import types
from pygls.lsp.server import LanguageServer

from holdfast.authoring.wf import ast
from holdfast.authoring.wf.check.documents import check_document
from holdfast.authoring.wf.check.folder import FolderSurroundings
from holdfast.authoring.wf.completion import suggestions
from holdfast.authoring.wf.document import Document
from holdfast.authoring.wf.files import read_named_text
from holdfast.authoring.wf.format import format_text
from holdfast.authoring.wf.lexer import LineIndex
from holdfast.authoring.wf.parser import ParsedText
from holdfast.core.problems import Problem
from holdfast.errors import BadWorkflow

_KINDS = {
    "keyword": types.CompletionItemKind.Keyword,
    "option": types.CompletionItemKind.Property,
    "value": types.CompletionItemKind.Value,
    "step": types.CompletionItemKind.Function,
    "input": types.CompletionItemKind.Variable,
    "workflow": types.CompletionItemKind.Module,
}


def make_server(version: str = "") -> LanguageServer:
    """Return the server; ``start_io`` serves stdin and stdout until the editor leaves."""
    server = LanguageServer("holdfast", version)

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def opened(params: types.DidOpenTextDocumentParams) -> None:
        _publish(server, params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def changed(params: types.DidChangeTextDocumentParams) -> None:
        _publish(server, params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    def saved(params: types.DidSaveTextDocumentParams) -> None:
        for uri in list(server.workspace.text_documents):
            _publish(server, uri)  # another open text may call the saved one

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def closed(params: types.DidCloseTextDocumentParams) -> None:
        _send(server, params.text_document.uri, [])

    _add_requests(server)
    return server


def _add_requests(server: LanguageServer) -> None:
    @server.feature(types.TEXT_DOCUMENT_FORMATTING)
    def formatting(params: types.DocumentFormattingParams) -> list[types.TextEdit]:
        return _format_edits(_source(server, params.text_document.uri))

    trigger = types.CompletionOptions(trigger_characters=[" ", ".", "="])

    @server.feature(types.TEXT_DOCUMENT_COMPLETION, trigger)
    def completion(params: types.CompletionParams) -> list[types.CompletionItem]:
        uri = params.text_document.uri
        return _completion_items(_source(server, uri), uri, params.position)

    @server.feature(types.TEXT_DOCUMENT_DEFINITION)
    def definition(params: types.DefinitionParams) -> types.Location | None:
        uri = params.text_document.uri
        return _definition_of(_source(server, uri), uri, params.position)


def _source(server: LanguageServer, uri: str) -> str:
    source: str = server.workspace.get_text_document(uri).source
    return source


def _path(uri: str) -> str:
    """Return the path of a file; the address itself for a text without a file."""
    parts = urlsplit(uri)
    return unquote(parts.path) if parts.scheme == "file" else uri


# Problems


def _publish(server: LanguageServer, uri: str) -> None:
    source = _source(server, uri)
    _send(server, uri, [_diagnostic(problem, source) for problem in _problems(source, uri)])


def _send(server: LanguageServer, uri: str, diagnostics: list[types.Diagnostic]) -> None:
    server.text_document_publish_diagnostics(
        types.PublishDiagnosticsParams(uri=uri, diagnostics=diagnostics)
    )


def _read(source: str, uri: str) -> ParsedText:
    return read_named_text(source, _path(uri))


def _problems(source: str, uri: str) -> list[Problem]:
    outcome = _read(source, uri)
    if outcome.document is None or not outcome.is_complete:
        return list(outcome.problems)
    checked = check_document(outcome.document, FolderSurroundings())
    return list(dict.fromkeys([*outcome.problems, *checked]))


def _diagnostic(problem: Problem, source: str) -> types.Diagnostic:
    lines = source.split("\n")
    line = min(problem.line, len(lines)) - 1
    text = lines[line]
    start = problem.column - 1
    end = start
    while end < len(text) and (text[end].isalnum() or text[end] in "_-"):
        end += 1
    return types.Diagnostic(
        range=types.Range(
            start=types.Position(line, _units(text[:start])),
            end=types.Position(line, _units(text[: max(end, start + 1)])),
        ),
        severity=(
            types.DiagnosticSeverity.Error if problem.is_error else types.DiagnosticSeverity.Warning
        ),
        code=problem.code,
        source="holdfast",
        message=f"{problem.message}: {problem.hint}" if problem.hint else problem.message,
    )


def _units(text: str) -> int:
    """Return the number of UTF-16 units of a text."""
    return len(text) + sum(character > "\uffff" for character in text)


def _offset(source: str, position: types.Position) -> int:
    """Return the offset of a position of the protocol in the text."""
    lines = source.split("\n")
    if position.line >= len(lines):
        return len(source)
    first = sum(len(line) + 1 for line in lines[: position.line])
    units = 0
    for index, character in enumerate(lines[position.line]):
        if units >= position.character:
            return first + index
        units += _units(character)
    return first + len(lines[position.line])


# Requests


def _format_edits(source: str) -> list[types.TextEdit]:
    """Return the edit that formats a text; none for a text with syntax errors."""
    try:
        formatted = format_text(source)
    except BadWorkflow:
        return []
    if formatted == source:
        return []
    last = source.split("\n")
    end = types.Position(len(last) - 1, _units(last[-1]))
    whole = types.Range(start=types.Position(0, 0), end=end)
    return [types.TextEdit(range=whole, new_text=formatted)]


def _completion_items(
    source: str, uri: str, position: types.Position
) -> list[types.CompletionItem]:
    document = _read(source, uri).document
    caller = document or Document(path=_path(uri), text=source, name="")
    workflows = [name for name in FolderSurroundings().workflow_names(caller) if name]
    offered = suggestions(source, _offset(source, position), document, workflows)
    return [
        types.CompletionItem(
            label=suggestion.label, kind=_KINDS[suggestion.kind], detail=suggestion.detail or None
        )
        for suggestion in offered
    ]


def _definition_of(source: str, uri: str, position: types.Position) -> types.Location | None:
    """Return the place of the workflow that the word at a position names."""
    document = _read(source, uri).document
    if document is None:
        return None
    offset = _offset(source, position) - (len(source) - len(document.text))
    around = FolderSurroundings()
    for word, is_file in _named_workflows(document):
        if word.start <= offset <= word.start + len(word.text) + 2 * is_file:
            path: str | None = around.used_path(word.text, document)
            if not is_file:
                path = around.file_of(word.text, document)
            return _location(path) if path is not None and os.path.isfile(path) else None
    return None


def _named_workflows(document: Document) -> list[tuple[ast.Word, bool]]:
    """Return the words that name a workflow, and whether they name a file."""
    words = [(path, True) for path in document.uses]
    for node in ast.walk((*document.body, *document.always)):
        if isinstance(node, ast.CallWorkflowNode):
            words.append((node.name, False))
        elif isinstance(node, ast.ForeachNode) and node.workflow is not None:
            words.append((node.workflow, False))
    return words


def _location(path: str) -> types.Location:
    text = Path(path).read_text("utf-8", errors="replace")
    document = read_named_text(text, path).document
    line, column = (1, 1)
    if document is not None:
        line, column = LineIndex(document.text, document.first_line).position(document.start)
    place = types.Position(line - 1, column - 1)
    uri = Path(os.path.abspath(path)).as_uri()
    return types.Location(uri=uri, range=types.Range(start=place, end=place))

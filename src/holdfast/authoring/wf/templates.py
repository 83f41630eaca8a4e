"""Templates: ``.wft`` files with YAML front matter and the body of a workflow.

The front matter is data: ``name``, ``description``, ``version``, ``target_types``, ``hints``.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from holdfast.authoring.wf.ast import TemplateHeader
from holdfast.authoring.wf.document import Document
from holdfast.authoring.wf.front_matter import split_front_matter
from holdfast.authoring.wf.parser import ParsedText, read
from holdfast.authoring.wf.problems import Code
from holdfast.authoring.wf.yaml_text import YamlProblem, read_yaml
from holdfast.core.problems import Problem, did_you_mean

_KEYS = tuple(TemplateHeader.__struct_fields__)


def read_template(text: str, path: str) -> ParsedText:
    """Parse a template and return its document, with its header, and its problems."""
    front, body = split_front_matter(text)
    outcome = read(body, path, first_line=front.count("\n") + 1)
    if not front:
        hint = "begin the file with `---`, `name: ...` and `---`"
        problem = _problem(path, 1, "the template has no front matter", hint)
        return msgspec.structs.replace(outcome, problems=(problem, *outcome.problems))
    header, problems = _header(front, path)
    document = outcome.document
    if document is not None:
        document = msgspec.structs.replace(document, template=header)
    return msgspec.structs.replace(
        outcome, document=document, problems=(*problems, *outcome.problems)
    )


def generated(template: Document) -> tuple[str, str]:
    """Return the file name and the text of a workflow that is made from a template."""
    header = template.template
    if header is None:
        return f"{template.name}.wf", template.text
    origin = f"// from template {header.name} {header.version}".rstrip()
    file_name = re.sub(r"\s+", "-", header.name.strip().lower()) + ".wf"
    return file_name, f"{origin}\n{template.text.lstrip()}"


def _header(front: str, path: str) -> tuple[TemplateHeader | None, list[Problem]]:
    matter = "\n".join(front.splitlines()[1:-1])
    try:
        data = read_yaml(matter)
    except YamlProblem as error:
        return None, [_problem(path, error.line + 1, f"the front matter: {error.why}")]
    if not isinstance(data, dict):
        return None, [_problem(path, 1, "the front matter must be keys and values")]
    problems = [
        _problem(
            path,
            _line_of(key, front),
            f"the front matter has no key `{key}`",
            did_you_mean(str(key), _KEYS) or f"its keys are {', '.join(_KEYS)}",
            Code.UNKNOWN_OPTION,
        )
        for key in data
        if key not in _KEYS
    ]
    if not _text(data.get("name")):
        problems.append(_problem(path, 1, "the template has no `name`", "", Code.MISSING_OPTION))
    header = TemplateHeader(
        name=_text(data.get("name")),
        description=_text(data.get("description")),
        version=_text(data.get("version")),
        target_types=_texts(data.get("target_types")),
        hints=_texts(data.get("hints")),
    )
    return header, problems


def _line_of(key: object, front: str) -> int:
    for number, line in enumerate(front.splitlines(), 1):
        if line.startswith(f"{key}"):
            return number
    return 1


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _texts(value: Any) -> tuple[str, ...]:
    if isinstance(value, list):
        return tuple(_text(item) for item in value)
    if isinstance(value, dict):
        return tuple(f"{key}: {_text(item)}" for key, item in value.items())
    return (_text(value),) if value is not None else ()


def _problem(
    path: str, line: int, message: str, hint: str = "", code: Code = Code.SYNTAX
) -> Problem:
    return Problem(path=path, line=line, column=1, code=code.value, message=message, hint=hint)

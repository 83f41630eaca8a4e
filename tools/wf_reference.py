"""Write the tables of docs/reference/wf.md from the tables of the parser.

A table stands between ``<!-- options of KIND -->`` or ``<!-- problems -->`` and ``<!-- end -->``.
``--check`` only reports whether the page is up to date.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from holdfast.authoring.wf.options import OPTIONS, OptionRule
from holdfast.authoring.wf.problems import MEANINGS, WARNINGS, Code

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "wf.md"
_TABLE = re.compile(r"<!-- (options of ([a-z ]+)|problems) -->\n.*?<!-- end -->", re.DOTALL)


def updated(text: str) -> str:
    """Return the page with its tables as they must be."""
    return _TABLE.sub(_table, text)


def missing_kinds(text: str) -> set[str]:
    """Return the kinds of nodes that the page has no table for."""
    return set(OPTIONS) - {match[2] for match in _TABLE.finditer(text)}


def _table(match: re.Match[str]) -> str:
    content = _options_of(match[2]) if match[2] else _problems()
    return f"<!-- {match[1]} -->\n{content}\n<!-- end -->"


def _options_of(kind: str) -> str:
    rules = OPTIONS[kind]
    if kind == "call in parallel":
        rules = {key: rule for key, rule in rules.items() if key not in OPTIONS["call"]}
    if not rules:
        return "It has no options."
    rows = [_row(rule) for rule in rules.values()]
    return "\n".join(["| option | value | default | meaning |", "|---|---|---|---|", *rows])


def _row(rule: OptionRule) -> str:
    default = "required" if rule.required else rule.default
    return f"| `{rule.key}` | {rule.form} | {default} | {rule.doc} |"


def _problems() -> str:
    rows = [
        f"| `{code.value}` | {'warning' if code in WARNINGS else 'error'} | {MEANINGS[code]} |"
        for code in Code
    ]
    return "\n".join(["| code | severity | meaning |", "|---|---|---|", *rows])


def main() -> int:
    text = PAGE.read_text("utf-8")
    if "--check" in sys.argv[1:]:
        return int(updated(text) != text or bool(missing_kinds(text)))
    PAGE.write_text(updated(text), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

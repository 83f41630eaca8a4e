"""DMN files for tests, written in short."""

from __future__ import annotations

from xml.sax.saxutils import escape

MODEL = "https://www.omg.org/spec/DMN/20230324/MODEL/"


def definitions(*elements: str, namespace: str = "test") -> bytes:
    """Return a file with these elements."""
    opening = f'<definitions xmlns="{MODEL}" name="T" namespace="{namespace}">'
    return "\n".join([opening, *elements, "</definitions>"]).encode()


def literal(text: str, tag: str = "literalExpression") -> str:
    return f"<{tag}><text>{escape(text)}</text></{tag}>"


def decision(name: str, logic: str, *requires: str, type_name: str = "") -> str:
    """Return a decision; *requires* are ids, those of inputs and of knowledge models marked."""
    kinds = {"i": "requiredInput", "k": "requiredKnowledge", "d": "requiredDecision"}
    requirements = ""
    for reference in requires:
        kind, _, target = reference.partition(":")
        requirement = "knowledgeRequirement" if kind == "k" else "informationRequirement"
        target = target if "#" in target else f"#{target}"
        requirements += f'<{requirement}><{kinds[kind]} href="{target}"/></{requirement}>'
    type_ref = f' typeRef="{type_name}"' if type_name else ""
    return (
        f'<decision id="{name.replace(" ", "-")}" name="{name}">'
        f'<variable name="{name}"{type_ref}/>{requirements}{logic}</decision>'
    )


def table(
    policy: str,
    inputs: list[str],
    outputs: list[str],
    rules: list[tuple[list[str], list[str]]],
    *,
    aggregation: str = "",
    ranking: str = "",
    default: str = "",
    allowed: str = "",
) -> str:
    """Return a decision table."""
    head = "".join(
        f"<input>{literal(text, 'inputExpression')}"
        + (literal(allowed, "inputValues") if allowed else "")
        + "</input>"
        for text in inputs
    )
    for name in outputs:
        values = literal(ranking, "outputValues") if ranking else ""
        values += literal(default, "defaultOutputEntry") if default else ""
        head += f'<output name="{name}">{values}</output>'
    body = ""
    for tests, values in rules:
        cells = "".join(literal(test, "inputEntry") for test in tests)
        cells += "".join(literal(value, "outputEntry") for value in values)
        body += f"<rule>{cells}</rule>"
    extra = f' aggregation="{aggregation}"' if aggregation else ""
    return f'<decisionTable hitPolicy="{policy}"{extra}>{head}{body}</decisionTable>'

"""The table of options: node kind -> option -> reader, default, documentation.

The parser, the hints, the formatter, the completion and the reference docs read this table, so a
new option is one line here and a field of the node in ``ast.py``.
"""

from __future__ import annotations

import msgspec

from holdfast.authoring.wf import values
from holdfast.authoring.wf.values import Reader


class OptionRule(msgspec.Struct, frozen=True, kw_only=True):
    """An option of a kind of node. *field* is the field of the node in the tree."""

    key: str
    field: str
    read: Reader
    form: str
    """The values that the option takes, as the reference shows them."""
    doc: str
    default: str = ""
    required: bool = False


def _option(key: str, read: Reader, form: str, doc: str, **more: str | bool) -> OptionRule:
    field = str(more.get("field", key))
    return OptionRule(
        key=key,
        field=field,
        read=read,
        form=form,
        doc=doc,
        default=str(more.get("default", "")),
        required=bool(more.get("required", False)),
    )


_FAIL_OR_CONTINUE = values.choice("fail", "continue")

_OUTPUT = _option("output", values.word, "schema", "The schema that the output must fit.")
_WITH = _option("with", values.words, "name or list", "Snippets for the prompt.", field="snippets")
_AS = _option("as", values.name, "name", "The identity that does the work.", field="identity")
_RETRIES = _option(
    "retries", values.number, "number", "Attempts after the first, without a delay.", default="0"
)
_ON_FAIL = _option(
    "on_fail",
    values.on_fail,
    "`continue`, name or path",
    "`continue` tolerates a failure; a name or a path is called when all attempts have failed.",
)
_UNDO = _option(
    "undo",
    values.target,
    "name or path",
    "The compensation of the completed step, called if the run fails or is cancelled.",
)
_RETRY = _option(
    "retry",
    values.retry_rule,
    "map",
    "`max`: attempts after the first; `backoff`: the delay before the second attempt, doubled "
    "after each; `on`: class names of exceptions, `timed_out`, `exit`. Excludes `retries`.",
)
_LANE = _option("lane", values.name, "name", "The lane in which the work runs.")
_STEP = (_RETRIES, _RETRY, _ON_FAIL, _AS, _UNDO)
_LOOP = (
    _option(
        "max_iterations",
        values.number,
        "number",
        "The limit of iterations.",
        required=True,
    ),
    _option(
        "stuck_after",
        values.number,
        "number",
        "Fail after so many consecutive iterations with the same markers.",
    ),
    _option(
        "on_max_iter",
        _FAIL_OR_CONTINUE,
        "`fail` or `continue`",
        "What happens at the limit.",
        default="fail",
    ),
)
_CALL = (
    *_STEP,
    _OUTPUT,
    _WITH,
    _option("plugin_dirs", values.texts, "list", "Folders with plugins for the executor."),
    _option(
        "timeout",
        values.time_limit,
        "duration",
        'The time limit of an attempt: `"20m"`, or a number of seconds.',
    ),
    _option("max_turns", values.number, "number", "The limit of turns of an agent."),
    _LANE,
)
_ON_TIMEOUT = _option(
    "on_timeout",
    _FAIL_OR_CONTINUE,
    "`fail` or `continue`",
    "What happens at the deadline.",
    default="fail",
)

_TABLE: dict[str, tuple[OptionRule, ...]] = {
    "call": _CALL,
    "call in parallel": (
        *_CALL,
        _option(
            "if",
            values.call_condition,
            '`"step.marker"` or `"(expression)"`',
            "The call is skipped if the condition is not true.",
            field="condition",
        ),
    ),
    "call workflow": (
        *_STEP,
        _LANE,
        _option("inputs", values.pairs, "block", "The inputs: `inputs { name = value }`."),
    ),
    "script": (
        _option(
            "run",
            values.word,
            "text",
            "The command line. A first word with a slash, or that names a file under the root, is "
            "that file; another word is a program on PATH. Values of placeholders are quoted.",
            required=True,
        ),
        _option("env", values.pairs, "map", "Environment variables."),
        _option("timeout", values.seconds, "seconds", "The time limit of an attempt."),
        *_STEP,
    ),
    "if": (),
    "unless": (),
    "while": _LOOP,
    "do while": _LOOP,
    "do": (_OUTPUT, _WITH),
    "parallel": (
        _option(
            "fail_fast",
            values.text,
            "`true` or `false`",
            "Whether a failed branch stops the others.",
            default="true",
        ),
        _option(
            "min_success",
            values.number,
            "number",
            "How many branches must succeed or be skipped.",
            default="all",
        ),
        _OUTPUT,
        _WITH,
    ),
    "gate": (
        _option("prompt", values.text, "text", "The question. Placeholders are replaced."),
        _option(
            "min_approvals", values.positive, "number", "How many people must agree.", default="1"
        ),
        _option(
            "mode",
            values.choice("min_approvals", "review_decision"),
            "`min_approvals` or `review_decision`",
            "How a resolver decides. `review_decision` excludes `min_approvals`.",
            default="min_approvals",
        ),
        _option("timeout", values.time_limit, "duration", "The deadline.", default="24h"),
        _ON_TIMEOUT,
        _AS,
        _option(
            "options",
            values.gate_options,
            "list, map or `step.field`",
            "The options that people select from: values, values with labels, or a field of the "
            "output of a step.",
        ),
    ),
    "quality gate": (
        _option("source", values.word, "step", "The step whose confidence counts.", required=True),
        _option(
            "threshold",
            values.percentage,
            "0 to 100",
            "The least confidence that passes.",
            required=True,
        ),
        _option(
            "on_fail",
            _FAIL_OR_CONTINUE,
            "`fail` or `continue`",
            "What happens below the threshold.",
            default="fail",
        ),
        _AS,
    ),
    "always": (),
    "foreach": (
        _option("over", values.word, "provider", "The provider of the items.", required=True),
        _option(
            "max_parallel",
            values.number,
            "number",
            "How many items run at the same time.",
            required=True,
        ),
        _option(
            "workflow",
            values.word,
            "name",
            "The workflow of an item. Exactly one of `workflow` and `do { }` is given.",
        ),
        _option("scope", values.pairs, "map", "Which items the provider returns."),
        _option("filter", values.pairs, "map", "A further selection of the items."),
        _option("inputs", values.pairs, "map", "Inputs of the children: `{{item.id}}` and others."),
        _option(
            "ordered",
            values.boolean,
            "`true` or `false`",
            "Whether an item waits for the items that it depends on.",
            default="false",
        ),
        _option(
            "on_cycle",
            values.choice("fail", "warn"),
            "`fail` or `warn`",
            "What happens if items depend on each other in a cycle.",
            default="fail",
        ),
        _option(
            "on_child_fail",
            values.choice("halt", "continue", "skip_dependents"),
            "`halt`, `continue` or `skip_dependents`",
            "What a failed item means for the others.",
            default="continue",
        ),
        _LANE,
    ),
    "wait": (
        _option("timeout", values.delay, "duration", "The deadline.", default="none"),
        _ON_TIMEOUT,
    ),
    "meta": (
        _option("title", values.text, "text", "The display name.", default="the name"),
        _option("description", values.text, "text", "What the workflow is for."),
        _option(
            "trigger",
            values.choice("manual", "pr", "scheduled"),
            "`manual`, `pr` or `scheduled`",
            "Only `manual` has an effect.",
            default="manual",
        ),
        _option("targets", values.words, "name or list", "What the workflow is applied to."),
        _option("group", values.text, "text", "The group in lists."),
    ),
}

OPTIONS: dict[str, dict[str, OptionRule]] = {
    kind: {rule.key: rule for rule in rules} for kind, rules in _TABLE.items()
}
"""The options of each kind of node, by key, in the order of the reference."""

REQUIRED: dict[str, tuple[str, ...]] = {
    kind: tuple(rule.key for rule in rules.values() if rule.required)
    for kind, rules in OPTIONS.items()
}

HINTS: dict[tuple[str, str], str] = {
    ("call", "if"): "write `if step.marker { call ... }`: only a call in `parallel` takes `if`",
    ("do", "max_iterations"): "a loop ends with its condition: `do { ... } while step.marker`",
    ("foreach", "retries"): "the steps of the child have retries of their own",
    ("quality gate", "options"): "a quality gate is decided by the confidence of its source",
    ("quality gate", "timeout"): "a quality gate is decided immediately",
    ("call workflow", "timeout"): "the steps of the sub-workflow have time limits of their own",
}
"""Hints for options that users expect on a kind of node."""

OLD_OPTIONS: dict[str, str] = {
    "skip_unless": "this option belongs to another version: write `if step.marker { ... }`, or "
    '`if = "step.marker"` on a call in `parallel`',
    "skip_if": "this option belongs to another version: write `unless step.marker { ... }`",
}

"""Expressions: one allow-listed tree, a parser for each language, one evaluator with limits. Pure.

| language | parser |
|---|---|
| FEEL, as in DMN and behind `=` in models | `feel.parse_feel`, `feel.parse_unary_tests` |
| JUEL, `${...}` in models | `juel.parse_juel` |
| conditions of `.wf` texts | `conditions.parse_condition` |
| conditions of models in JSON form | `text_conditions.parse_text_condition` |

Each parser returns an `Expression`; `evaluate.evaluate(expression, variables)` computes its value.
Nothing else can be called, and no attribute of a Python object can be reached.
"""

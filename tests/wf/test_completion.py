import pytest

from holdfast.authoring.wf.completion import suggestions
from holdfast.authoring.wf.parser import read

START = (
    "workflow w { inputs { deep boolean who } call scan script fix { run = x } gate human_x { } "
)


def labels(text, workflows=("w", "other")):
    """Return what is suggested at the mark ``|``."""
    offset = text.index("|")
    whole = text.replace("|", "")
    document = read(whole).document or read(START + "}").document
    return {item.label for item in suggestions(whole, offset, document, workflows)}


@pytest.mark.parametrize(
    ("text", "expected", "absent"),
    [
        ("|", {"workflow"}, {"call"}),
        ("workflow w { | }", {"call", "meta", "inputs", "sleep", "always"}, {"retries"}),
        ("workflow w { call x { re| } }", {"retries", "retry", "timeout"}, {"if", "call"}),
        ("workflow w { parallel { call x { | } } }", {"if", "retries"}, {"call"}),
        ("workflow w { parallel { | } }", {"fail_fast", "call"}, {"meta"}),
        ("workflow w { while a.b { | } }", {"max_iterations", "call"}, {"inputs"}),
        ("workflow w { do { | } }", {"with", "max_iterations", "call"}, {"meta"}),
        ("workflow w { gate quality_gate { | } }", {"threshold", "source"}, {"prompt"}),
        ("workflow w { gate g { on_timeout = | } }", {"fail", "continue"}, {"call"}),
        ("workflow w { call workflow | }", {"w", "other"}, {"call"}),
        ("workflow w { foreach f { workflow = | } }", {"other"}, set()),
        ("workflow w { foreach f { | } }", {"over", "do", "max_parallel"}, {"call"}),
        ("workflow w { inputs { a | } }", {"required", "default"}, {"call"}),
        ("workflow w { call workflow x { | } }", {"inputs", "retries"}, {"timeout"}),
        (START + "if | { } }", {"scan", "fix", "deep"}, {"who", "human_x"}),
        (START + "if scan.ready { } if scan.| { } }", {"ready"}, {"scan"}),
        (START + "call | }", {"workflow", "scan"}, {"fix"}),
        ("workflow w { script s { env = { | } } }", set(), {"run"}),
    ],
)
def test_the_words_that_fit_are_suggested(text, expected, absent):
    offered = labels(text)

    assert expected <= offered
    assert not absent & offered

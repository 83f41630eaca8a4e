import random
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast import wf
from holdfast.authoring.wf.check.documents import check_document
from holdfast.authoring.wf.check.folder import FolderSurroundings
from holdfast.authoring.wf.document import same_tree
from holdfast.authoring.wf.lexer import tokenize
from holdfast.authoring.wf.parser import read
from holdfast.errors import BadWorkflow
from tests.wf.cases import texts
from tests.wf.programs import EXAMPLES, PROGRAMS

UNTIDY = """
// head

// second
workflow a { // opened
  // on meta
  meta { title = "x" // title
  }



  call b // beside b
  // before c
  call // in the middle
    c
  if (b.output.n // inside
     == 3   and (1 < 2))
  { // then
    // only this
  } // done
  do { max_iterations = 2 call x { retries=1 } } // loop
  while x.y
  parallel { call q { as = "z" // who
  } call r { if = "b.m" } }
  gate g { options = [ "a" "b", c ] }
  // last
}
// tail
"""

TIDY = """// head

// second
workflow a { // opened
  // on meta
  meta {
    title = "x" // title
  }

  call b // beside b
  // before c
  // in the middle
  call c
  // inside
  if (b.output.n == 3 and (1 < 2)) { // then
    // only this
  } // done
  // loop
  do {
    max_iterations = 2
    call x { retries = 1 }
  } while x.y
  parallel {
    call q {
      as = "z" // who
    }
    call r { if = "b.m" }
  }
  gate g { options = ["a", "b", c] }
  // last
}
// tail
"""


def comments(text):
    """Return the comments of a text, sorted."""
    without_strings = re.sub(r'"(?:[^"\\]|\\.)*"', '""', text)
    return sorted(comment.rstrip() for comment in re.findall("//[^\n]*", without_strings))


def test_a_text_gets_one_layout_and_keeps_its_comments():
    assert wf.format(UNTIDY) == TIDY
    assert wf.format(TIDY) == TIDY


def test_long_lists_and_maps_get_a_line_per_entry():
    entries = " ".join(f'"entry number {number}"' for number in range(8))

    text = wf.format(f"workflow a {{ call b {{ with = [{entries}] }} }}")

    assert '      "entry number 0",\n' in text
    assert wf.format(text) == text


def test_a_string_with_several_lines_stays_as_it_is():
    text = 'workflow a { gate g { prompt = "one\n   two // no comment" } }'

    assert '"one\n   two // no comment"' in wf.format(text)


def test_a_text_with_syntax_errors_is_refused_and_others_are_not():
    with pytest.raises(BadWorkflow):
        wf.format("workflow a { call }")
    assert wf.format("workflow a { call b { retrys = 1 } }") == (
        "workflow a {\n  call b { retrys = 1 }\n}\n"
    )


def test_the_front_matter_of_a_template_stays_as_it_is():
    front = "---\nname:   Nightly\n---\n"

    assert wf.format(front + "workflow a { call b }") == front + "workflow a {\n  call b\n}\n"


@settings(max_examples=4 * EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(PROGRAMS)
def test_generated_programs_parse_print_and_parse_again_to_the_same_tree(text):
    document = wf.parse(text)

    formatted = wf.format(text)

    assert same_tree(wf.parse(formatted), document)
    assert comments(formatted) == comments(text)
    assert wf.format(formatted) == formatted
    assert wf.draw(document).startswith("flowchart")
    check_document(document, FolderSurroundings())


@settings(max_examples=2 * EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(PROGRAMS, st.integers(0, 2**32))
def test_random_edits_of_good_texts_raise_nothing_but_problems(text, seed):
    edits = random.Random(seed)
    for _ in range(5):
        text = edited(text, edits)
        outcome = read(text)
        lines = text.count("\n") + 1
        assert all(1 <= problem.line <= lines for problem in outcome.problems)
        if outcome.document is not None:
            check_document(outcome.document, FolderSurroundings())
        if outcome.is_complete and outcome.document is not None:
            assert same_tree(read(wf.format(text)).document, outcome.document)


def edited(text, edits):
    """Delete, double, move or replace a token or a character."""
    tokens = tokenize(text)
    index = edits.randrange(len(tokens.texts))
    start = tokens.start(index)
    end = tokens.ends[index]
    token = text[start:end]
    other = edits.choice(tokens.texts)
    stray = edits.choice([*'{}[]=.,"\\#;()\x00\ufeff\n<', "//", "--", "call", "é"])
    return text[:start] + edits.choice(["", token * 2, other, stray, token + stray]) + text[end:]


@pytest.mark.parametrize("text", texts().values(), ids=[path.name for path in texts()])
def test_the_programs_of_the_cases_keep_their_tree(text):
    formatted = wf.format(text)

    assert same_tree(wf.parse(formatted), wf.parse(text))
    assert wf.format(formatted) == formatted

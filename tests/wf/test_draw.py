import re

from holdfast import wf

TEXT = """workflow w {
  call "agents/fix.md"
  script scan { run = "x" }
  if scan.dirty { call workflow deep }
  unless scan.clean { call mop }
  while scan.dirty { max_iterations = 2 call wash }
  do { max_iterations = 2 call rinse } while rinse.soapy
  parallel { call left { if = "scan.m" } gate human_review { } }
  gate quality_gate { source = scan threshold = 5 }
  foreach each { over = tickets max_parallel = 2 workflow = one }
  foreach inline { over = tickets max_parallel = 2 do { call inner } }
  sleep "10m"
  wait signal paid
  emit "all \\"done\\" <b> #1"
  always { call tell }
}
"""


def test_every_step_is_named_by_its_key_and_every_edge_joins_two_nodes():
    picture = wf.draw(wf.parse(TEXT))

    labels = set(re.findall(r'"([^"]*)"', picture))
    assert {"fix", "scan", "deep", "mop", "wash", "rinse", "left", "inner", "tell"} <= labels
    assert {"human_review", "quality_gate", "paid"} <= labels
    assert any(label.startswith("each: foreach tickets") for label in labels)
    assert "emit: all #quot;done#quot; #lt;b#gt; #35;1" in labels
    names = set(re.findall(r"^  (\w+)[\[({>]", picture, re.MULTILINE))
    edges = re.findall(r'^  (\w+) (?:-- "[^"]*" )?-->(?:) (\w+)$', picture, re.MULTILINE)
    assert picture.startswith("flowchart TD\n")
    assert {end for edge in edges for end in edge} == names
    assert {source for source, _ in edges} == names - {"finish"}


def test_a_loop_leads_back_to_its_condition():
    picture = wf.draw(wf.parse("workflow w { call a while a.b { max_iterations = 1 call a } }"))

    assert 'n2{"a.b?"}' in picture
    assert "n3 --> n2" in picture
    assert 'n2 -- "no" --> finish' in picture


def test_empty_bodies_are_drawn():
    picture = wf.draw(wf.parse("workflow w { call a if a.b { } while a.b { max_iterations = 1 } }"))

    assert picture.count("-->") == 6

"""The rules of gates: who may decide, what may be chosen, when a gate closes, what time does."""

from dataclasses import dataclass
from datetime import date
from typing import Annotated, Literal

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given

from holdfast.core.gates import forms
from holdfast.core.gates import rules as gate_rules
from holdfast.core.gates.answer import Answer, DecidedBy, failure_of, outcome_of
from holdfast.core.gates.model import (
    Escalation,
    Gate,
    GateAction,
    GateEntry,
    GateTerms,
    Option,
    hash_of,
)
from holdfast.core.gates.rules import GateDecision
from holdfast.errors import (
    GateExpired,
    GateRejected,
    GateWithdrawn,
    NotYourGate,
    QuorumImpossible,
    UnknownChoice,
    WrongAnswer,
)


def asked(*options, **more):
    fields = {name: more.pop(name) for name in list(more) if name in GateTerms.__struct_fields__}
    terms = GateTerms(
        options=tuple(
            option if isinstance(option, Option) else Option(option) for option in options
        ),
        **fields,
    )
    return Gate(id="g", run_id="r", step="gate", prompt="?", terms=terms, **more)


def all_decide(gate, *votes):
    """Let people decide, one after another; return the lines and the verdict of the last."""
    entries, verdict = [], None
    for by, choice in votes:
        assert verdict is None, "it was closed before everybody had decided"
        entry, verdict = gate_rules.decide(gate, entries, GateDecision(choice=choice, by=by), now=1)
        entries.append(entry)
    return entries, verdict


class TestChoices:
    @pytest.mark.parametrize(
        ("options", "approve", "reject"),
        [
            ((), "approve", "reject"),
            (("yes", "no"), "yes", "no"),
            (("No", "Yes"), "Yes", "No"),
            (("ship", "reject"), "ship", "reject"),
            (("approve", "hold"), "approve", "hold"),
            (("ok",), "ok", "reject"),
            ((Option("a", means="reject"), Option("b", means="approve")), "b", "a"),
            ((Option("no", means="approve"), Option("go on", means="reject")), "no", "go on"),
        ],
    )
    def test_to_approve_and_to_reject_are_understood(self, options, approve, reject):
        gate = asked(*options)

        assert gate_rules.understood(gate, "approve", ()) == approve
        assert gate_rules.understood(gate, "reject", ()) == reject
        assert not gate_rules.rejects(gate, approve)
        assert gate_rules.rejects(gate, reject) or reject == "hold"

    @pytest.mark.parametrize("options", [("small", "large"), ("yes", "ok", "no")])
    def test_to_approve_says_too_little_where_several_things_could_be_meant(self, options):
        with pytest.raises(UnknownChoice, match="which of them"):
            gate_rules.understood(asked(*options), "approve", ())

    def test_to_approve_some_of_the_options_needs_no_more(self):
        entry, verdict = gate_rules.decide(
            asked("a", "b", "c"),
            [],
            GateDecision(choice="approve", by="ann", selections=("c", "a")),
            now=1,
        )

        assert (entry.choice, entry.selections, verdict.status) == (
            "approve",
            ("a", "c"),
            "approved",
        )

    def test_only_options_can_be_selected(self):
        for gate in (asked("a"), asked()):
            with pytest.raises(UnknownChoice):
                gate_rules.decide(
                    gate, [], GateDecision(choice="approve", by="ann", selections=("z",)), now=1
                )


class TestQuorum:
    def test_as_many_as_must_agree_on_one_choice(self):
        gate = asked("a", "b", "no", quorum=2)

        _, verdict = all_decide(gate, ("ann", "a"), ("bob", "b"), ("carol", "no"), ("dan", "b"))

        assert (verdict.status, verdict.choice) == ("approved", "b")

    def test_a_rejection_needs_as_many_where_anybody_may_decide(self):
        gate = asked(quorum=2)

        assert all_decide(gate, ("ann", "reject"))[1] is None
        assert all_decide(gate, ("ann", "reject"), ("bob", "reject"))[1].status == "rejected"
        assert (
            all_decide(gate, ("ann", "reject"), ("bob", "approve"), ("carol", "approve"))[1].status
            == "approved"
        )

    def test_it_is_rejected_as_soon_as_nothing_else_can_win_among_those_who_may_decide(self):
        gate = asked(quorum=2, assignees=("ann", "bob"))

        verdict = all_decide(gate, ("ann", "reject"))[1]

        assert (verdict.status, verdict.choice) == ("rejected", "reject")
        assert "quorum" in verdict.reason

    def test_a_tie_among_all_who_may_decide_is_a_rejection(self):
        gate = asked("small", "large", quorum=2, assignees=("ann", "bob"))

        verdict = all_decide(gate, ("ann", "small"), ("bob", "large"))[1]

        assert (verdict.status, verdict.choice) == ("rejected", "reject")

    @pytest.mark.parametrize(
        "gate",
        [
            asked(quorum=2, assignees=("ann",)),
            asked(quorum=2, assignees=("a", "b"), exclude=("b",)),
        ],
    )
    def test_more_than_may_decide_can_never_agree(self, gate):
        with pytest.raises(QuorumImpossible):
            gate_rules.check_quorum(gate)

    def test_how_many_have_a_role_is_not_known(self):
        gate_rules.check_quorum(asked(quorum=9, assignees=("ann",), roles=("finance",)))

    @given(
        st.integers(1, 4),
        st.integers(1, 5).map(lambda n: tuple("abcde"[:n])),
        st.lists(
            st.tuples(st.sampled_from("abcde"), st.sampled_from(["x", "y", "no"])), max_size=12
        ),
    )
    def test_whatever_is_decided_a_gate_closes_by_the_quorum_or_when_it_is_out_of_reach(
        self, quorum, people, votes
    ):
        gate = asked("x", "y", "no", quorum=min(quorum, len(people)), assignees=people)
        entries = []
        for by, choice in votes:
            if by not in people or any(entry.person == by for entry in entries):
                continue
            entry, verdict = gate_rules.decide(
                gate, entries, GateDecision(choice=choice, by=by), now=1
            )
            entries.append(entry)
            counts = {
                each_choice: sum(entry.choice == each_choice for entry in entries)
                for each_choice in gate.choices
            }
            left = len(people) - len(entries)
            if verdict is None:
                assert max(counts.values()) < gate.terms.quorum
                assert max(counts["x"], counts["y"]) + left >= gate.terms.quorum
            elif verdict.status == "approved":
                assert counts[verdict.choice] == gate.terms.quorum
            else:
                assert (
                    counts["no"] == gate.terms.quorum
                    or max(counts["x"], counts["y"]) + left < gate.terms.quorum
                )
            if verdict is not None:
                return
        assert len(entries) < len(people)  # when all have decided it is closed


class TestWho:
    def test_a_name_is_needed_where_it_matters_who_decides(self):
        assert gate_rules.may_decide(asked(), [], None, ()) == "anonymous"
        for gate in (asked(quorum=2), asked(assignees=("ann",)), asked(exclude=("eve",))):
            with pytest.raises(NotYourGate, match="who decides"):
                gate_rules.may_decide(gate, [], None, ())

    def test_a_role_lets_decide_but_not_the_excluded(self):
        gate = asked(roles=("finance",), exclude=("eve",))

        assert gate_rules.may_decide(gate, [], "ann", ["finance"]) == "ann"
        for who, roles in (("eve", ["finance"]), ("ann", ["sales"]), ("ann", [])):
            with pytest.raises(NotYourGate):
                gate_rules.may_decide(gate, [], who, roles)

    def test_what_was_given_away_may_be_given_back(self):
        there = GateEntry(kind=GateAction.DELEGATED, at=1, person="ann", names=("bob",))
        back = GateEntry(kind=GateAction.DELEGATED, at=2, person="bob", names=("ann",))

        assert gate_rules.away([there]) == {"ann"}
        assert gate_rules.away([there, back]) == {"bob"}


class TestTime:
    def test_reminders_come_again_and_again_and_missed_ones_are_not_made_up_for(self):
        gate = asked(remind_every=10, opened_at=100)

        assert gate_rules.next_reminder(gate) == 110
        assert gate_rules.next_reminder(gate_rules.reminded(gate, 110)) == 120
        assert gate_rules.next_reminder(gate_rules.reminded(gate, 157)) == 160

    def test_reminders_come_at_the_times_that_were_listed(self):
        gate = asked(remind=(10, 30), opened_at=100)

        assert gate_rules.next_reminder(gate) == 110
        assert gate_rules.next_reminder(gate_rules.reminded(gate, 110)) == 130
        assert gate_rules.next_reminder(gate_rules.reminded(gate, 140)) is None

    def test_the_next_thing_that_is_due_comes_first(self):
        gate = asked(
            remind_every=50, escalate=(Escalation(20, ("boss",)),), opened_at=100, deadline=1000
        )

        assert gate_rules.next_at(gate) == 120
        assert gate_rules.next_at(gate_rules.escalated(gate)) == 150
        assert gate_rules.next_at(asked()) is None

    @given(st.integers(1, 100), st.lists(st.integers(0, 300), max_size=8))
    def test_a_reminder_is_never_due_at_once_again(self, every, passing):
        gate, now = asked(remind_every=every, opened_at=0), 0
        for step in passing:
            now += step
            gate = gate_rules.reminded(gate, now)
            assert now < gate_rules.next_reminder(gate) <= now + every


def answer(gate, entries):
    outcome = outcome_of(gate, entries)
    return Answer(outcome, [DecidedBy(decision, decision.value) for decision in outcome.decisions])


class TestAnswer:
    def closed(self, gate, *votes):
        entries, verdict = all_decide(gate, *votes)
        return msgspec.structs.replace(
            gate, status=verdict.status, choice=verdict.choice, closed_at=2
        ), entries

    def test_it_is_the_text_of_the_choice_and_knows_more(self):
        given_answer = answer(*self.closed(asked("yes", "no"), ("ann", "yes")))

        assert given_answer == "yes"
        assert given_answer in ("yes", "of course")
        assert (
            str(given_answer),
            given_answer.choice,
            given_answer.by,
            given_answer.approved,
            bool(given_answer),
        ) == (
            "yes",
            "yes",
            "ann",
            True,
            True,
        )
        assert given_answer.at.tzinfo is not None
        assert msgspec.json.encode({"a": str(given_answer)}) == b'{"a":"yes"}'

    def test_a_rejection_is_not_true(self):
        given_answer = answer(*self.closed(asked("yes", "no"), ("ann", "no")))

        assert given_answer == "no"
        assert not given_answer
        assert given_answer.rejected

    def test_what_all_who_agreed_have_selected_is_selected(self):
        gate = asked("a", "b", "c", quorum=2)
        entries = []
        for by, picked in (("ann", ("a", "b")), ("bob", ("b", "c"))):
            entry, verdict = gate_rules.decide(
                gate, entries, GateDecision(choice="approve", by=by, selections=picked), now=1
            )
            entries.append(entry)
        given_answer = answer(
            msgspec.structs.replace(gate, status=verdict.status, choice=verdict.choice), entries
        )

        assert given_answer.selections == ["b"]

    @pytest.mark.parametrize(
        ("changes", "options", "failure"),
        [
            ({"status": "expired"}, (), GateExpired),
            ({"status": "withdrawn", "reason": "x"}, (), GateWithdrawn),
            ({"status": "rejected", "choice": "reject"}, ("small", "large"), GateRejected),
            ({"status": "rejected", "choice": "reject"}, (), type(None)),
            ({"status": "expired", "choice": "no"}, ("yes", "no"), type(None)),
        ],
    )
    def test_what_a_workflow_did_not_foresee_is_an_error(self, changes, options, failure):
        gate = msgspec.structs.replace(asked(*options), **changes)

        assert type(failure_of(gate, outcome_of(gate, []))) is failure


def test_a_hash_does_not_depend_on_the_order_of_keys():
    assert hash_of(b'{"a":1,"b":[1,2]}') == hash_of(b'{ "b": [1, 2], "a": 1 }')
    assert hash_of(b'{"a":1}') != hash_of(b'{"a":2}')
    assert hash_of(None) is None


# Forms


class Line(msgspec.Struct):
    item: str
    count: Annotated[int, msgspec.Meta(ge=1, le=9)]


class Refund(msgspec.Struct, forbid_unknown_fields=True):
    amount: Annotated[float, msgspec.Meta(gt=0, multiple_of=0.5)]
    reason: Annotated[str, msgspec.Meta(min_length=2, max_length=20, pattern="^[a-z ]+$")]
    how: Literal["cash", "card"] = "cash"
    lines: list[Line] = []
    note: str | None = None
    at: date | None = None
    pair: tuple[int, str] | None = None
    extra: dict[str, int] = {}


@dataclass
class Plain:
    name: str
    nested: Line | None = None


GOOD = {
    "amount": 1.5,
    "reason": "broken",
    "lines": [{"item": "a", "count": 2}],
    "at": "2026-01-01",
    "pair": [1, "x"],
}


LEAVES = st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab")


def branches(inner):
    return st.lists(inner) | st.dictionaries(
        st.sampled_from(["name", "nested", "item", "count"]), inner
    )


class TestForms:
    def check(self, value, model=Refund):
        return forms.check(msgspec.json.schema(model), msgspec.json.encode(value))

    @pytest.mark.parametrize(
        "value",
        [GOOD, {"amount": 2, "reason": "no", "how": "card", "note": None, "extra": {"a": 1}}],
    )
    def test_what_fits_fits(self, value):
        assert self.check(value) is None
        msgspec.convert(value, Refund)  # and the model agrees

    @pytest.mark.parametrize(
        ("change", "field"),
        [
            ({"amount": 0}, "$.amount"),
            ({"amount": 1.3}, "$.amount"),
            ({"amount": "1"}, "$.amount"),
            ({"amount": True}, "$.amount"),
            ({"reason": "x"}, "$.reason"),
            ({"reason": "X" * 5}, "$.reason"),
            ({"reason": "x" * 21}, "$.reason"),
            ({"how": "gold"}, "$.how"),
            (
                {"lines": [{"item": "a", "count": 2}, {"item": "b", "count": 10}]},
                "$.lines[1].count",
            ),
            ({"lines": [{"count": 2}]}, "$.lines[0].item"),
            ({"lines": {}}, "$.lines"),
            ({"note": 7}, "$.note"),
            ({"at": "tomorrow"}, "$.at"),
            ({"pair": [1]}, "$.pair"),
            ({"pair": ["x", "y"]}, "$.pair[0]"),
            ({"extra": {"a": "b"}}, "$.extra.a"),
            ({"unknown": 1}, "$.unknown"),
        ],
    )
    def test_what_does_not_fit_is_named(self, change, field):
        value = {**GOOD, **change}

        found = self.check(value)

        assert found is not None
        assert found.field == field
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(value, Refund)

    def test_a_missing_field_is_named(self):
        assert self.check({"amount": 1}).field == "$.reason"
        assert forms.fields(msgspec.json.schema(Refund)) == ["amount", "reason"]

    def test_dataclasses_and_plain_types_are_forms_too(self):
        assert self.check({"name": "x"}, Plain) is None
        assert self.check({"name": 1}, Plain).field == "$.name"
        assert self.check({"name": "x", "nested": {"item": "y"}}, Plain).field == "$.nested.count"
        assert self.check(7, int) is None
        assert self.check("7", int).field == "$"

    def test_pydantic_models_are_forms_too(self):
        pydantic = pytest.importorskip("pydantic")

        class Inner(pydantic.BaseModel):
            size: int = pydantic.Field(ge=1)

        class Outer(pydantic.BaseModel):
            inner: Inner
            kind: Literal["a", "b"] = "a"

        schema = Outer.model_json_schema()
        assert forms.check(schema, b'{"inner": {"size": 2}}') is None
        assert forms.check(schema, b'{"inner": {"size": 0}}').field == "$.inner.size"
        assert forms.check(schema, b'{"inner": {}}').field == "$.inner.size"
        assert forms.check(schema, b'{"inner": {"size": 1}, "kind": "c"}').field == "$.kind"

    def test_one_of_allows_exactly_one_alternative(self):
        schema = {"oneOf": [{"type": "integer"}, {"minimum": 10}]}

        assert forms.check(schema, b"5") is None
        assert forms.check(schema, b"12.5") is None
        assert "matches 2 alternatives" in forms.check(schema, b"12").why
        assert forms.check({"anyOf": [{"type": "null"}], "oneOf": [True]}, b"1") is not None

    @pytest.mark.parametrize(
        ("schema", "place"),
        [
            ({"not": {"type": "null"}}, "$: not"),
            ({"if": True, "then": False}, "$: if"),
            ({"properties": {"a": {"patternProperties": {}}}}, "$.a: patternProperties"),
            ({"$defs": {"A": {"items": {"contains": True}}}}, "$.A: contains"),
            ({"anyOf": [{"dependentRequired": {}}]}, "$: dependentRequired"),
            ({"$ref": "https://example.com/a"}, "$: $ref to https://example.com/a"),
            ({"properties": {"not": {"type": "string"}}}, None),
            ({"enum": [{"not": 1}], "ui:widget": "radio", "title": "if"}, None),
        ],
    )
    def test_a_rule_that_is_not_checked_is_found(self, schema, place):
        assert forms.unchecked(schema) == place

    def test_a_form_may_contain_itself(self):
        schema = {"properties": {"next": {"$ref": "#"}}, "required": ["name"]}

        assert forms.check(schema, b'{"name": "a", "next": {"name": "b"}}') is None
        assert forms.check(schema, b'{"name": "a", "next": {}}').field == "$.next.name"

    def test_every_wrong_field_of_a_form_is_named(self):
        schema = {
            "type": "object",
            "properties": {"a": {"type": "string"}, "b": {"type": "integer"}},
            "required": ["a", "b", "c"],
            "allOf": [{"required": ["a"]}],
        }

        def named(data):
            return [error.field for error in forms.check_all(schema, data)]

        assert named(b"{}") == ["$.a", "$.b", "$.c"]
        assert named(b'{"a": 1, "b": "x"}') == ["$.c", "$.a", "$.b"]
        assert named(b"[]") == ["$"]
        assert named(b'{"a": "x", "b": 2, "c": 3}') == []
        assert [error.field for error in forms.check_all({"allOf": [schema]}, b"{}")] == ["$.a"]

    def test_a_form_must_be_filled_in_unless_it_is_rejected(self):
        gate = asked(form=msgspec.json.schema(Plain))

        with pytest.raises(WrongAnswer, match="does not match the form"):
            gate_rules.decide(gate, [], GateDecision(choice="approve", by="ann"), now=1)
        assert (
            gate_rules.decide(gate, [], GateDecision(choice="reject", by="ann"), now=1)[1].status
            == "rejected"
        )

    def test_where_there_is_no_form_nothing_can_be_filled_in(self):
        with pytest.raises(WrongAnswer):
            gate_rules.decide(
                asked(), [], GateDecision(choice="approve", by="ann", value=b"1"), now=1
            )

    @given(st.recursive(LEAVES, branches, max_leaves=8))
    def test_the_schema_refuses_whatever_the_model_refuses(self, value):
        try:
            msgspec.convert(value, Plain)
            fits = True
        except msgspec.ValidationError:
            fits = False

        assert (self.check(value, Plain) is None) == fits

    def test_a_form_that_is_nested_without_end_is_refused(self):
        told = {"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}]}}, "$ref": "#/$defs/a"}

        assert forms.check(told, b"1").why == "the form is nested too deep"

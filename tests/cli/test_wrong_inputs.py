"""Wrong words at the command line that once were accepted, or answered with too much, too little or
the wrong advice: each is one clear line, and changes nothing."""

from __future__ import annotations

import errno
import getpass
import os

import pytest

SELECTING = ["--share", "--key", "--id-prefix", "--worker", "--namespace", "--parent"]


@pytest.mark.parametrize("option", SELECTING)
@pytest.mark.parametrize("value", ["", "  "])
def test_a_filter_without_a_value_selects_nothing(call, option, value):
    run = call.start("shop.py:listener")

    error = call.error("cancel", "--workflow", "listener", option, value, code=2)

    assert f"'{option}'" in error
    assert "it is empty: leave the option out" in error
    assert call.json("show", run)["status"] == "pending"
    assert "it is empty" in call.error("delete", option, value, "--yes", code=2)


@pytest.mark.parametrize("words", [["--db", "", "runs"], ["runs", "--db", " "]])
def test_an_empty_name_is_no_database(call, words):
    assert "the name is empty: leave --db out" in call.error(*words, code=2)


def test_a_huge_value_is_cut_in_the_message_and_whole_in_the_facts(call):
    name = "x" * 5000
    call.start("shop.py:listener")

    error = call.error("show", name)
    as_json = call("show", name, "--json", code=1).stderr

    assert len(error) < 500
    assert "... (5002 characters)" in error
    assert name in as_json


def test_a_text_with_spaces_is_cut_too(call):
    call.start("shop.py:listener")

    error = call.error("show", "a word " * 1000)

    assert len(error) < 1200
    assert "... (7000 characters)" in error


@pytest.mark.parametrize("arguments", [[], ['"a"', '"b"']])
def test_arguments_that_do_not_match_the_function_are_told_with_what_it_takes(call, arguments):
    error = call.error("run", "shop.py:parcel", *arguments)

    assert "the arguments do not match the function" in error
    assert "takes='item'" in error


def test_a_refused_verb_of_one_run_is_an_error(call):
    run = call.start("shop.py:listener")
    call("cancel", run, "--force")

    for words in (["release", run], ["prioritise", run, "5"]):
        error = call.error(*words)
        assert "The run has ended" in error
        assert error.count(run) == 1
        assert call.json(*words, code=1)["refusals"] == 1


def test_groups_are_not_counted(call):
    call.start("shop.py:listener")

    assert "not both" in call.error("runs", "--group", "error", "--count", code=2)


def test_a_folder_is_no_model_and_may_have_no_definition(call, tmp_path):
    call.start("shop.py:listener")
    folder = tmp_path / "empty"
    folder.mkdir()

    assert "is a folder: name the files in it" in call.error("models", "deploy", folder)
    assert f"{folder} has no file with a definition" in call("check", folder).stderr


def test_what_is_neither_a_module_nor_a_file_is_told_so(call):
    error = call.error("check", "orders.db")

    assert "there is no module 'orders.db'" in error
    assert error.endswith("and no file of this name")


def test_a_file_that_is_no_model_is_named_as_it_is(call, tmp_path):
    call.start("shop.py:listener")
    text = tmp_path / "notes.txt"
    text.write_text("no model")

    assert f"(source='{text}')" in call.error("models", "deploy", text)


def test_a_backup_that_cannot_be_written_is_an_error_of_the_target(call, tmp_path):
    call.start("shop.py:listener")
    before = sorted(os.listdir(tmp_path))

    error = call.error("db", "backup", tmp_path / ("x" * 250))

    assert "cannot be written" in error
    assert "too long" in error
    assert sorted(os.listdir(tmp_path)) == before


def test_a_backup_needs_no_hard_links(call, tmp_path, monkeypatch):
    run = call.start("shop.py:listener")

    def refuse(*_):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    call("db", "backup", tmp_path / "copy.db")

    assert [item["id"] for item in call.items("--db", tmp_path / "copy.db", "runs")] == [run]
    assert not list(tmp_path.glob("*.part"))


def test_a_backup_does_not_replace_a_file_that_another_process_has_made_meanwhile(
    call, tmp_path, monkeypatch
):
    call.start("shop.py:listener")
    copy = tmp_path / "copy.db"
    link = os.link

    def too_late(source, target):
        copy.write_text("precious")
        link(source, target)

    monkeypatch.setattr(os, "link", too_late)

    assert "the file exists now" in call.error("db", "backup", copy, code=2)
    assert copy.read_text() == "precious"


def test_a_user_without_a_name_is_recorded_by_number(call, monkeypatch):
    """A container may run as a user that its system does not know."""

    def unknown():
        raise KeyError("getpwuid(): uid not found: 12345")

    monkeypatch.setattr(getpass, "getuser", unknown)
    run = call.start("shop.py:listener")

    call("cancel", run, "--force")

    assert call.json("show", run)["cancelled_by"] == f"user {os.getuid()}"


def test_a_worker_for_what_is_deployed_says_so(process):
    worker = process("worker")

    worker.wait_for("serves what is deployed in all lanes")
    worker.send()
    assert worker.ended() == 0

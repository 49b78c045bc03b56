"""Every rule that comes with Interlock does what its examples say, wherever they stand."""

import json
import shlex
import shutil
from dataclasses import replace

import pytest

from interlock.redaction.prepared_rules import FOLDER, PREPARED, load_documents, write_prepared
from interlock.redaction.redactor import MARK, Redactor, check_examples
from interlock.redaction.rule_loader import (
    SHARED,
    WRITTEN,
    check_pattern,
    load_builtin_rules,
    load_rule_sources,
    refuse_duplicate_ids,
)
from interlock.redaction.scanner import RuleSet, Scanner
from tests.harness.case_tables import each_row
from tests.unit.redaction.case_file import fed

RULES = load_rule_sources()
# These look at how the line begins, or at quotes; inside others they are another rule's matter.
AT_A_LINE = {"env-line", "pgpass", "table-cell", "netrc", "xml-named", "on-the-next-line"}
each_rule = each_row("rule", RULES, ids=lambda rule: rule.id)


@pytest.fixture(scope="module")
def redactor() -> Redactor:
    return Redactor()


def test_what_is_loaded_is_what_is_written():
    assert load_builtin_rules() == tuple(replace(rule, must=(), must_not=()) for rule in RULES)


def test_what_was_prepared_is_used_until_the_sources_change(tmp_path):
    for name in (*WRITTEN, SHARED):
        shutil.copy(FOLDER / name, tmp_path)
    documents = load_documents(tmp_path)
    write_prepared(tmp_path)
    prepared = tmp_path / PREPARED
    prepared.write_text(prepared.read_text("utf-8").replace("a GitHub token", "prepared"), "utf-8")
    assert "prepared" in str(load_documents(tmp_path))
    source = tmp_path / "vendors.toml"
    source.write_text(source.read_text("utf-8").replace("a GitHub token", "changed"), "utf-8")
    assert "prepared" not in str(load_documents(tmp_path))
    assert "changed" in str(load_documents(tmp_path))
    prepared.write_text("[1", "utf-8")
    assert load_documents(tmp_path).keys() == documents.keys()


def test_no_two_rules_have_the_same_name():
    refuse_duplicate_ids(RULES)
    assert len(RULES) > 150


@each_rule
def test_a_rule_has_examples_of_both_kinds_and_they_hold(rule):
    check_pattern(rule)
    check_examples(rule)
    assert rule.must
    assert rule.must_not
    assert rule.what


@each_rule
def test_the_middle_of_an_example_is_taken_out(rule):
    alone = Redactor(rules=[rule])
    for pieces in rule.must:
        shown = alone.text("".join(pieces))
        assert MARK in shown
        for middle in pieces[1:-1]:
            assert middle not in shown


@each_rule
def test_an_example_cut_anywhere_gives_the_same(rule):
    alone = Redactor(rules=[rule])
    for text in [*("".join(pieces) for pieces in rule.must), *rule.must_not]:
        whole = alone.text(text)
        for cut in range(len(text) + 1):
            assert fed(alone, text[:cut], text[cut:]) == whole


@each_rule
def test_an_example_is_found_at_the_beginning_in_the_middle_and_at_the_end(rule, redactor):
    for pieces in rule.must:
        text = "".join(pieces)
        for around in (text, f"{text}\nmore", f"before\n{text}", f"before\n{text}\n"):
            shown = redactor.text(around)
            assert all(middle not in shown for middle in pieces[1:-1] if len(middle) >= 8), around


@each_rule
def test_an_example_is_found_inside_json_and_a_shell_line(rule, redactor):
    if rule.id in AT_A_LINE:
        pytest.skip("looks at the line or the markup around it")
    for pieces in rule.must:
        text = "".join(pieces)
        if any(sign in text for sign in "\"'\\\n`") or not text.isascii():
            continue
        for around in (json.dumps({"output": text}), f"run {shlex.quote(text)} now"):
            shown = redactor.text(around)
            assert all(middle not in shown for middle in pieces[1:-1] if len(middle) >= 8), around


@pytest.mark.parametrize("name", [*WRITTEN, SHARED])
def test_the_files_hold_no_token_in_one_piece(name):
    assert Scanner(RuleSet(load_rule_sources("vendors.toml"))).find((FOLDER / name).read_bytes()) == []


@each_rule
def test_no_counter_example_is_harmed_by_its_own_rule_in_other_company(rule):
    alone = Redactor(rules=[rule])
    for text in rule.must_not:
        assert alone.text(f"before\n{text}\nafter") == f"before\n{text}\nafter"

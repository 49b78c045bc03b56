"""What a model does wrong, over a real socket: told back to it, or the end of its task (S1, S3-7)."""

import json

import pytest

from tests.harness.model_answers import called, said

HELLO = ("read_file", {"path": "a.txt"})


async def test_bad_arguments_and_unknown_tools_are_told_back_and_the_task_goes_on(harness, server):
    (harness.root / "a.txt").write_text("hello\n")
    server.add(
        called(("read_file", '{"path": "a.txt"'), ids="cut"),
        called(("read_file", '["a.txt"]'), ids="list"),
        called(("read_file", {"file": "a.txt"}), ids="field"),
        called(("make_coffee", {}), ids="unknown"),
        called(HELLO, ids="right"),
        said("It says hello."),
    )
    ran = await harness.execute("read it")
    assert ran.stdout == "It says hello.\n"
    harness.assert_sound()
    codes = [result.get("error_code", "") for result in harness.results()]
    assert codes == ["INVALID_ARGS"] * 3 + ["TOOL_NOT_FOUND", ""]
    assert [result.get("error_class", "") for result in harness.results()] == ["validation"] * 4 + [""]
    assert "'file' was unexpected" in harness.results()[2]["message"]
    failed = harness.events("tool_call.failed")
    assert [event.fields["error_code"] for event in failed] == codes[:-1]
    assert not harness.events("tool_call.denied")


async def test_a_mixed_turn_has_one_answer_for_each_call_in_order(harness, server):
    (harness.root / "a.txt").write_text("hello\n")
    wrong, unknown, outside = (
        ("read_file", "nonsense"),
        ("no_tool", {}),
        ("read_file", {"path": "/etc/hosts"}),
    )
    server.add(called(HELLO, wrong, unknown, outside, HELLO), said("Done."))
    await harness.execute("read it")
    harness.assert_sound()
    codes = [result.get("error_code", "") for result in harness.results()]
    assert codes == ["", "INVALID_ARGS", "TOOL_NOT_FOUND", "PATH_DENIED", ""]
    answered = [
        message["tool_call_id"] for message in server.asked[1].messages if message["role"] == "tool"
    ]
    assert answered == [f"call_{number}" for number in range(5)]


async def test_ids_that_a_server_uses_again_are_told_apart(harness, server):
    (harness.root / "a.txt").write_text("hello\n")
    server.add(called(HELLO), called(("list_files", {})), said("Done."))
    await harness.execute("read it")
    harness.assert_sound()
    assert [result["stdout"] for result in harness.results()] == ["hello\n", "a.txt\n"]


async def test_three_refusals_in_a_row_end_in_an_answer(harness, server):
    """The first says why, the second names another way, after the third no tool is offered (S0-4.2.4)."""
    writes = [called(("write_file", {"path": f"{n}", "content": ""}), ids=f"t{n}") for n in range(3)]
    server.add(*writes, said("I may not write here."))
    ran = await harness.execute("write it", mode="chat")
    assert ran.stdout == "I may not write here.\n"
    assert ["tools" in asked.document for asked in server.asked] == [True, True, True, False]
    assert "tool_choice" not in server.asked[3].document
    first, second, third = harness.results()
    assert first["error_code"] == "MODE_DENIED"
    assert first["message"] == "write_file is not allowed in chat mode"
    assert "note" not in first
    assert second["note"].startswith("write_file was denied again.")
    assert "After one more denied call you can only answer, without tools." in second["note"]
    assert third["error_code"] == "MODE_DENIED"
    assert "Answer now, without tools" in third["note"]
    reached = harness.only("control.limit_reached")
    assert (reached["limit"], reached["allowed"], reached["reached"]) == ("max_denials", 3, 3)
    assert (
        "Calls were denied in 3 turns in a row (the last one: write_file is not allowed"
        in reached["sentence"]
    )
    assert "CONTROL_MAX_DENIALS" in reached["sentence"]
    assert harness.only("task.finished")["status"] == "done"
    harness.assert_sound()
    assert list(harness.root.iterdir()) == []


async def test_one_refusal_is_shown_in_plain_words_and_does_not_end_it(harness, server):
    server.add(called(("bash", {"cmd": "ls"})), said("I may not."))
    ran = await harness.execute("run it", mode="plan")
    assert ran.stdout == "I may not.\n"
    assert "    denied: bash is not allowed in plan mode\n" in ran.stderr
    assert "    next: " in ran.stderr
    denied = harness.only("tool_call.denied")
    assert (denied["error_code"], denied["layer"]) == ("MODE_DENIED", "declaration")
    assert not harness.events("tool_call.started")


async def test_a_limit_of_turns_ends_the_task_with_4(harness, server):
    harness.variables["CONTROL_MAX_TURNS"] = "2"
    server.add(called(("list_files", {})), called(("current_time", {}), ids="t2"))
    ran = await harness.execute("go on", expect=4)
    reached = harness.only("control.limit_reached")
    assert reached["limit"] == "max_turns"
    assert ran.last_lines[0] == reached["sentence"]
    assert "The task took 2 turns without finishing; the limit is 2." in reached["sentence"]
    harness.assert_sound()


async def test_a_budget_of_tokens_ends_the_task_with_4(harness, server):
    """Each turn of the double says that it used 18."""
    harness.variables["CONTROL_MAX_TOKENS"] = "30"
    server.add(called(("list_files", {})), called(("current_time", {}), ids="t2"))
    ran = await harness.execute("go on", expect=4)
    assert harness.only("control.limit_reached")["limit"] == "max_tokens"
    assert "The task used 36 tokens; the limit is 30." in ran.stderr
    harness.assert_sound()


@pytest.mark.parametrize("form", [(), ("--json",)])
async def test_who_asks_where_nobody_can_answer_is_refused_and_answers(harness, server, form):
    question = ("ask_user", {"type": "confirmation", "message": "Shall I?"})
    server.add(*(called(question, ids=f"t{number}") for number in range(3)), said("I would have asked."))
    ran = await harness.execute("ask me", *form, mode="chat_safe")
    refused, *_ = harness.results()
    assert refused["error_code"] == "TOOL_NOT_AVAILABLE"
    assert "no person is available to answer" in refused["message"]
    assert not harness.query("SELECT id FROM questions")
    harness.assert_sound()
    if form:
        *_, last = [json.loads(line) for line in ran.stdout.splitlines()]
        assert (last["type"], last["status"], last["exit_code"]) == ("task", "done", 0)
    else:
        assert ran.stdout == "I would have asked.\n"
        assert "no person is available to answer" in ran.stderr

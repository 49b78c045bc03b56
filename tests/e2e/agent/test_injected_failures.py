"""The dummy's failures (S3-7): each class drives retries, the circuit breaker and no-progress, seen in the
events. The model is scripted; everything else is real."""

import pytest

FAST = {"CONTROL_RETRY_SECONDS": "0.01", "CONTROL_MAX_RETRY_SECONDS": "0.04"}


def told(harness, *kinds: str) -> list[tuple]:
    """The kinds in order, each with what matters of it."""
    fields = {"retry.scheduled": "delay_seconds", "circuit.opened": "failures"}
    return [
        (event.kind, event.fields[fields[event.kind]]) if event.kind in fields else (event.kind,)
        for event in harness.events(*kinds)
    ]


RETRYING = ("retry.scheduled", "retry.exhausted", "circuit.opened", "circuit.half_open", "circuit.closed")


@pytest.mark.parametrize("fault", ["server", "rate_limited", "timeout", "network", "protocol"])
async def test_a_fault_that_may_pass_is_asked_again_with_longer_and_longer_waits(harness, fault):
    harness.variables |= FAST
    harness.follows(*[f"err:{fault}"] * 4, "msg:at last")
    ran = await harness.execute("hello", mode="chat_safe")
    assert ran.stdout == "at last\n"
    assert told(harness, *RETRYING) == [("retry.scheduled", wait) for wait in (0.01, 0.02, 0.04, 0.04)]
    assert {event.fields["error_class"] for event in harness.events("retry.scheduled")} == {fault}


@pytest.mark.parametrize("fault", ["auth", "quota", "not_found", "invalid_request", "too_long"])
async def test_a_fault_that_cannot_pass_ends_it_at_once(harness, fault):
    harness.follows(f"err:{fault}", "msg:never")
    ran = await harness.execute("hello", mode="chat_safe", expect=1)
    assert ran.last_lines[0] == f"the script says: err:{fault}"
    assert told(harness, *RETRYING) == []
    assert harness.only("agent.failed")["error_class"] == fault


async def test_a_circuit_opens_is_tried_once_and_closes(harness):
    """Three failures of one class open it; it is waited for as a retry is, and the probe closes it."""
    harness.variables |= FAST | {"CONTROL_CIRCUIT_FAILURES": "3", "CONTROL_CIRCUIT_SECONDS": "0.3"}
    harness.follows(*["err:server"] * 3, "msg:back again")
    ran = await harness.execute("hello", mode="chat_safe")
    assert ran.stdout == "back again\n"
    first, second, opened, third, *rest = told(harness, *RETRYING)
    assert (first, second) == (("retry.scheduled", 0.01), ("retry.scheduled", 0.02))
    assert opened == ("circuit.opened", 3)
    assert third[0] == "retry.scheduled"
    assert rest[-2:] == [("circuit.half_open",), ("circuit.closed",)]
    waits = [event.fields["delay_seconds"] for event in harness.events("retry.scheduled")]
    assert sum(waits) >= 0.3
    circuits = harness.events("circuit.opened", "circuit.half_open", "circuit.closed")
    assert {event.fields["error_class"] for event in circuits} == {"server"}
    assert {(event.fields["model"], event.fields["tool_name"]) for event in circuits} == {("scripted", "")}


async def test_a_probe_that_fails_opens_the_circuit_again(harness):
    harness.variables |= FAST | {"CONTROL_CIRCUIT_FAILURES": "2", "CONTROL_CIRCUIT_SECONDS": "0.2"}
    harness.follows(*["err:network"] * 3, "msg:back again")
    await harness.execute("hello", mode="chat_safe")
    circuits = [event.kind for event in harness.events(*RETRYING[2:])]
    assert circuits == [
        *("circuit.opened", "circuit.half_open", "circuit.opened"),
        *("circuit.half_open", "circuit.closed"),
    ]


async def test_failures_of_different_classes_are_counted_apart(harness):
    harness.variables |= FAST | {"CONTROL_CIRCUIT_FAILURES": "3"}
    harness.follows("err:server", "err:network", "err:server", "err:network", "msg:through")
    await harness.execute("hello", mode="chat_safe")
    assert not harness.events("circuit.opened")
    assert len(harness.events("retry.scheduled")) == 4


async def test_a_tool_that_keeps_failing_is_left_alone_and_the_task_goes_on(harness):
    """A tool failure goes back to the model; the breaker counts it as tool_exec."""
    harness.variables |= {"CONTROL_CIRCUIT_FAILURES": "2", "CONTROL_MAX_REPEATS": "9"}
    harness.follows(*['call:bash {"cmd": "sleep 5", "timeout_seconds": 1}'] * 3, "msg:it does not work")
    ran = await harness.execute("run it again")
    assert ran.stdout == "it does not work\n"
    opened = harness.only("circuit.opened")
    assert (opened["error_class"], opened["failures"]) == ("tool_exec", 2)
    assert (opened["tool_name"], opened["model"]) == ("bash", "")
    *timed_out, left_alone = harness.results()
    assert [result["error_code"] for result in timed_out] == ["TIMEOUT"] * 2
    assert left_alone["message"] == "bash failed 2 times in a row and is suspended for a while"
    assert len(harness.events("tool_call.started")) == 2
    assert len(harness.events("tool_call.failed")) == 3
    harness.assert_sound()


async def test_the_last_retry_waits_until_the_circuit_lets_it_try(harness):
    """With as many retries as failures that open a circuit, the last one is the probe."""
    harness.variables |= {
        "CONTROL_MAX_RETRIES": "2",
        "CONTROL_CIRCUIT_FAILURES": "2",
        "CONTROL_CIRCUIT_SECONDS": "1",
        "CONTROL_RETRY_SECONDS": "0.01",
    }
    harness.follows("err:server", "err:server", "msg:there it is")
    ran = await harness.execute("go")
    assert ran.stdout == "there it is\n"
    assert harness.only("circuit.opened")["failures"] == 2
    assert len(harness.events("circuit.half_open")) == len(harness.events("circuit.closed")) == 1
    harness.assert_sound()


async def test_the_same_call_with_the_same_result_is_no_progress(harness):
    harness.follows(*["call:list_files {}"] * 5)
    ran = await harness.execute("look", expect=4)
    stalled = harness.only("progress.stalled")
    assert stalled == {"tool_name": "list_files", "times": 3}
    assert ran.last_lines[0].startswith(
        "The task made no progress: the same call of list_files returned the same result 3 times."
    )
    notes = [result.get("note") for result in harness.results()]
    assert notes[0] is None
    assert "will return it again and end the task." in notes[1]
    harness.assert_sound()


@pytest.mark.parametrize(
    ("call", "code"),
    [("read_file nonsense", "INVALID_ARGS"), ("no_such_tool {}", "TOOL_NOT_FOUND")],
)
async def test_wrong_calls_that_are_repeated_are_no_progress_either(harness, call, code):
    harness.follows(*[f"call:{call}"] * 4)
    await harness.execute("go", expect=4)
    assert [result["error_code"] for result in harness.results()] == [code] * 3
    assert harness.only("progress.stalled")["tool_name"] == call.split()[0]
    assert not harness.events("circuit.opened", "control.limit_reached")


async def test_a_slow_model_uses_up_the_time_of_its_task(harness):
    harness.variables["CONTROL_MAX_WALL_SECONDS"] = "0.5"
    harness.follows('{"sleep_ms": 700, "tool_calls": [{"name": "list_files"}]}', "msg:too late")
    ran = await harness.execute("look", expect=4)
    assert harness.only("control.limit_reached")["limit"] == "max_wall_seconds"
    assert "the limit is 0.5 seconds" in ran.stderr
    harness.assert_sound()


async def test_a_slow_tool_uses_up_the_time_of_its_task(harness):
    """S3-7.2.2."""
    harness.variables["CONTROL_MAX_WALL_SECONDS"] = "1"
    harness.follows(*[f'call:bash {{"cmd": "sleep 0.7; echo {n}"}}' for n in range(2)], "msg:too late")
    ran = await harness.execute("sleep", expect=4)
    assert ran.stdout == ""
    assert harness.only("control.limit_reached")["limit"] == "max_wall_seconds"
    harness.assert_sound()


@pytest.mark.parametrize("tool", ["bash", "bash_readonly"])
async def test_a_running_command_ends_when_the_time_of_its_task_is_up(harness, tool):
    """A limit of two seconds ends the task within three, whatever the command's own time-out is."""
    harness.variables["CONTROL_MAX_WALL_SECONDS"] = "2"
    harness.follows(f'call:{tool} {{"cmd": "sleep 20; touch late", "timeout_seconds": 20}}', "msg:too late")
    ran = await harness.execute("run it", expect=4)
    assert "the limit is 2 seconds" in ran.stderr
    times = "SELECT max(time_us) - min(time_us) FROM events WHERE kind IN ('task.started', 'task.finished')"
    assert 2_000_000 <= harness.query(times)[0][0] < 3_000_000
    assert harness.only("control.limit_reached")["limit"] == "max_wall_seconds"
    (result,) = harness.results()
    assert result["error_code"] == "CANCELLED"
    assert not (harness.root / "late").exists()
    harness.assert_sound()

"""The dummy's failures (S3-7): each class drives retries, the circuit breaker and no-progress, seen in the
events. The model is scripted; everything else is real."""

import pytest

FAST = {"CONTROL_RETRY_SECONDS": "0.01", "CONTROL_MAX_RETRY_SECONDS": "0.04"}


def told(place, *kinds: str) -> list[tuple]:
    """The kinds in order, each with what matters of it."""
    fields = {"retry.scheduled": "delay_seconds", "circuit.opened": "failures"}
    return [
        (event.kind, event.fields[fields[event.kind]]) if event.kind in fields else (event.kind,)
        for event in place.events(*kinds)
    ]


RETRYING = ("retry.scheduled", "retry.exhausted", "circuit.opened", "circuit.half_open", "circuit.closed")


@pytest.mark.parametrize("fault", ["server", "rate_limited", "timeout", "network", "protocol"])
async def test_a_fault_that_may_pass_is_asked_again_with_longer_and_longer_waits(place, fault):
    place.variables |= FAST
    place.follows(*[f"err:{fault}"] * 4, "msg:at last")
    ran = await place.execute("hello", mode="chat_safe")
    assert ran.stdout == "at last\n"
    assert told(place, *RETRYING) == [("retry.scheduled", wait) for wait in (0.01, 0.02, 0.04, 0.04)]
    assert {event.fields["error_class"] for event in place.events("retry.scheduled")} == {fault}


@pytest.mark.parametrize("fault", ["auth", "quota", "not_found", "invalid_request", "too_long"])
async def test_a_fault_that_cannot_pass_ends_it_at_once(place, fault):
    place.follows(f"err:{fault}", "msg:never")
    ran = await place.execute("hello", mode="chat_safe", expect=1)
    assert ran.last_lines[0] == f"the script says: err:{fault}"
    assert told(place, *RETRYING) == []
    assert place.only("agent.failed")["error_class"] == fault


async def test_a_circuit_opens_is_tried_once_and_closes(place):
    """Three failures of one class open it; it is waited for as a retry is, and the probe closes it."""
    place.variables |= FAST | {"CONTROL_CIRCUIT_FAILURES": "3", "CONTROL_CIRCUIT_SECONDS": "0.3"}
    place.follows(*["err:server"] * 3, "msg:back again")
    ran = await place.execute("hello", mode="chat_safe")
    assert ran.stdout == "back again\n"
    first, second, opened, third, *rest = told(place, *RETRYING)
    assert (first, second) == (("retry.scheduled", 0.01), ("retry.scheduled", 0.02))
    assert opened == ("circuit.opened", 3)
    assert third[0] == "retry.scheduled"
    assert rest[-2:] == [("circuit.half_open",), ("circuit.closed",)]
    waits = [event.fields["delay_seconds"] for event in place.events("retry.scheduled")]
    assert sum(waits) >= 0.3
    circuits = place.events("circuit.opened", "circuit.half_open", "circuit.closed")
    assert {event.fields["error_class"] for event in circuits} == {"server"}
    assert {(event.fields["model"], event.fields["tool_name"]) for event in circuits} == {("scripted", "")}


async def test_a_probe_that_fails_opens_the_circuit_again(place):
    place.variables |= FAST | {"CONTROL_CIRCUIT_FAILURES": "2", "CONTROL_CIRCUIT_SECONDS": "0.2"}
    place.follows(*["err:network"] * 3, "msg:back again")
    await place.execute("hello", mode="chat_safe")
    circuits = [event.kind for event in place.events(*RETRYING[2:])]
    assert circuits == [
        *("circuit.opened", "circuit.half_open", "circuit.opened"),
        *("circuit.half_open", "circuit.closed"),
    ]


async def test_failures_of_different_classes_are_counted_apart(place):
    place.variables |= FAST | {"CONTROL_CIRCUIT_FAILURES": "3"}
    place.follows("err:server", "err:network", "err:server", "err:network", "msg:through")
    await place.execute("hello", mode="chat_safe")
    assert not place.events("circuit.opened")
    assert len(place.events("retry.scheduled")) == 4


async def test_a_tool_that_keeps_failing_is_left_alone_and_the_task_goes_on(place):
    """A tool failure goes back to the model; the breaker counts it as tool_exec."""
    place.variables |= {"CONTROL_CIRCUIT_FAILURES": "2", "CONTROL_MAX_REPEATS": "9"}
    place.follows(*['call:bash {"cmd": "sleep 5", "timeout_seconds": 1}'] * 3, "msg:it does not work")
    ran = await place.execute("run it again")
    assert ran.stdout == "it does not work\n"
    opened = place.only("circuit.opened")
    assert (opened["error_class"], opened["failures"]) == ("tool_exec", 2)
    assert (opened["tool_name"], opened["model"]) == ("bash", "")
    *timed_out, left_alone = place.results()
    assert [result["error_code"] for result in timed_out] == ["TIMEOUT"] * 2
    assert left_alone["message"] == "bash failed 2 times in a row and is not run for a while"
    assert len(place.events("tool_call.started")) == 2
    assert len(place.events("tool_call.failed")) == 3
    place.assert_sound()


async def test_the_last_retry_waits_until_the_circuit_lets_it_try(place):
    """With as many retries as failures that open a circuit, the last one is the probe."""
    place.variables |= {
        "CONTROL_MAX_RETRIES": "2",
        "CONTROL_CIRCUIT_FAILURES": "2",
        "CONTROL_CIRCUIT_SECONDS": "1",
        "CONTROL_RETRY_SECONDS": "0.01",
    }
    place.follows("err:server", "err:server", "msg:there it is")
    ran = await place.execute("go")
    assert ran.stdout == "there it is\n"
    assert place.only("circuit.opened")["failures"] == 2
    assert len(place.events("circuit.half_open")) == len(place.events("circuit.closed")) == 1
    place.assert_sound()


async def test_the_same_call_with_the_same_result_is_no_progress(place):
    place.follows(*["call:list_files {}"] * 5)
    ran = await place.execute("look", expect=4)
    stalled = place.only("progress.stalled")
    assert stalled == {"tool_name": "list_files", "times": 3}
    assert ran.last_lines[0].startswith(
        "The task made no progress: 3 times the same call of list_files gave the same result."
    )
    notes = [result.get("note") for result in place.results()]
    assert notes[0] is None
    assert "The same call once more ends the task." in notes[1]
    place.assert_sound()


@pytest.mark.parametrize(
    ("call", "code"),
    [("read_file nonsense", "INVALID_ARGS"), ("no_such_tool {}", "TOOL_NOT_FOUND")],
)
async def test_wrong_calls_that_are_repeated_are_no_progress_either(place, call, code):
    place.follows(*[f"call:{call}"] * 4)
    await place.execute("go", expect=4)
    assert [result["error_code"] for result in place.results()] == [code] * 3
    assert place.only("progress.stalled")["tool_name"] == call.split()[0]
    assert not place.events("circuit.opened", "control.limit_reached")


async def test_a_slow_model_uses_up_the_time_of_its_task(place):
    place.variables["CONTROL_MAX_WALL_SECONDS"] = "0.5"
    place.follows('{"sleep_ms": 700, "tool_calls": [{"name": "list_files"}]}', "msg:too late")
    ran = await place.execute("look", expect=4)
    assert place.only("control.limit_reached")["limit"] == "max_wall_seconds"
    assert "it may work for 0.5 seconds" in ran.stderr
    place.assert_sound()


async def test_a_slow_tool_uses_up_the_time_of_its_task(place):
    """S3-7.2.2."""
    place.variables["CONTROL_MAX_WALL_SECONDS"] = "1"
    place.follows(*[f'call:bash {{"cmd": "sleep 0.7; echo {n}"}}' for n in range(2)], "msg:too late")
    ran = await place.execute("sleep", expect=4)
    assert ran.stdout == ""
    assert place.only("control.limit_reached")["limit"] == "max_wall_seconds"
    place.assert_sound()


@pytest.mark.parametrize("tool", ["bash", "bash_readonly"])
async def test_a_running_command_ends_when_the_time_of_its_task_is_up(place, tool):
    """A limit of two seconds ends the task within three, whatever the command's own time-out is."""
    place.variables["CONTROL_MAX_WALL_SECONDS"] = "2"
    place.follows(f'call:{tool} {{"cmd": "sleep 20; touch late", "timeout_seconds": 20}}', "msg:too late")
    ran = await place.execute("run it", expect=4)
    assert "it may work for 2 seconds" in ran.stderr
    times = "SELECT max(time_us) - min(time_us) FROM events WHERE kind IN ('task.started', 'task.finished')"
    assert 2_000_000 <= place.query(times)[0][0] < 3_000_000
    assert place.only("control.limit_reached")["limit"] == "max_wall_seconds"
    (result,) = place.results()
    assert result["error_code"] == "CANCELLED"
    assert not (place.root / "late").exists()
    place.assert_sound()

"""Where somebody new gets stuck, what they are told gets them on."""

import errno
import socket
import sys

from interlock.gateway.server import listen_error


def test_a_file_tool_without_a_folder_names_the_option_too(interlock):
    done = interlock("exec", "read notes.txt", "--mode", "coding")
    assert "no folder is open (--root, or TOOL_ALLOWED_ROOTS)" in done.stderr


def test_a_port_that_is_taken_names_both_ways_to_another(interlock):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = interlock("serve", "--port", str(taken.getsockname()[1]), expect=1)
    assert "choose another with --port or GATEWAY_PORT" in done.stderr
    assert "If that program is Interlock: interlock token link" in done.stderr


def test_an_address_that_is_not_this_machines_is_not_blamed_on_another_program(interlock):
    interlock.variables["GATEWAY_PLAIN_HTTP"] = "true"
    done = interlock("serve", "--host", "192.0.2.1", "--port", "0", expect=1)
    assert "GATEWAY_HOST: cannot listen on 192.0.2.1:0" in done.stderr
    assert "another" not in done.stderr


def test_a_port_that_only_root_may_have_is_said_to_be_one():
    """Tests may run as root, whom nothing is refused."""
    told = str(listen_error("127.0.0.1", 80, PermissionError(errno.EACCES, "Permission denied")))
    assert told == (
        "GATEWAY_PORT: cannot listen on 127.0.0.1:80 (Permission denied): this account cannot "
        "use a port that low; choose another with --port or GATEWAY_PORT"
    )


def test_the_doctor_does_not_say_of_a_wrong_name_that_it_is_understood(interlock):
    interlock.variables["TOOL_ALOWED_ROOTS"] = str(interlock.home)
    told = [row["detail"] for row in interlock.json("doctor") if row["what"] == "settings"]
    assert told == ["TOOL_ALOWED_ROOTS is not a setting; did you mean TOOL_ALLOWED_ROOTS?"]


def test_a_server_whose_program_is_named_by_a_relative_path_is_warned_of(interlock):
    (interlock.home / "servers").mkdir()
    (interlock.home / "servers" / "greeter.py").write_text("")
    given = ("--readable", str(interlock.home / "servers"), "--", sys.executable)
    done = interlock("mcp", "add", "near", *given, "servers/greeter.py")
    assert "servers/greeter.py is a relative path, and the server runs in its own folder" in done.stderr
    done = interlock("mcp", "add", "far", *given, str(interlock.home / "servers" / "greeter.py"), "--flag")
    assert "relative" not in done.stderr


def test_what_is_missing_in_its_place_is_called_as_the_help_calls_it(interlock):
    """Not by an option that nobody needs to write."""
    told = interlock("exec", expect=2).stderr
    assert "interlock exec needs TASK" in told
    assert "--task" not in told
    assert "parameter --mode requires an argument" in interlock("exec", "x", "--mode", expect=2).stderr

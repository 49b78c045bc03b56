"""Where somebody new gets stuck, what they are told gets them on."""

import socket
import sys


def test_a_file_tool_without_a_folder_names_the_option_too(interlock):
    done = interlock("exec", "read notes.txt", "--mode", "coding")
    assert "no folder was opened for it (--root, or TOOL_ALLOWED_ROOTS)" in done.stderr


def test_a_port_that_is_taken_names_both_ways_to_another(interlock):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = interlock("serve", "--port", str(taken.getsockname()[1]), expect=1)
    assert "choose another with --port or GATEWAY_PORT" in done.stderr


def test_a_server_whose_program_is_named_by_a_relative_path_is_warned_of(interlock):
    (interlock.home / "servers").mkdir()
    (interlock.home / "servers" / "greeter.py").write_text("")
    given = ("--readable", str(interlock.home / "servers"), "--", sys.executable)
    done = interlock("mcp", "add", "near", *given, "servers/greeter.py")
    assert (
        "servers/greeter.py is a relative path, and the server runs in a folder of its own" in done.stderr
    )
    done = interlock("mcp", "add", "far", *given, str(interlock.home / "servers" / "greeter.py"), "--flag")
    assert "relative" not in done.stderr

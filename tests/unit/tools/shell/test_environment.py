"""The environment that a command gets."""

from pathlib import Path

from interlock.tools.shell.environment import NOWHERE, command_environment

USR = (Path("/usr"), Path("/opt/tool"))


def test_nothing_of_the_servers_own_is_passed_on():
    server = {
        "OPENAI_API_KEY": "x",
        "DATABASE_URL": "x",
        "SSH_AUTH_SOCK": "x",
        "LD_PRELOAD": "x",
        "TZ": "UTC",
    }
    environment = command_environment(server, USR, None)
    assert not {"OPENAI_API_KEY", "DATABASE_URL", "SSH_AUTH_SOCK", "LD_PRELOAD"} & set(environment)
    assert environment["TZ"] == "UTC"


def test_programs_are_looked_for_where_a_command_can_read():
    path = command_environment({"PATH": "/home/a/bin:/opt/tool/bin:relative::/usr/games"}, USR, None)[
        "PATH"
    ]
    folders = path.split(":")
    assert folders[:2] == ["/opt/tool/bin", "/usr/games"]
    assert "/usr/bin" in folders
    assert not {"/home/a/bin", "relative", ""} & set(folders)


def test_home_and_temporary_folder_are_private_or_nowhere():
    own = command_environment({"HOME": "/home/a"}, USR, Path("/private"))
    assert (own["HOME"], own["TMPDIR"]) == ("/private/home", "/private/tmp")
    assert command_environment({"HOME": "/home/a"}, USR, None)["HOME"] == NOWHERE

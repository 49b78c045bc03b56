"""The command line: one file a group of commands.

Facts go to stdout (`--json` for machines), everything else to stderr. At the command line the person is
the operator: `--mode` opens that mode and `--root` replaces the roots, for that process alone. Heavy
imports live inside the commands, so that `--help` stays quick.
"""

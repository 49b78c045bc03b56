"""What comes in from outside, spoiled in every way: a right result or an error of our own, nothing else.

`make test` runs a short part, the same each time. `make test-full` looks further, and elsewhere each time.
One file by itself, as long as you like:

    HYPOTHESIS_PROFILE=full .venv/bin/python -m pytest tests/fuzz/test_model_answers.py

What was found stays as an `@example`, or as a case of its own with the sentence that it must be told with.

| file | what is spoiled |
|---|---|
| `test_http.py` | requests to a running `interlock serve`, by the app's own routes |
| `test_frames.py` | requests over sockets, many under way, from the methods' own declarations |
| `test_model_answers.py` | streams of a model's server, cut anywhere; replies in the neutral form |
| `test_written_files.py` | agents, workflows and their lines, the environment, stored settings |
| `test_backups.py` | archives that are cut, bent, encrypted, or say less than they hold |
| `test_lines_of_calls.py` | the input of `interlock tool call --jsonl` |
| `test_exec_lines.py` | what a model's server sends to `interlock exec --json` |
| `test_from_others.py` | updates of Telegram, signals of other processes |
| `test_judges.py` | commands and paths that are judged |

For a run that is guided by coverage, atheris drives the same functions: `guided.py` says how.
"""

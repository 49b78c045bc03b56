"""A place that was lived in: a session with a bit of everything, and the ways to every view."""

import shutil
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.harness.browser import begin, composer, is_done, say, session_id, switch_mode, task
from tests.harness.scripted_model import ScriptedModel, called, said
from tests.harness.server_process import ServerProcess
from tests.unit.questions.widget_cases import CASES

TEXT = """## What I found

A paragraph with **bold**, *emphasis*, `a_name` and [a link](https://example.org/).

1. first
2. second

> A quotation.

| Name | Size |
|------|-----:|
| a    | 10   |
| b_with_a_long_name_that_does_not_break_anywhere_and_goes_on | 20   |

```python
print("a line of code that is rather long, so that it has to scroll inside its own box", end="")
```
"""
LAST = "Ask me at last"
EXAMPLE = Path(__file__).parents[3] / "examples" / "workflows" / "plan_build_review"


def furnish(page: Page, server: ServerProcess, model: ScriptedModel) -> str:
    """Calls that worked, failed and were refused, markdown, answered questions and one that waits."""
    (server.root / "notes.txt").write_text("".join(f"line {number}\n" for number in range(1, 40)))
    refused = called(("read_file", {"path": "notes.txt"}))
    is_done(begin(page, model.plays("Read the notes", refused, said("I may not."))))
    switch_mode(page, "chat_safe", "chat")
    calls = called(("read_file", {"path": "notes.txt"}), ("read_file", {"path": "missing.txt"}))
    is_done(say(page, model.plays("Read the notes again", calls, said(TEXT))))
    actions = [{"id": "more", "label": "Once more"}, {"id": "less", "style": "danger"}]
    first = {"type": "action_selection", "message": "And now, in which way?", "actions": actions}
    asking = say(page, model.plays("Ask me first", called(("ask_user", first)), said("Thank you.")))
    asking.get_by_role("button", name="Once more").click()
    is_done(asking)
    form, _ = CASES["form"]
    asking = say(page, model.plays(LAST, called(("ask_user", form)), said("Thank you.")))
    expect(asking.get_by_role("button", name="Submit")).to_be_enabled()
    composer(page).fill("a draft")
    _put_workflows(server)
    return session_id(page)


def _put_workflows(server: ServerProcess) -> None:
    """One that can be run, and one that cannot."""
    put_workflow(server, "tidy")
    # Its end is a name like one of the page's own words, which a test looks for in Chinese.
    file = server.home / "workspace" / "workflows" / "tidy" / "workflow.toml"
    text = file.read_text().replace("[nodes.done]", "[nodes.accepted]")
    file.write_text(text.replace('to = "done"', 'to = "accepted"'))
    broken = server.home / "workspace" / "workflows" / "broken"
    broken.mkdir()
    (broken / "workflow.toml").write_text('start = "first"\n\n[nodes.first]\nkind = "step"\n')


def put_workflow(server: ServerProcess, name: str) -> None:
    """The example, under a name of its own."""
    shutil.copytree(EXAMPLE, server.home / "workspace" / "workflows" / name)


def addresses(session: str) -> dict[str, str]:
    return {
        "new chat": "#/chat",
        "chat": f"#/chat/{session}",
        "authority": "#/authority/read_file",
        "settings": "#/settings",
        "workflows": "#/workflows",
        "workflow": "#/workflows/tidy",
        "servers": "#/servers",
        "activity": "#/activity",
        "timeline": f"#/activity/{session}/all",
        "system": "#/activity/system",
    }


def visit(page: Page, server: ServerProcess, address: str) -> None:
    """Until the view has come to rest, in whatever language."""
    page.goto(f"{server.origin}/{address}")
    expect(page.get_by_role("heading", level=1).first).to_be_visible()
    expect(page.get_by_role("main").locator(".spinner")).to_have_count(0)
    if "/chat/" in address:
        expect(page.get_by_role("main").locator("article article").last).to_be_visible()
    page.evaluate("document.fonts.ready")


__all__ = ["LAST", "addresses", "furnish", "put_workflow", "task", "visit"]

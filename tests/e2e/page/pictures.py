"""Takes the pictures of the README from a real server with the built-in model: `make pictures`.

`python -m tests.e2e.page.pictures [FOLDER]` writes them to docs/pictures, or to the folder.
"""

import re
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.harness.browser import begin, chip, composer, is_done, say, switch_mode
from tests.harness.external_services import chromium, chromium_flags
from tests.harness.server_process import ServerProcess

ROOT = Path(__file__).parents[3]
MOST_BYTES = 250 * 1024
WIDE = {"viewport": {"width": 1280, "height": 800}, "device_scale_factor": 1}
PHONE = {"viewport": {"width": 390, "height": 844}, "device_scale_factor": 1, "is_mobile": True}
# The same program, run by somebody who has a name: the account of this machine is not for pictures.
AS_ANN = """import pwd, sys
real = pwd.getpwuid
pwd.getpwuid = lambda uid: pwd.struct_passwd(("ann", *tuple(real(uid))[1:]))
from interlock.cli.main import main
sys.exit(main())"""


def has_chinese_letters() -> bool:
    """Without a font for them the button with the other language's name would show boxes."""
    try:
        return bool(subprocess.run(["fc-list", ":lang=zh"], capture_output=True, check=True).stdout)
    except (OSError, subprocess.CalledProcessError):
        return False


class Camera:
    def __init__(self, browser: Browser, server: ServerProcess, folder: Path) -> None:
        self._browser = browser
        self._server = server
        self._folder = folder

    def window(self, **options: Any) -> Page:
        context = self._browser.new_context(locale="en-GB", reduced_motion="reduce", **options)
        context.add_cookies(self._server.cookies)
        page = context.new_page()
        page.goto(self._server.origin if self._server.cookies else self._server.link)
        expect(page.locator(".connection.open")).to_be_attached()
        self._server.cookies = context.cookies()
        return page

    def open(self, page: Page, address: str) -> None:
        page.goto(f"{self._server.origin}/{address}")
        expect(page.get_by_role("main").locator(".spinner")).to_have_count(0)

    def take(self, page: Page, name: str) -> None:
        # The list of sessions hears of a task's end a moment after the chat.
        expect(page.locator(".session-work.running")).to_have_count(0)
        shown = page.locator("body").inner_text()
        for secret in (str(self._server.home), str(ROOT), socket.gethostname(), "local:root", "root root"):
            assert secret not in shown, f"{name} would show {secret}"
        page.mouse.move(0, 0)
        if not has_chinese_letters():
            page.evaluate("document.querySelector('.language').style.visibility = 'hidden'")
        path = self._folder / f"{name}.png"
        page.screenshot(path=path)
        assert path.stat().st_size < MOST_BYTES, f"{name} has {path.stat().st_size} bytes"


def take_all(camera: Camera) -> None:
    page = camera.window(**WIDE)
    is_done(begin(page, "What time is it in Zurich?"))
    denied = begin(page, "read notes.txt")
    is_done(denied)
    camera.take(page, "chat-denied")
    chip(page, "chat_safe").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("radio", name=re.compile("^coding")).check()
    expect(dialog.get_by_role("heading", name=re.compile(r"Adds \d+ tools"))).to_be_visible()
    camera.take(page, "mode-switch")
    page.keyboard.press("Escape")
    session = _work(page)
    _views(camera, page, session)
    _other_windows(camera, session)


def _work(page: Page) -> str:
    """A session in which files are read and changed, and something is asked."""
    is_done(begin(page, "Write hello to hello.txt"))
    switch_mode(page, "chat_safe", "coding")
    for message in ("Read README.md", "Replace Hello with Good morning in src/greet.py", "Run ls src"):
        is_done(say(page, message))
    asking = say(page, "Ask me to choose between tea and coffee")
    expect(asking.get_by_role("button").first).to_be_visible()
    return page.url.rpartition("/")[2]


def _views(camera: Camera, page: Page, session: str) -> None:
    camera.open(page, "#/authority")
    page.get_by_role("button", name=re.compile("^write_file is denied in plan")).focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Checks, in order")).to_be_visible()
    expect(page.get_by_role("tooltip")).to_be_visible()
    camera.take(page, "authority")
    camera.open(page, f"#/activity/{session}/all")
    expect(page.get_by_role("treegrid")).to_be_visible()
    camera.take(page, "activity")
    camera.open(page, "#/settings")
    page.get_by_role("textbox", name="Max read bytes").fill("64 KiB")
    page.get_by_role("checkbox", name="Enable commands").uncheck()
    expect(page.get_by_role("complementary").get_by_role("link", name="bash", exact=True)).to_be_visible()
    camera.take(page, "settings")
    page.get_by_role("button", name="Discard changes").click()


def _other_windows(camera: Camera, session: str) -> None:
    phone = camera.window(**PHONE, has_touch=True)
    camera.open(phone, f"#/chat/{session}")
    expect(composer(phone)).to_be_visible()
    expect(phone.get_by_label("Task", exact=True).last.get_by_role("button").first).to_be_visible()
    camera.take(phone, "phone")
    dark = camera.window(**WIDE, color_scheme="dark")
    camera.open(dark, f"#/chat/{session}")
    expect(dark.get_by_label("Task", exact=True).last.get_by_role("button").first).to_be_visible()
    camera.take(dark, "dark")


def main() -> int:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "pictures"
    folder.mkdir(parents=True, exist_ok=True)
    path = chromium()
    if path is None:
        return "there is no chromium on PATH"  # type: ignore[return-value]
    home = Path(tempfile.mkdtemp(prefix="interlock-pictures-"))
    try:
        server = ServerProcess(home, "chat,plan,coding")
        shutil.copytree(ROOT / "examples" / "playground", server.root, dirs_exist_ok=True)
        server.program = [sys.executable, "-c", AS_ANN]
        server.start()
        try:
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=path, args=chromium_flags())
                expect.set_options(timeout=20_000)
                take_all(Camera(browser, server, folder))
                browser.close()
        finally:
            server.stop()
    finally:
        shutil.rmtree(home)
    return 0


if __name__ == "__main__":
    sys.exit(main())

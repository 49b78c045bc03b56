"""On a phone, and in Chinese: every view fits, is usable, and says what it says in one language."""

import re

import pytest
from playwright.sync_api import expect

from tests.e2e.page.furniture import addresses, visit
from tests.e2e.page.judges import PHONE, sticks_out
from tests.harness.browser import composer, in_browser, is_done, say, task, texts
from tests.harness.scripted_model import Gate, called, held, said

# Everything that is read or read out.
SHOWN = """(root) => {
  const found = new Set();
  const what = NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_TEXT;
  const walk = document.createTreeWalker(root ?? document.body, what);
  for (let node = walk.currentNode; node; node = walk.nextNode()) {
    if (node.nodeType === Node.TEXT_NODE) found.add(node.data.trim());
    else for (const name of ['aria-label', 'title', 'placeholder', 'alt', 'label'])
      if (node.getAttribute(name)) found.add(node.getAttribute(name).trim());
  }
  return [...found];
}"""


@pytest.fixture
def phone(server, enter, lived_in):
    return enter(server, **PHONE)


def test_nothing_scrolls_sideways_on_a_phone(server, phone, lived_in):
    wider = {}
    for view, address in addresses(lived_in).items():
        visit(phone, server, address)
        wider[view] = sticks_out(phone)
    assert not any(wider.values()), wider


def test_every_mode_is_seen_on_a_small_laptop(server, enter, lived_in):
    page = enter(server)
    visit(page, server, "#/authority")
    box = page.locator(".v-matrix-box")
    for width in (1400, 1321, 1320, 1280, 1276, 1275, 1024):
        page.set_viewport_size({"width": width, "height": 720})
        needed = box.evaluate("box => parseFloat(getComputedStyle(box.firstElementChild).minWidth)")
        # Elsewhere the page's scroll bar and the table's take 15 pixels each; this browser shows none.
        assert box.evaluate("box => box.clientWidth") >= needed + 30, width


def test_the_drawer_and_the_composer_of_a_phone(server, phone, lived_in, model):
    side = phone.get_by_role("navigation", name="Main menu")
    expect(side).not_to_be_in_viewport()
    menu = phone.get_by_role("button", name="Menu")
    menu.tap()
    expect(side).to_be_in_viewport()
    assert sticks_out(phone) == []
    side.get_by_role("link", name="Settings").tap()
    expect(phone.get_by_role("heading", name="Tool settings")).to_be_visible()
    expect(side).not_to_be_in_viewport()
    phone.get_by_role("button", name="Menu").tap()
    side.get_by_role("link", name="New chat").tap()
    expect(side).not_to_be_in_viewport()
    composer(phone).tap()
    composer(phone).fill(model.plays("From the phone", said("To the phone.")))
    expect(phone.get_by_role("button", name="Send")).to_be_in_viewport(ratio=1)
    phone.get_by_role("button", name="Send").tap()
    is_done(task(phone, "From the phone"))
    expect(phone.get_by_role("button", name=re.compile("^Mode: chat_safe"))).to_be_in_viewport(ratio=1)


def test_the_dialog_of_the_mode_fits_a_phone(server, phone, lived_in):
    visit(phone, server, addresses(lived_in)["chat"])
    phone.get_by_role("button", name=re.compile("^Mode: chat")).tap()
    dialog = phone.get_by_role("dialog")
    dialog.get_by_role("radio", name=re.compile("^coding")).check()
    expect(dialog.get_by_role("button", name="Switch to coding")).to_be_in_viewport(ratio=1)
    assert sticks_out(phone) == []


def test_a_long_answer_stays_in_view_while_it_comes(phone, model):
    gate = Gate()
    lines = "\n\n".join(f"Paragraph {number}." for number in range(40))
    telling = say(
        phone, model.plays("Tell me a lot", held(f"{lines}\n\nNearly", gate, "\n\nThe very end."))
    )
    expect(telling.get_by_text("Paragraph 39.")).to_be_in_viewport()
    gate.set()
    expect(telling.get_by_text("The very end.")).to_be_in_viewport()


# -- Chinese -----------------------------------------------------------------------------------------


@pytest.fixture
def chinese(server, enter, lived_in):
    return enter(server, locale="zh-CN")


def _english(page):
    """Texts of the page that are other ones in Chinese; without those that have something filled in."""
    words = page.evaluate(in_browser("texts"))
    pairs = [(text, words["zh"][key]) for key, text in words["en"].items()]
    return {text for text, other in pairs if isinstance(text, str) and text != other and "{" not in text}


def test_every_view_is_in_chinese(server, chinese, lived_in):
    english = _english(chinese)
    assert len(english) > 150
    found = {}
    for view, address in addresses(lived_in).items():
        visit(chinese, server, address)
        assert chinese.evaluate("document.documentElement.lang") == "zh-CN"
        found[view] = set(chinese.evaluate(SHOWN)) & english
    assert not any(found.values()), found
    expect(chinese.get_by_role("navigation").get_by_role("link", name="设置", exact=True)).to_be_visible()


def test_a_chat_in_chinese(server, chinese, lived_in, model):
    box = chinese.get_by_role("textbox", name="你的消息")
    box.fill(model.plays("现在几点？", said("三点。")))
    box.press("Enter")
    expect(chinese.get_by_text("完成", exact=True).first).to_be_visible()
    chinese.get_by_role("button", name=re.compile("chat_safe")).click()
    expect(chinese.get_by_role("dialog")).to_contain_text("模式")
    assert set(chinese.evaluate(SHOWN)) & _english(chinese) == set()
    chinese.keyboard.press("Escape")
    chinese.get_by_role("button", name="English").click()
    expect(composer(chinese)).to_be_visible()
    chinese.reload()
    expect(composer(chinese)).to_be_visible()
    assert chinese.evaluate("document.documentElement.lang") == "en"


def _english_sentences(locator):
    """What is read there, or read out, and has three English words in a row and no Chinese."""
    found = locator.evaluate(SHOWN)
    return [text for text in found if re.search(r"[A-Za-z]+ [a-z]+ [a-z]+", text) and text.isascii()]


def test_a_refusal_is_explained_in_chinese(server, chinese, lived_in, model):
    calls = called(("read_file", {"path": "notes.txt"}), ("bash", {"cmd": "ls"}))
    box = chinese.get_by_role("textbox", name="你的消息")
    box.fill(model.plays("读一下笔记", calls, said("不行。")))
    box.press("Enter")
    expect(chinese.get_by_text("完成", exact=True).first).to_be_visible()
    card = chinese.get_by_role("article", name="已拒绝: read_file")
    facts = dict(zip(texts(card.get_by_role("term")), texts(card.get_by_role("definition")), strict=True))
    assert facts["原因"] == "read_file 不能在 chat_safe 模式下使用 MODE_DENIED"
    assert "read_file 需要 chat、plan 或 coding 模式" in facts["下一步"]
    assert "/mode chat" in facts["下一步"]
    for article in chinese.get_by_role("article").all():
        assert _english_sentences(article) == []
    for command in ("/why", "/tools"):
        box.fill(command)
        box.press("Enter")
        expect(chinese.get_by_role("dialog")).to_contain_text("chat_safe 模式下使用")
        assert _english_sentences(chinese.get_by_role("dialog")) == []
        chinese.keyboard.press("Escape")


def test_the_matrix_and_an_explained_call_are_in_chinese(server, chinese, lived_in):
    visit(chinese, server, "#/authority")
    main = chinese.get_by_role("main")
    described = main.locator("tr", has=chinese.get_by_text("read_file", exact=True))
    expect(described).to_contain_text("读取文本文件")
    main.get_by_role("button", name=re.compile("^write_file.*plan")).click()
    expect(main.locator(".v-verdict")).to_contain_text("write_file 不能在 plan 模式下使用")
    expect(main.get_by_role("tooltip")).to_contain_text("write_file 不能在 plan 模式下使用")
    # Above them sessions are offered, by the titles that people gave them.
    for part in ("il-matrix", "il-explain"):
        assert _english_sentences(main.locator(part)) == []
    chinese.get_by_role("combobox", name="模式").select_option("coding")
    for tool, arguments, why in (
        ("read_file", '{"path": "/etc/passwd"}', "/etc/passwd 在开放的文件夹之外"),
        ("bash", '{"cmd": "rm -rf /"}', "它会删除系统文件夹或主目录及其中的一切"),
    ):
        chinese.get_by_role("combobox", name="工具").fill(tool)
        chinese.get_by_role("textbox", name="参数（JSON）").fill(arguments)
        chinese.get_by_role("button", name="解释", exact=True).click()
        expect(main.locator(".v-verdict")).to_contain_text(why)
        assert _english_sentences(main.locator("il-explain")) == []


def test_what_a_setting_takes_away_is_told_in_chinese(server, chinese, lived_in):
    visit(chinese, server, "#/settings")
    chinese.get_by_role("checkbox", name=re.compile("^启用文件系统工具")).uncheck()
    lost = chinese.get_by_role("complementary").get_by_role("link", name="read_file", exact=True)
    expect(lost).to_have_attribute("title", "read_file 不可用：按已保存的设置，文件工具已关闭")
    assert _english_sentences(chinese.get_by_role("main")) == []
    chinese.get_by_role("button", name="放弃改动").click()

"""Hostile text in every place where text is shown: it is shown, and nothing else comes of it."""

import json
import re

import pytest
from playwright.sync_api import expect

from tests.harness.browser import PageMonitor, begin, go, is_done, session_id, switch_mode, task
from tests.harness.scripted_model import called, said

# Each of them would open a dialog, ask another server, or leave an element behind, were it taken for HTML.
ATTACKS = [
    "<script>alert('script')</script>",
    "<img src=x onerror=alert('img')>",
    "<svg onload=alert('svg')><a xlink:href='javascript:alert(1)'>x</a></svg>",
    "<iframe src='https://attacker.example/frame'></iframe>",
    "<style>*{display:none}</style>",
    "<base href='https://attacker.example/'>",
    "<form action='https://attacker.example/'><button>go</button></form>",
    "<a href=javascript:alert('a')>click</a>",
    '"><il-call></il-call><x onmouseover=alert(1) x="',
    "${alert('template')}<!--?lit$1$-->{{constructor.constructor('alert(1)')()}}",
]
LINKS = """[script](javascript:alert(1)) [upper](JaVaScRiPt:alert(2)) [space]( javascript:alert(3))
[tab](java\tscript:alert(4)) [entity](&#106;avascript:alert(5))
[data](data:text/html,<script>alert(6)</script>) [vb](vbscript:msgbox(7)) [file](file:///etc/passwd)
[blob](blob:https://attacker.example/1) [rel](//attacker.example/)
<javascript:alert(8)> ![pixel](https://attacker.example/pixel.png) [ref]

[ref]: javascript:alert(9)

[good](https://example.org/page) [plain](http://example.org/) [mail](mailto:somebody@example.org)"""
TITLE = "<img src=x onerror=alert('title')>"
FILE_NAME = "<img src=x onerror=alert('file')>.txt"
# Elements that the page itself never makes, or never with these attributes.
STRANGE = """() => [...document.querySelectorAll('*')].filter((element) =>
  ['IFRAME', 'OBJECT', 'EMBED', 'BASE', 'STYLE', 'IMG', 'FORM-ACTION'].includes(element.tagName)
  || (element.tagName === 'SCRIPT' && element.parentElement !== document.head)
  || [...element.attributes].some(({ name, value }) =>
    name.startsWith('on') || /^\\s*(javascript|data|vbscript|file|blob):/i.test(value))
).map((element) => element.outerHTML)"""


@pytest.fixture(scope="module", autouse=True)
def hostile_file(server):
    (server.root / FILE_NAME).write_text("\n".join(ATTACKS) + "\n")


def _nothing_came_of_it(page):
    assert page.evaluate(STRANGE) == []
    assert page.evaluate("location.origin + document.baseURI").count("attacker") == 0
    expect(page.get_by_role("navigation", name="Main menu")).to_be_visible()


def test_html_in_what_the_model_says_is_text(page, model):
    fenced = "\n".join(["```html", *ATTACKS, "```", f"```<img src=x onerror=alert(1)>\n{ATTACKS[0]}\n```"])
    text = "\n\n".join(
        [
            *ATTACKS,
            *(f"# {each}" for each in ATTACKS[:2]),
            f"| {ATTACKS[1]} |\n|---|\n| {ATTACKS[0]} |",
            fenced,
        ]
    )
    message = model.plays(ATTACKS[1], said(text, size=7))
    answer = begin(page, message)
    is_done(answer)
    for attack in ATTACKS[:8]:
        expect(answer.get_by_text(attack, exact=True).first).to_be_visible()
    _nothing_came_of_it(page)
    page.reload()
    is_done(answer)
    _nothing_came_of_it(page)


def test_links_lead_to_the_web_and_to_mail_alone(page, model):
    answer = begin(page, model.plays("Give me links", said(LINKS)))
    is_done(answer)
    links = answer.get_by_role("link")
    addresses = [link.get_attribute("href") for link in links.all()]
    outside = [address for address in addresses if not address.startswith("#/activity/")]
    assert all(re.match(r"(https?://(example\.org|attacker\.example)/|mailto:)", each) for each in outside)
    expected = {"https://example.org/page", "http://example.org/", "mailto:somebody@example.org"}
    assert expected <= set(outside) <= expected | {"https://attacker.example/pixel.png"}
    for link in links.all():
        if link.get_attribute("href").startswith("http"):
            assert set(link.get_attribute("rel").split()) >= {"noopener", "noreferrer"}
    for words in ("javascript:alert(1)", "data:text/html", "file:///etc/passwd"):
        expect(answer.get_by_text(words).first).to_be_visible()
    _nothing_came_of_it(page)


def test_an_address_that_stands_for_another_is_shown_with_where_it_leads(page, model):
    lookalike = "b\u0430nk.example"
    spoofed = {
        "[Log in at bank.example](https://evil.example/a)": "Log in at bank.example (evil.example)",
        "[**www.bank.example**](https://evil.example/b)": "www.bank.example (evil.example)",
        "https://bank.example@evil.example/c": "https://bank.example@evil.example/c (evil.example)",
        f"https://{lookalike}/d": f"https://{lookalike}/d ({lookalike.encode('idna').decode()})",
        "[bank.example](mailto:thief)": "bank.example (mailto:thief)",
        "[the docs](https://example.org/e)": "the docs",
        "https://example.org/f.html": "https://example.org/f.html",
        "[example.org](https://example.org/g)": "example.org",
    }
    answer = begin(page, model.plays("Spoof me", said("\n\n".join(spoofed))))
    is_done(answer)
    shown = [link.inner_text() for link in answer.locator("a[target=_blank]").all()]
    assert shown == list(spoofed.values())
    # Here no link comes of it at all, and both can be read.
    both = "[https://bank.example](https://evil.example/h)"
    answer = begin(page, model.plays("Spoof me again", said(both)))
    is_done(answer)
    expect(answer.get_by_text(both)).to_be_visible()


def test_what_cannot_be_seen_is_shown(server, page, model):
    """Marks that turn text around, and controls that a terminal would obey once it was pasted."""
    name = "cod\u202etxt.exe"
    (server.root / name).write_text("one\x1b[201~two\u2066three\n")
    calls = called(("read_file", {"path": name}))
    code = "```sh\necho hi\x1b[201~\u202e\n```"
    title = "Turn \u202earound"
    message = model.plays(title, calls, said(f"\u202eReversed\u202c and a joined 👩\u200d🚀\n\n{code}"))
    page.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=server.origin)
    is_done(begin(page, model.plays("A chat", said("Yes."))))
    switch_mode(page, "chat_safe", "chat")
    page.get_by_role("textbox", name="Your message").fill(message)
    page.get_by_role("textbox", name="Your message").press("Enter")
    answer = task(page, "Reversed")
    is_done(answer)
    shown = page.get_by_role("main").inner_text()
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", shown)
    for words in (
        r"Turn \u202earound",
        r"cod\u202etxt.exe",
        r"one\x1b[201~two\u2066three",
        r"\u202eReversed\u202c and a joined 👩",
        r"echo hi\x1b[201~\u202e",
    ):
        assert words in shown
    assert "\u200d" in shown
    answer.locator("figure.code").get_by_role("button", name="Copy").click()
    expect(answer.locator("figure.code").get_by_text("Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == r"echo hi\x1b[201~\u202e"


def test_html_in_titles_arguments_results_and_file_names(server, page, model):
    calls = called(
        ("list_files", {}), ("read_file", {"path": FILE_NAME}), ("read_file", {"path": ATTACKS[1]})
    )
    message = model.plays("Look at the files", calls, called((ATTACKS[0], {})), said("I looked."))
    is_done(begin(page, model.plays(TITLE, said("A title."))))
    switch_mode(page, "chat_safe", "chat")
    page.get_by_role("textbox", name="Your message").fill(message)
    page.get_by_role("textbox", name="Your message").press("Enter")
    looked = task(page, "I looked.")
    is_done(looked)
    expect(page.get_by_role("heading", level=1, name=TITLE)).to_be_visible()
    listed = looked.get_by_role("article", name=re.compile("list_files"))
    expect(listed.get_by_text(FILE_NAME).first).to_be_visible()
    reading = looked.get_by_role("article", name=re.compile("read_file")).first
    expect(reading.get_by_text(ATTACKS[0]).first).to_be_visible()
    for summary in looked.get_by_text("Arguments", exact=True).all():
        summary.click()
    _nothing_came_of_it(page)
    page.goto(f"{server.origin}/#/activity/{session_id(page)}/all")
    rows = page.get_by_role("treegrid").get_by_role("row")
    expect(rows.filter(has_text="list_files").first).to_be_visible()
    rows.filter(has_text="read_file").first.click()
    _nothing_came_of_it(page)
    go(page, "Permissions")
    expect(page.get_by_role("option", name=re.compile(re.escape(TITLE))).first).to_be_attached()
    _nothing_came_of_it(page)


def test_html_in_a_question_is_text(page, model):
    bad = ATTACKS[1]
    document = {
        "type": "form",
        "title": bad,
        "message": f"{bad} and {ATTACKS[0]}",
        "submit_label": "Send <b>",
        "fields": [
            {"name": "a", "label": bad, "description": bad, "default": bad},
            {"name": "b", "label": "b", "type": "select", "options": [{"value": bad, "label": bad}]},
        ],
    }
    asked = begin(page, model.plays("Ask me badly", called(("ask_user", document)), said("Thank you.")))
    expect(asked.get_by_role("heading", name=bad)).to_be_visible()
    expect(asked.get_by_role("textbox", name=bad)).to_have_value(bad)
    _nothing_came_of_it(page)
    asked.get_by_role("button", name="Send <b>").click()
    is_done(asked)
    _nothing_came_of_it(page)


def test_a_poisoned_address_opens_nothing(server, page):
    for address in (
        f"#/chat/{ATTACKS[1]}",
        f"#/activity/{ATTACKS[1]}/x",
        f"#/authority/{ATTACKS[1]}",
        "#/%zz",
    ):
        page.goto(f"{server.origin}/{address}")
        expect(page.get_by_role("main")).to_be_visible()
        _nothing_came_of_it(page)


def test_a_poisoned_storage_opens_nothing(page):
    names = ["draft.new", "theme", "language", "tour"]
    poison = "".join(
        f"localStorage.setItem('interlock.{name}', {json.dumps(ATTACKS[1])});" for name in names
    )
    page.context.add_init_script(poison)
    page.reload()
    expect(page.get_by_role("textbox", name="Your message")).to_have_value(ATTACKS[1])
    _nothing_came_of_it(page)


def test_the_watch_sees_what_it_is_there_for(server, browser):
    """All the tests of this folder rest on it."""
    trespasses = {
        "console error: said": "console.error('said')",
        "console warning: said": "console.warn('said')",
        "page error": "setTimeout(() => { throw new Error('thrown'); })",
        "content policy": "document.body.setAttribute('style', 'color: red')",
        "dialog: hello": "setTimeout(() => alert('hello'))",
        "a request that leaves": "new Image().src = 'https://attacker.example/pixel.png'",
    }
    watch, context = PageMonitor(), browser.new_context()
    watch.look_at(context, server.origin)
    page = context.new_page()
    page.goto(server.origin)
    for fault, trespass in trespasses.items():
        page.evaluate(f"() => {{ {trespass}; }}")
        for _ in range(500):
            if any(fault in found for found in watch.faults):
                break
            page.wait_for_timeout(20)
        assert any(fault in found for found in watch.faults), fault
    context.close()

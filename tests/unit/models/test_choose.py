"""From the setting MODEL to a provider, or to one clear sentence."""

import subprocess
import sys

import pytest

from interlock.config.settings import Settings
from interlock.core.errors import ConfigurationError
from interlock.models.demo import DemoProvider
from interlock.models.json_protocol import JsonProtocolProvider
from interlock.models.openai_chat import OpenAIChatProvider
from interlock.models.provider_factory import PROVIDERS, create_provider
from interlock.models.scripted_provider import ScriptedProvider

LOCAL = "http://127.0.0.1:11434/v1"


@pytest.fixture
def environment(monkeypatch):
    def given(**variables: str) -> Settings:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        return Settings()

    return given


def test_the_demo_needs_nothing(environment):
    assert isinstance(create_provider(environment().model, environment()), DemoProvider)


def test_a_script_comes_from_a_file_or_the_setting(environment, tmp_path):
    (tmp_path / "script").write_text("ok\n")
    for form in (f"scripted:{tmp_path}/script", 'scripted:["ok"]', 'scripted:["msg:a:b"]'):
        assert isinstance(create_provider(form, environment()), ScriptedProvider)


@pytest.mark.parametrize(
    ("form", "name"),
    [
        ("openai", "gpt-x"),
        (" openai ", "gpt-x"),
        ("openai:other", "other"),
        ("openai:llama3.1:8b", "llama3.1:8b"),
        ("some/model-name", "some/model-name"),
        ("json:", "gpt-x"),
        ("json:openai", "gpt-x"),
        ("json:openai:llama3.1:8b", "llama3.1:8b"),
        ("json:small", "small"),
    ],
)
def test_a_model_at_an_endpoint_is_named_in_many_ways(environment, form, name):
    settings = environment(OPENAI_API_KEY="sk-0123456789", OPENAI_MODEL="gpt-x")
    chosen = create_provider(form, settings)
    assert isinstance(chosen, JsonProtocolProvider if form.startswith("json") else OpenAIChatProvider)
    assert chosen.name == name


def test_a_server_on_this_machine_needs_no_key(environment):
    assert isinstance(create_provider("openai:m", environment(OPENAI_BASE_URL=LOCAL)), OpenAIChatProvider)


def test_without_a_key_plain_http_may_go_further(environment):
    settings = environment(OPENAI_BASE_URL="http://192.168.1.5:8000/v1")
    assert isinstance(create_provider("openai:m", settings), OpenAIChatProvider)


@pytest.mark.parametrize(
    ("form", "variables", "sentence"),
    [
        ("", {}, "MODEL: is set but empty; use demo, openai, or PROVIDER:NAME"),
        ("openai", {}, "MODEL: openai needs the name of a model; set OPENAI_MODEL"),
        (
            "gpt-x",
            {},
            (
                "MODEL: 'gpt-x' at https://api.openai.com/v1 needs a key; set OPENAI_API_KEY, or "
                "set OPENAI_BASE_URL to a server that needs none"
            ),
        ),
        (
            "openai:m",
            {"OPENAI_BASE_URL": "http://example.com/v1", "OPENAI_API_KEY": "sk-0123456789"},
            (
                "OPENAI_BASE_URL: plain http exposes the key on the network; use https, or unset "
                "OPENAI_API_KEY if that server needs none"
            ),
        ),
        (
            "openai:m",
            {"OPENAI_BASE_URL": "https://me:secret@example.com/v1", "OPENAI_API_KEY": "sk-0123456789"},
            "OPENAI_BASE_URL: contains a user name or a password; set the key in its own variable",
        ),
        (
            "openai:m",
            {"OPENAI_API_KEY": "sk-01234\n56789"},
            (
                "OPENAI_API_KEY: contains a character that is not allowed in a key (a space, a line "
                "end, or a non-ASCII character)"
            ),
        ),
        ("scripted:", {}, "MODEL: scripted needs a script; write scripted:FILE"),
        ("scripted", {}, "MODEL: scripted needs a script; write scripted:FILE"),
        ("scripted:[]", {}, "the script has no turn"),
        ("json:demo", {}, "MODEL: json:demo is not valid; write json:NAME with a real model"),
        ("json:json:x", {}, "MODEL: json:json:x is not valid; write json:NAME with a real model"),
        ("anthropic:", {}, "MODEL: anthropic needs the name of a model; write anthropic:NAME"),
        (
            "llama3.1:8b",
            {},
            (
                f"MODEL: 'llama3.1' is not a known provider; use one of {', '.join(PROVIDERS)}, "
                "or openai:llama3.1:8b for a model of that name at OPENAI_BASE_URL"
            ),
        ),
    ],
)
def test_what_cannot_be_chosen_is_told_in_one_sentence(environment, form, variables, sentence):
    with pytest.raises(ConfigurationError) as caught:
        create_provider(form, environment(**variables))
    assert str(caught.value) == sentence
    assert "0123456789" not in str(caught.value)


def test_a_provider_that_is_not_installed_says_how_to_install_it(environment, monkeypatch):
    for name in ("pydantic_ai", "interlock.models.pydantic_ai"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ConfigurationError) as caught:
        create_provider("anthropic:claude", environment())
    assert str(caught.value) == (
        "MODEL: anthropic:claude needs more packages: pip install 'interlock-runtime[providers]'"
    )


def test_choosing_loads_no_more_than_what_is_chosen():
    """The demo needs neither a network nor a large library."""
    code = (
        "import sys; from interlock.models.provider_factory import create_provider; "
        "from interlock.config.settings import Settings; create_provider('demo', Settings()); "
        "print([name for name in ('aiohttp', 'pydantic_ai', 'anthropic') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

"""From the words of the setting MODEL to a provider.

demo                    the built-in demo
scripted:FILE           does what a script says; scripted:[…] has the script in it
openai                  the model OPENAI_MODEL at OPENAI_BASE_URL
openai:NAME, NAME       another model there
json:FORM               any of these, for a model without function calling; json: alone is json:openai
PROVIDER:NAME           anthropic:…, google:… and the rest, with the extra `providers`
"""

from urllib.parse import urlsplit

from interlock.config.settings import Settings
from interlock.config.url_checks import is_loopback, reject_invalid_api_key, reject_unsafe_url
from interlock.core.errors import ConfigurationError
from interlock.models.provider import ModelProvider

DEMO, OPENAI, SCRIPTED, JSON = "demo", "openai", "scripted", "json"
# The providers of pydantic-ai that take a key from the environment. Other servers of OpenAI's protocol need
# none of this: they are named by OPENAI_BASE_URL.
PROVIDERS = (
    "anthropic",
    "bedrock",
    "cohere",
    "google",
    "google-cloud",
    "groq",
    "huggingface",
    "mistral",
    "openai-responses",
    "xai",
)
_PUBLIC = "https://api.openai.com"


def create_provider(form: str, settings: Settings) -> ModelProvider:
    """The provider of that name. It connects on the first request. Close it."""
    form = form.strip()
    kind, colon, rest = form.partition(":")
    rest = rest.strip()
    if not form:
        raise ConfigurationError("MODEL: is set but empty; use demo, openai, or PROVIDER:NAME")
    if form == DEMO:
        from interlock.models.demo import DemoProvider

        return DemoProvider()
    if kind == SCRIPTED:
        return _scripted(rest)
    if kind == JSON and colon:
        return _by_json(rest or OPENAI, settings)
    if not colon or kind == OPENAI:
        return _openai(rest if kind == OPENAI else form, settings)
    return _other(kind, rest)


def _scripted(source: str) -> ModelProvider:
    if not source:
        raise ConfigurationError("MODEL: scripted needs a script; write scripted:FILE")
    from interlock.models.script import read_script
    from interlock.models.scripted_provider import ScriptedProvider

    return ScriptedProvider(read_script(source))


def _by_json(form: str, settings: Settings) -> ModelProvider:
    if form.partition(":")[0] in (JSON, DEMO):
        raise ConfigurationError(f"MODEL: json:{form} is not valid; write json:NAME with a real model")
    from interlock.models.json_protocol import JsonProtocolProvider

    return JsonProtocolProvider(create_provider(form, settings))


def _openai(name: str, settings: Settings) -> ModelProvider:
    given = settings.openai
    model = name or given.model or ""
    if not model:
        raise ConfigurationError("MODEL: openai needs the name of a model; set OPENAI_MODEL")
    key = given.api_key.get_secret_value() if given.api_key is not None else ""
    if not key and given.base_url.startswith(_PUBLIC):
        raise ConfigurationError(
            f"MODEL: '{model}' at {given.base_url} needs a key; set OPENAI_API_KEY, or set "
            "OPENAI_BASE_URL to a server that needs none"
        )
    try:
        reject_unsafe_url(given.base_url, "OPENAI_BASE_URL", plain_http="")
        _refuse_open_key(given.base_url, key)
        reject_invalid_api_key(given.api_key, "OPENAI_API_KEY")
    except ValueError as error:
        raise ConfigurationError(str(error)) from None
    from interlock.models.openai_chat import ChatEndpointConfig, OpenAIChatProvider

    return OpenAIChatProvider(
        ChatEndpointConfig(given.base_url, model, key, idle_seconds=given.idle_seconds)
    )


def _refuse_open_key(base_url: str, key: str) -> None:
    """Refuse to send a key in plain http to another machine; without a key plain http is allowed."""
    parts = urlsplit(base_url)
    if key and parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        raise ValueError(
            "OPENAI_BASE_URL: plain http exposes the key on the network; use https, or unset "
            "OPENAI_API_KEY if that server needs none"
        )


def _other(provider: str, name: str) -> ModelProvider:
    if provider not in PROVIDERS:
        raise ConfigurationError(
            f"MODEL: '{provider}' is not a known provider; use one of {', '.join(PROVIDERS)}, or "
            f"openai:{provider}:{name} for a model of that name at OPENAI_BASE_URL"
        )
    if not name:
        raise ConfigurationError(f"MODEL: {provider} needs the name of a model; write {provider}:NAME")
    try:
        from interlock.models.pydantic_ai import open_provider
    except ImportError:
        raise ConfigurationError(
            f"MODEL: {provider}:{name} needs more packages: pip install 'interlock-runtime[providers]'"
        ) from None
    return open_provider(provider, name)

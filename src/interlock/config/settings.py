"""Every setting, in groups, composed in one root `Settings`.

A wrong value stops the start with a sentence that names its variable. Settings belong to the operator: they
are read once, from the environment, and nothing at run time can widen them.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails
from pydantic_settings import SettingsConfigDict

from interlock.config.database import DatabaseSettings
from interlock.config.directory_checks import symlinks_on_path
from interlock.config.gateway import GatewaySettings
from interlock.config.image import ImageSettings
from interlock.config.limits import TaskLimitSettings
from interlock.config.nats import NatsSettings
from interlock.config.openai import OpenAISettings
from interlock.config.proof import ProofSettings
from interlock.config.redaction import RedactionSettings
from interlock.config.session import SessionSettings
from interlock.config.settings_group import SettingsGroup, Words
from interlock.config.sources import given_variable_name, is_secret, secret_files, variable_name
from interlock.config.telegram import TelegramSettings
from interlock.config.tool import ToolSettings
from interlock.config.url_checks import reject_invalid_api_key, reject_unsafe_url
from interlock.config.worker import WorkerSettings
from interlock.core.errors import ConfigurationError
from interlock.core.validation_faults import describe_fault


def default_state_dir() -> Path:
    return _home_folder("XDG_STATE_HOME", ".local/state", "INTERLOCK_STATE_DIR")


def default_workspace_dir() -> Path:
    """Not below the working directory: people open that one to agents most often."""
    return _home_folder("XDG_DATA_HOME", ".local/share", "WORKSPACE_DIR")


def _home_folder(variable: str, usual: str, setting: str) -> Path:
    base = os.environ.get(variable)
    if base and Path(base).is_absolute():
        return Path(base) / "interlock"
    try:
        return Path.home() / usual / "interlock"
    except RuntimeError:
        raise ValueError(f"{setting} must be set, because this account has no home folder") from None


class Settings(SettingsGroup):
    """The root: all groups, and the checks between them."""

    database: DatabaseSettings = Field(default_factory=DatabaseSettings)
    openai: OpenAISettings = Field(default_factory=OpenAISettings)
    image: ImageSettings = Field(default_factory=ImageSettings)
    gateway: GatewaySettings = Field(default_factory=GatewaySettings)
    redaction: RedactionSettings = Field(default_factory=RedactionSettings)
    session: SessionSettings = Field(default_factory=SessionSettings)
    worker: WorkerSettings = Field(default_factory=WorkerSettings)
    nats: NatsSettings = Field(default_factory=NatsSettings)
    control: TaskLimitSettings = Field(default_factory=TaskLimitSettings)
    proof: ProofSettings = Field(default_factory=ProofSettings)
    tool: ToolSettings = Field(default_factory=ToolSettings)
    telegram: TelegramSettings = Field(default_factory=TelegramSettings)
    workspace_dir: Path = Field(default_factory=default_workspace_dir)
    state_dir: Path = Field(default_factory=default_state_dir, validation_alias="INTERLOCK_STATE_DIR")
    model: str = "demo"
    models: Words = ()
    context_tokens: Annotated[int, Field(ge=2_000, le=10_000_000)] = Field(
        default=100_000, validation_alias="MODEL_CONTEXT_TOKENS"
    )
    compaction: Literal["cut", "model"] = Field(default="cut", validation_alias="MODEL_COMPACTION")
    tool_choice: Literal["default", "auto", "required"] = Field(
        default="default", validation_alias="MODEL_TOOL_CHOICE"
    )
    retention_days: Annotated[int, Field(ge=1, le=36_500)] | None = Field(
        default=None, validation_alias="EVENT_RETENTION_DAYS"
    )
    log_level: Literal["debug", "info", "warning", "error"] = "warning"

    model_config = SettingsConfigDict(populate_by_name=True, validate_default=True)

    @field_validator("state_dir", "workspace_dir", mode="before")
    @classmethod
    def _not_empty(cls, value: Any) -> Any:
        if value == "":
            raise ValueError("is set but empty; unset it or name a folder")
        return value

    @field_validator("state_dir", "workspace_dir")
    @classmethod
    def _absolute(cls, value: Path) -> Path:
        if set(str(value)) & {"?", "#", "\0"}:
            raise ValueError(f"'{value}' contains a character that is not allowed (? or #)")
        try:
            return Path(os.path.normpath(Path.cwd() / value.expanduser()))
        except (OSError, RuntimeError) as error:
            raise ValueError(f"'{value}' cannot be made absolute: {error}") from None

    @model_validator(mode="after")
    def _nothing_precious_in_reach(self) -> "Settings":
        self.reject_sensitive_roots(
            self.tool.allowed_roots or (), given_variable_name("TOOL_ALLOWED_ROOTS")
        )
        self.reject_sensitive_roots(self.tool.readable_paths, given_variable_name("TOOL_READABLE_PATHS"))
        return self

    @model_validator(mode="after")
    def _many_machines_share_a_server(self) -> "Settings":
        if self.nats.url is not None and self.database_url.startswith("sqlite:"):
            raise ValueError(
                "NATS_URL needs a PostgreSQL database that all machines share: set DATABASE_URL, "
                "or unset NATS_URL"
            )
        return self

    @model_validator(mode="after")
    def _anchors_have_servers(self) -> "Settings":
        if self.nats.url is None and any(sink.startswith("nats:") for sink in self.proof.anchors):
            raise ValueError("EVENT_ANCHORS: nats: sends to the servers of NATS_URL, which is unset")
        return self

    @model_validator(mode="after")
    def _images_travel_safely(self) -> "Settings":
        allowing = "" if self.image.plain_http else "IMAGE_PLAIN_HTTP"
        reject_unsafe_url(self.image.base_url, "IMAGE_BASE_URL", plain_http=allowing)
        reject_invalid_api_key(self.image.api_key, "IMAGE_API_KEY")
        if self.image.model is not None:
            reject_invalid_api_key(self.openai.api_key, "OPENAI_API_KEY")
            if self.image.base_url is None:
                reject_unsafe_url(self.openai.base_url, "OPENAI_BASE_URL", plain_http=allowing)
        return self

    def reject_sensitive_roots(self, roots: Iterable[Path], named: str) -> None:
        """Refuse roots that overlap the audit log, the policy, definitions or secrets, whatever names the
        roots."""
        precious = {
            "state folder": self.state_dir,
            "agents folder": self.workspace_dir / "agents",
            "workflows folder": self.workspace_dir / "workflows",
            "memory folder": self.workspace_dir / "memory",
        }
        precious |= self._files_of_the_operator()
        if self.database_url.startswith("sqlite:///"):
            precious["database's folder"] = Path(self.database_url.removeprefix("sqlite:///")).parent
        for root in roots:
            for what, folder in precious.items():
                # `realpath` also accepts a symlink that leads to itself.
                real = Path(os.path.realpath(folder))
                within = [one for one in (real, *symlinks_on_path(folder)) if one.is_relative_to(root)]
                if within or root.is_relative_to(real):
                    raise ValueError(
                        f"{named}: {root} and the {what} ({(within or [real])[0]}) overlap; an "
                        "agent must not reach its own audit log, policy, definitions or secrets"
                    )

    def _files_of_the_operator(self) -> dict[str, Path]:
        """They decide what is masked and who is trusted, or prove what the log was."""
        named = {
            "file of REDACTION_RULES": self.redaction.rules,
            "file of TOOL_COMMAND_RULES": self.tool.command_rules,
            "file of GATEWAY_TLS_CERT": self.gateway.tls_cert,
            "file of GATEWAY_TLS_KEY": self.gateway.tls_key,
            "file of NATS_TLS_CA": self.nats.tls_ca,
        }
        secrets = {f"file of {name}": path for name, path in secret_files(_GROUPS.values())}
        anchors = {f"file {path} of EVENT_ANCHORS": path for path in self.proof.anchor_files}
        return {what: path for what, path in named.items() if path is not None} | secrets | anchors

    @property
    def database_url(self) -> str:
        if self.database.url is not None:
            return self.database.url.get_secret_value()
        return f"sqlite:///{self.state_dir / 'interlock.db'}"


def load_settings(*, state_dir: Path | None = None) -> Settings:
    """Read the settings of this process. Raises one sentence for each wrong variable."""
    try:
        return Settings() if state_dir is None else Settings(state_dir=state_dir)
    except ValidationError as error:
        raise ConfigurationError("; ".join(_sentences(error))) from None
    except ValueError as error:
        raise ConfigurationError(str(error)) from None


_GROUPS: dict[str, type[SettingsGroup]] = {
    group.__name__: group
    for group in (Settings, *(field.annotation for field in Settings.model_fields.values()))
    if isinstance(group, type) and issubclass(group, SettingsGroup)
}


def _sentences(error: ValidationError) -> list[str]:
    group = _GROUPS[error.title]
    return [_sentence(group, problem) for problem in error.errors(include_url=False)]


def _sentence(group: type[SettingsGroup], problem: ErrorDetails) -> str:
    """The problem in a sentence that names the variable that was set."""
    text = problem["msg"].removeprefix("Value error, ")
    if problem["type"] != "value_error" and (plain := describe_fault(problem)) is not None:
        text = f"it {plain}"
    field = str(problem["loc"][0]) if problem["loc"] else ""
    if field not in group.model_fields:
        return text if not field or text.startswith(field) else f"{field}: {text}"
    name = given_variable_name(variable_name(group, field))
    sentence = text if text.startswith(name) else f"{name}: {text}"
    given = problem["input"]
    if isinstance(given, str) and "'" not in text and not is_secret(group.model_fields[field]):
        sentence += f" (got '{given}')"
    return sentence

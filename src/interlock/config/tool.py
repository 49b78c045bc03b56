"""TOOL_* settings: roots, limits, sandbox and the operator's ceiling over the tool policy."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator
from pydantic_settings import NoDecode, SettingsConfigDict

from interlock.config.directory_checks import existing_directory, reject_symlinked_roots
from interlock.config.modes import ToolMode
from interlock.config.policy_variables import policy_variables
from interlock.config.protected_names import PROTECTED_NAMES
from interlock.config.settings_group import (
    PositiveInt,
    Words,
    blank_is_unset,
    parse_tool_modes,
    split_words,
)
from interlock.config.sources import given_variable_name

TOOL_PREFIX = "TOOL_"
_Ceiling = policy_variables(TOOL_PREFIX)


class ToolSettings(_Ceiling):  # type: ignore[valid-type, misc]
    """Limits and the operator's ceiling over the stored tool policy (unset: no ceiling)."""

    model_config = SettingsConfigDict(env_prefix=TOOL_PREFIX)

    allowed_roots: Annotated[tuple[Path, ...] | None, NoDecode] = None
    readable_paths: Annotated[tuple[Path, ...], NoDecode] = ()
    protected_names: Words = PROTECTED_NAMES
    hard_links: bool = False
    sandbox: Literal["auto", "landlock", "bubblewrap", "off"] = "auto"
    bash_denylist: Words = ()
    command_rules: Path | None = None

    timeout_seconds: Annotated[float, Field(gt=0)] = 30.0
    max_output_lines: PositiveInt = 2000
    max_output_bytes: PositiveInt = 51200

    kept_bytes: Annotated[int, Field(ge=0, le=2**40)] = 256 * 1024 * 1024

    modes: Words = ()

    @field_validator("allowed_roots", "readable_paths", mode="before")
    @classmethod
    def _folders(cls, value: Any, info: ValidationInfo) -> Any:
        if value is None:
            return None
        named = [Path(part) for part in split_words(value)]
        folders = tuple(dict.fromkeys(existing_directory(path) for path in named))
        reject_symlinked_roots(named, info.data.get("allowed_roots", folders) or ())
        return folders

    _blank_is_unset = field_validator("command_rules", mode="before")(blank_is_unset)

    @field_validator("command_rules")
    @classmethod
    def _existing_file(cls, value: Path | None) -> Path | None:
        if value is not None and not (value.is_absolute() and value.is_file()):
            raise ValueError(f"'{value}' is not the absolute path of a file")
        return value

    @field_validator("protected_names")
    @classmethod
    def _relative_names(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            if name.startswith("/") or not set(name.split("/")).isdisjoint({"", ".", ".."}):
                raise ValueError(f"'{name}' must be a name or a relative path without empty parts, . or ..")
        return value

    @field_validator("allowed_roots")
    @classmethod
    def _at_least_one_root(cls, value: tuple[Path, ...] | None) -> tuple[Path, ...] | None:
        if value == ():
            raise ValueError("is set but empty; unset it or list absolute folders")
        return value

    @field_validator("modes")
    @classmethod
    def _readable_modes(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        parse_tool_modes(value)
        return value

    @property
    def mode_overrides(self) -> dict[str, frozenset[ToolMode]]:
        """The modes that each tool named in TOOL_MODES is restricted to."""
        return parse_tool_modes(self.modes)

    @model_validator(mode="after")
    def _timeout_within_maximum(self) -> "ToolSettings":
        if self.timeout_seconds > self.max_timeout_seconds:
            usual, longest = (
                given_variable_name("TOOL_TIMEOUT_SECONDS"),
                given_variable_name("TOOL_MAX_TIMEOUT_SECONDS"),
            )
            raise ValueError(f"{usual} must not exceed {longest}")
        return self

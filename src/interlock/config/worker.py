"""How much a worker does at a time, and how long it waits for what should end."""

from typing import Annotated

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from interlock.config.group import PositiveInt, SettingsGroup

Grace = Annotated[float, Field(ge=0, le=3600)]


class WorkerSettings(SettingsGroup):
    model_config = SettingsConfigDict(env_prefix="WORKER_")

    sessions: PositiveInt = 32
    poll_seconds: Annotated[float, Field(ge=0.05, le=60)] = 1.0
    cancel_grace_seconds: Grace = 5.0
    stop_grace_seconds: Grace = 20.0

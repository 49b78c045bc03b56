"""How much a worker does at a time, and how long it waits for work to end.

How long a lease lasts is `SESSION_LEASE_SECONDS` in `session.py`: gateways and terminals take leases too.
"""

from typing import Annotated

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from interlock.config.settings_group import PositiveInt, SettingsGroup

Grace = Annotated[float, Field(ge=0, le=3600)]


class WorkerSettings(SettingsGroup):
    model_config = SettingsConfigDict(env_prefix="WORKER_")

    sessions: PositiveInt = 32
    poll_seconds: Annotated[float, Field(ge=0.05, le=60)] = 1.0
    cancel_grace_seconds: Grace = 5.0
    stop_grace_seconds: Grace = 20.0

    # For a supervisor and the worker processes it keeps running.
    stable_seconds: Annotated[float, Field(gt=0, le=3600)] = 30.0
    max_crashes: PositiveInt = 5
    restart_seconds: Annotated[float, Field(gt=0, le=3600)] = 0.5

"""The limits of a task with some of them changed, unchecked: a test may want fewer than an operator."""

from interlock.config.limits import TaskLimitSettings

_DEFAULTS = TaskLimitSettings()


def task_limits(**values: object) -> TaskLimitSettings:
    return _DEFAULTS.model_copy(update=values)

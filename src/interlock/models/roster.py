"""The models that may answer here: the one of the setting MODEL, and those of MODELS to choose from."""

from interlock.config.settings import Settings
from interlock.infra.errors import PersonError
from interlock.infra.text import quotable
from interlock.models.choose import choose_model
from interlock.models.provider import Provider


class ModelNotListed(PersonError):
    pass


class ModelRoster:
    """Each model is opened when it is first asked for, and once. Close it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._open: dict[str, Provider] = {}
        self.names = tuple(dict.fromkeys((settings.model.strip(), *settings.models)))

    @property
    def usual(self) -> str:
        return self.names[0]

    def listed(self, name: str) -> str:
        """The name, if the operator listed it: a person or an agent's file may not name any other."""
        if name not in self.names:
            raise ModelNotListed(
                f"the model '{quotable(name, 80)}' is not allowed here ({', '.join(self.names)}); "
                "the operator can add it to MODELS"
            )
        return name

    def open(self, name: str) -> Provider:
        provider = self._open.get(self.listed(name))
        if provider is None:
            provider = self._open[name] = choose_model(name, self._settings)
        return provider

    async def close(self) -> None:
        for provider in self._open.values():
            await provider.close()
        self._open.clear()

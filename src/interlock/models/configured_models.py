"""The models allowed here: the one of the setting MODEL, and those of MODELS to choose from."""

from interlock.config.settings import Settings
from interlock.core.errors import UserError
from interlock.core.text import safe_excerpt
from interlock.models.provider import ModelProvider
from interlock.models.provider_factory import create_provider


class ModelNotListed(UserError):
    pass


class ConfiguredModels:
    """Opens each model on first use, once. Close it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._open: dict[str, ModelProvider] = {}
        self.names = tuple(dict.fromkeys((settings.model.strip(), *settings.models)))

    @property
    def usual(self) -> str:
        return self.names[0]

    def listed(self, name: str) -> str:
        """The name, if the operator listed it: a person or an agent's file may not name any other."""
        if name not in self.names:
            raise ModelNotListed(
                f"the model '{safe_excerpt(name, 80)}' is not allowed here ({', '.join(self.names)}); "
                "the operator can add it to MODELS"
            )
        return name

    def open(self, name: str) -> ModelProvider:
        provider = self._open.get(self.listed(name))
        if provider is None:
            provider = self._open[name] = create_provider(name, self._settings)
        return provider

    async def close(self) -> None:
        for provider in self._open.values():
            await provider.close()
        self._open.clear()

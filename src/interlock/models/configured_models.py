"""The models allowed here: the one of the setting MODEL, and those of MODELS to choose from.

An entry of MODELS may be a chain, `A > B > C`: if A fails, B is tried, then C.
"""

from collections.abc import Collection, Sequence

from interlock.config.settings import Settings
from interlock.core.errors import ConfigurationError, UserError
from interlock.core.text import safe_excerpt
from interlock.models.provider import ModelError, ModelProvider
from interlock.models.provider_factory import create_provider


class ModelNotListed(UserError):
    pass


class ConfiguredModels:
    """Opens each model on first use, once. Close it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._open: dict[str, ModelProvider] = {}
        chains = [_parse_chain(entry) for entry in settings.models]
        self._fallbacks: dict[str, tuple[str, ...]] = {}
        for first, *rest in chains:
            if rest and first in self._fallbacks:
                raise ConfigurationError(f"MODELS: '{first}' begins two chains; write all in one")
            if rest:
                self._fallbacks[first] = tuple(rest)
        listed = (name for chain in chains for name in chain)
        self.names = tuple(dict.fromkeys((settings.model.strip(), *listed)))

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

    def fallbacks(self, name: str) -> tuple[str, ...]:
        """What to try in its place, in order."""
        return self._fallbacks.get(name, ())

    def open(self, name: str) -> ModelProvider:
        """The model of that name, opened with its fallbacks: an error in one is found at the start."""
        for each in (*self.fallbacks(name), self.listed(name)):
            if each not in self._open:
                self._open[each] = create_provider(each, self._settings)
        return self._open[name]

    async def close(self) -> None:
        for provider in self._open.values():
            await provider.close()
        self._open.clear()


def next_model(fallbacks: Sequence[str], error: ModelError, tried: Collection[str]) -> str | None:
    """The model to ask after one failed for good, or while its circuit is open; None to give up.

    A fault of the request would be the same with another model.
    """
    if error.fault.is_of_the_request:
        return None
    return next((name for name in fallbacks if name not in tried), None)


def _parse_chain(entry: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in entry.split(">"))
    if not all(names) or len(set(names)) < len(names):
        raise ConfigurationError(
            f"MODELS: '{safe_excerpt(entry, 200)}' is not a chain of different models; write A > B"
        )
    return names

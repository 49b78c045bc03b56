"""What is tried next when a model fails: what the operator listed, once each, and not for every fault."""

import pytest

from interlock.config.settings import Settings
from interlock.core.errors import ConfigurationError
from interlock.models.configured_models import ConfiguredModels, ModelNotListed, next_model
from interlock.models.provider import ModelError, ModelFault


def configured(monkeypatch, models: str) -> ConfiguredModels:
    monkeypatch.setenv("MODEL", "demo")
    monkeypatch.setenv("MODELS", models)
    return ConfiguredModels(Settings())


def test_a_chain_lists_its_models_and_says_what_follows_the_first(monkeypatch):
    models = configured(monkeypatch, "a > b>c, d, demo > a")
    assert models.names == ("demo", "a", "b", "c", "d")
    assert models.usual == "demo"
    assert [models.fallbacks(name) for name in models.names] == [("a",), ("b", "c"), (), (), ()]
    with pytest.raises(ModelNotListed):
        models.listed("a > b")


@pytest.mark.parametrize(
    ("models", "said"),
    [
        ("a > ", "'a >' is not a chain of different models"),
        ("> a", "is not a chain"),
        ("a > b > a", "is not a chain"),
        ("a > b, a > c", "'a' begins two chains"),
    ],
)
def test_a_chain_that_makes_no_sense_is_refused(monkeypatch, models, said):
    with pytest.raises(ConfigurationError, match="MODELS: ") as refused:
        configured(monkeypatch, models)
    assert said in str(refused.value)


def test_each_is_tried_once_in_order():
    down = ModelError(ModelFault.server, "down")
    assert next_model(("b", "c"), down, {"a"}) == "b"
    assert next_model(("b", "c"), down, {"a", "b"}) == "c"
    assert next_model(("b", "c"), down, {"a", "b", "c"}) is None
    assert next_model((), down, {"a"}) is None


@pytest.mark.parametrize("fault", ModelFault)
def test_a_fault_of_the_request_would_be_the_same_with_another_model(fault):
    is_of_the_request = fault in {ModelFault.invalid_request, ModelFault.too_long, ModelFault.validation}
    assert (next_model(("b",), ModelError(fault, "x"), {"a"}) is None) is is_of_the_request

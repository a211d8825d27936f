"""Names stand for one thing each, and for no code that was not asked for."""

from __future__ import annotations

from typing import Any

import pytest

from selc.errors import ConfigError
from selc.methods import METHODS, Method
from selc.registry import Registry


def test_a_known_name_is_not_replaced() -> None:
    before = METHODS["ce"]
    with pytest.raises(ConfigError, match=r"the name of a new method must be free; got 'ce', which is known already"):

        @METHODS.register("ce")
        class Another(Method):
            pass

    assert METHODS["ce"] is before


def test_a_definition_that_is_read_again_takes_the_place_of_its_older_self() -> None:
    """As a notebook does when a cell is run twice."""
    registry: Registry[Any] = Registry("thing")

    def defined(value: int) -> Any:
        def thing() -> int:
            return value

        return thing

    registry.register("mine")(defined(1))
    registry.register("mine")(defined(2))
    assert registry["mine"]() == 2


@pytest.mark.parametrize("name", ["import:os:system", "os.system", "a b", "", "-x", "a/b", "x:y"])
def test_a_name_is_a_plain_word(name: str) -> None:
    with pytest.raises(ConfigError, match="the name of a thing must be letters, digits"):
        Registry[Any]("thing").register(name)


def test_options_without_a_declared_type_are_taken_as_they_are() -> None:
    registry: Registry[Any] = Registry("thing")

    @registry.register("loose")
    def loose(*, width=3, depth: int = 1):  # type: ignore[no-untyped-def]
        return width, depth

    assert registry.checked("loose", {"width": "wide", "depth": "2"}) == {"width": "wide", "depth": 2}


def test_a_registry_that_imports_nothing_refuses_a_place_in_code() -> None:
    registry: Registry[Any] = Registry("thing")
    assert "import:os:system" not in registry
    with pytest.raises(ConfigError, match="thing must be one of"):
        registry["import:os:system"]

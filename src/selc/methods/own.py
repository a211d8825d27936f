"""A method of the user's own, by the place that it is imported from: the same rules as for networks."""

from __future__ import annotations

import inspect

from selc.errors import ConfigError
from selc.methods.base import METHODS, Method
from selc.nets.own import imported

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def find(name: str) -> type[Method]:
    """The class that ``name`` points at."""
    thing = imported(name, "method", "import:mymethods:Halved")
    if not (inspect.isclass(thing) and issubclass(thing, Method)):
        got = thing.__name__ if inspect.isclass(thing) else f"an object of type {type(thing).__name__}"
        raise ConfigError(f"method {name} must be a class that extends selc.methods.Method; got {got}.")
    for option in inspect.signature(thing).parameters.values():
        if option.kind in _POSITIONAL:
            raise ConfigError(
                f"the options of method {name} must be keyword-only; got {option.name!r}. Put a star before them: "
                f"def __init__(self, *, {option.name}=...)."
            )
    for verb in ("setup", "check"):
        asked = inspect.signature(getattr(thing, verb))
        try:
            asked.bind("the method", "the data", "the plan")
        except TypeError:
            raise ConfigError(
                f"{verb} of method {name} must take the data and the plan of a stage; got {verb}{asked}. "
                f"Write it as def {verb}(self, data, plan): plan has epochs, batch_size and seed."
            ) from None
    kind: type[Method] = thing
    return kind


METHODS.imports(find)

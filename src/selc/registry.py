"""Things that are known by name: methods, networks, noise models, datasets."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar, get_type_hints

from pydantic import TypeAdapter, ValidationError

from selc.errors import ConfigError, unknown

T = TypeVar("T", bound=Callable[..., Any])


class Registry(Generic[T]):
    """Names and what they build. The name is the constructor; its keyword arguments are the options."""

    def __init__(self, what: str) -> None:
        self.what = what
        self._entries: dict[str, T] = {}

    def register(self, name: str) -> Callable[[T], T]:
        def add(entry: T) -> T:
            self._entries[name] = entry
            return entry

        return add

    def __getitem__(self, name: str) -> T:
        if name not in self._entries:
            raise unknown(self.what, name, self._entries)
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._entries))

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def describe(self, name: str) -> str:
        """The first line of the documentation."""
        return (inspect.getdoc(self[name]) or "").split("\n")[0]

    def defaults(self, name: str) -> dict[str, Any]:
        """The options and their defaults."""
        return {k: p.default for k, p in keyword_options(self[name]).items() if p.default is not p.empty}

    def checked(self, name: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """``options`` converted to the declared types, or an error that says which one is wrong."""
        entry = self[name]
        known = keyword_options(entry)
        hints = get_type_hints(entry.__init__ if inspect.isclass(entry) else entry)
        result = {}
        for key, value in options.items():
            if key not in known:
                raise unknown(f"an option of {self.what} {name!r}", key, known)
            try:
                result[key] = TypeAdapter(hints[key]).validate_python(value)
            except ValidationError as error:
                reason = error.errors()[0]["msg"]
                raise ConfigError(f"{key} of {self.what} {name!r} is not valid; got {value!r}. {reason}.") from None
        return result


def keyword_options(entry: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """The keyword-only parameters: what a user may set. Positional ones are supplied by the program."""
    parameters = inspect.signature(entry).parameters
    return {k: p for k, p in parameters.items() if p.kind is p.KEYWORD_ONLY}

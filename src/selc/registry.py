"""Things that are known by name: methods, networks, noise models, datasets."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Generic, TypeVar, get_type_hints

from pydantic import TypeAdapter, ValidationError

from selc.errors import ConfigError, unknown

T = TypeVar("T", bound=Callable[..., Any])
IMPORT = "import:"  # spelled out, because importing a module runs its code: no name of ours does that by accident
_NAME = re.compile(r"\w[\w+-]*")


class Registry(Generic[T]):
    """Names and what they build. The name is the constructor; its keyword arguments are the options."""

    def __init__(self, what: str) -> None:
        self.what = what
        self._entries: dict[str, T] = {}
        self._find: Callable[[str], T] | None = None

    def register(self, name: str) -> Callable[[T], T]:
        """A decorator that makes an entry known by ``name``, which nothing else is known by."""
        if not is_name(name):
            raise ConfigError(f"the name of a {self.what} must be letters, digits, -, + and _; got {name!r}.")

        def add(entry: T) -> T:
            if name in self._entries and not _same(self._entries[name], entry):
                raise ConfigError(
                    f"the name of a new {self.what} must be free; got {name!r}, which is known already. Take another."
                )
            self._entries[name] = entry
            return entry

        return add

    def imports(self, find: Callable[[str], T]) -> None:
        """Let ``import:package.module:attribute`` name an entry of the user's own, which ``find`` looks up."""
        self._find = find

    def __getitem__(self, name: str) -> T:
        if self._find is not None and is_import(name):
            return self._find(name)
        if name not in self._entries:
            raise unknown(self.what, name, self._entries)
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._entries))

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, name: object) -> bool:
        own = self._find is not None and isinstance(name, str) and is_import(name)
        return own or name in self._entries

    def describe(self, name: str) -> str:
        """The first line of the documentation."""
        return (inspect.getdoc(self[name]) or "").split("\n")[0]

    def more(self, name: str) -> str:
        """What the documentation says after its first line."""
        return (inspect.getdoc(self[name]) or "").partition("\n")[2].strip("\n")

    def defaults(self, name: str) -> dict[str, Any]:
        """The options and their defaults."""
        return {k: p.default for k, p in keyword_options(self[name]).items() if p.default is not p.empty}

    def checked(self, name: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """``options`` converted to the declared types, or an error that says which one is wrong."""
        entry = self[name]
        known = keyword_options(entry)
        result = {}
        for key, value in options.items():
            if key not in known:
                raise unknown(f"an option of {self.what} {name!r}", key, known)
            try:
                result[key] = _validator(entry, key).validate_python(value)
            except ValidationError as error:
                reason = error.errors()[0]["msg"]
                raise ConfigError(f"{key} of {self.what} {name!r} is not valid; got {value!r}. {reason}.") from None
        return result


def is_name(name: str) -> bool:
    """Whether something could be registered as ``name``: a plain word, which stands for no code."""
    return _NAME.fullmatch(name) is not None


def is_import(name: str) -> bool:
    return name.startswith(IMPORT)


def _same(known: object, new: object) -> bool:
    """Whether a module was merely read again, as notebooks do: the same name in the same place."""
    places = [(getattr(entry, "__module__", None), getattr(entry, "__qualname__", None)) for entry in (known, new)]
    return places[0] == places[1] and None not in places[0]


@lru_cache(maxsize=1024)  # a table of the paper is a thousand configurations, each with the same few entries
def _validator(entry: Callable[..., Any], option: str) -> TypeAdapter[Any]:
    """What checks a value of an option and converts it."""
    return TypeAdapter(_hints(entry).get(option, Any))


def _hints(entry: Callable[..., Any]) -> dict[str, Any]:
    """The declared types of the options; those of the user's own code need not be there, or be known here."""
    try:
        return get_type_hints(entry.__init__ if inspect.isclass(entry) else entry)
    except (NameError, TypeError):
        return {}


@lru_cache(maxsize=1024)
def keyword_options(entry: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """The keyword-only parameters: what a user may set. Positional ones are supplied by the program."""
    parameters = inspect.signature(entry).parameters
    return MappingProxyType({k: p for k, p in parameters.items() if p.kind is p.KEYWORD_ONLY})

"""The configuration of a run: every setting spelled out, as a TOML file that can be loaded again."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomli_w
from pydantic import BaseModel, ConfigDict, ValidationError

from selc.data import DATASETS
from selc.data.base import Recipe
from selc.errors import ConfigError, unknown
from selc.files import write_text
from selc.methods import METHODS
from selc.nets import NETS
from selc.noise import NOISES
from selc.registry import Registry
from selc.train import Plan

ARRAYS = "arrays"  # the data of a run that was started from Python with arrays in memory


class Choice(BaseModel):
    """Something by name, with its options."""

    model_config = ConfigDict(frozen=True, extra="allow")
    name: str

    @property
    def options(self) -> dict[str, Any]:
        return dict(self.model_extra or {})


class Config(BaseModel):
    """Everything that a run depends on."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    data: str
    noise: Choice
    method: Choice
    net: Choice
    train: Plan

    @classmethod
    def resolve(cls, settings: Mapping[str, Any], recipe: Recipe | None = None) -> Config:
        """Spell out every setting: what the user said, else what suits the data, else the default."""
        settings = dict(settings)
        data = settings.pop("data", "digits")
        if recipe is None:
            recipe = DATASETS[data]().recipe
        method = _choice(METHODS, settings.pop("method", {}), "selc", {"start": recipe.start})
        resolved = {
            "data": data,
            "noise": _choice(NOISES, settings.pop("noise", {}), "none"),
            "method": method,
            "net": _choice(NETS, settings.pop("net", {}), recipe.net),
            "train": _plan(dict(settings.pop("train", {})), recipe),
        }
        if settings:
            raise unknown("a section of the configuration", next(iter(settings)), resolved)
        return cls.model_validate(resolved)

    @classmethod
    def load(cls, path: Path) -> Config:
        """Read a configuration file."""
        try:
            settings = tomllib.loads(path.read_text())
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise ConfigError(f"{path} must be a readable TOML file; got: {error}.") from None
        recipe = Recipe() if settings.get("data") == ARRAYS else None
        return cls.resolve(settings, recipe)

    def save(self, path: Path) -> None:
        write_text(path, tomli_w.dumps(self.model_dump(mode="json")))

    def fingerprint(self, labels_digest: str) -> str:
        """A hash of what the result depends on: not the device, nor whether the network was compiled."""
        content = self.model_dump(mode="json")
        for free in ("device", "compile"):
            del content["train"][free]
        text = json.dumps([content, labels_digest], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


def _choice(
    registry: Registry[Any], given: Mapping[str, Any], default: str, suits: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    options = dict(given)
    name = options.pop("name", default)
    defaults = registry.defaults(name)
    suited = {k: v for k, v in (suits or {}).items() if k in defaults}
    return {"name": name, **defaults, **suited, **registry.checked(name, options)}


def _plan(given: dict[str, Any], recipe: Recipe) -> dict[str, Any]:
    for key in given:
        if key not in Plan.model_fields:
            raise unknown("a setting of [train]", key, Plan.model_fields)
    merged = {**recipe.plan, **given}
    # A shard gives a batch several rows, so that mixup finds a partner.
    merged.setdefault("shards", max(1, min(8, int(merged.get("batch_size", 128)) // 4)))
    return checked_plan(merged).model_dump()


def checked_plan(settings: Mapping[str, Any]) -> Plan:
    try:
        return Plan.model_validate(settings)
    except ValidationError as error:
        first = error.errors()[0]
        if "error" in (context := first.get("ctx", {})) and isinstance(context["error"], ConfigError):
            raise context["error"] from None
        where = ".".join(map(str, first["loc"]))
        what = first["msg"].replace("Input should be", "must be")
        raise ConfigError(f"{where} {what}; got {first['input']!r}.") from None

"""The configuration of a run: every setting spelled out, as a TOML file that can be loaded again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import tomli_w
import torch
from pydantic import BaseModel, ConfigDict, ValidationError

from selc.data import DATASETS, RECIPES, Recipe
from selc.errors import ConfigError, unknown
from selc.files import read_toml, write_text
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


class LabelSource(BaseModel):
    """Where the labels come from: the data (no path), or the run at ``path``, hard or soft."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    path: str = ""
    kind: Literal["hard", "soft"] = "hard"


class Config(BaseModel):
    """Everything that a run depends on."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    data: Choice
    labels: LabelSource = LabelSource()
    noise: Choice
    method: Choice
    net: Choice
    train: Plan

    @classmethod
    def resolve(cls, settings: Mapping[str, Any], recipe: Recipe | None = None) -> Config:
        """Spell out every setting: what the user said, else what suits the data, else the default.

        ``recipe`` is what suits the data where that was read off the data itself.
        """
        settings = dict(settings)
        data = settings.pop("data", "digits")
        chosen = _choice(DATASETS, {"name": data} if isinstance(data, str) else data, "digits")
        recipe = recipe or RECIPES[chosen["name"]]
        labels = _labels(settings.pop("labels", {}))
        resolved: dict[str, Any] = {
            "data": chosen,
            "labels": labels,
            "noise": _choice(NOISES, settings.pop("noise", {}), "none"),
            "method": _choice(METHODS, settings.pop("method", {}), "selc"),
            "net": _choice(NETS, settings.pop("net", {}), recipe.net),
            "train": resolve_plan(settings.pop("train", {}), recipe),
        }
        if labels.path and resolved["noise"]["name"] != "none":
            raise ConfigError(
                "--labels and --noise must not come together: noise would be drawn on the corrected labels; got both. "
                "Leave one out."
            )
        if settings:
            raise unknown("a section of the configuration", next(iter(settings)), resolved)
        return cls.model_validate(resolved)

    @classmethod
    def load(cls, path: Path) -> Config:
        """Read a configuration file."""
        settings = read_toml(path)
        if settings.get("data") in (
            ARRAYS,
            {"name": ARRAYS},
        ):  # it may name a method and a network that only the caller has
            return cls.model_validate(settings)
        return cls.resolve(settings)

    def save(self, path: Path) -> None:
        write_text(path, tomli_w.dumps(self.model_dump(mode="json")))

    def fingerprint(self, labels_digest: str) -> str:
        """A hash of what the result depends on: not where and how fast it is computed."""
        content = self.model_dump(mode="json")
        for free in ("device", "compile", "threads", "engine"):
            del content["train"][free]
        text = json.dumps([content, labels_digest], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


def _labels(given: Mapping[str, Any]) -> LabelSource:
    for key in given:
        if key not in LabelSource.model_fields:
            raise unknown("a setting of [labels]", key, LabelSource.model_fields)
    try:
        return LabelSource.model_validate(given)
    except ValidationError as error:
        raise ConfigError(f"[labels] is not valid: {error.errors()[0]['msg']}; got {dict(given)!r}.") from None


def _choice(registry: Registry[Any], given: Mapping[str, Any], default: str) -> dict[str, Any]:
    options = dict(given)
    name = options.pop("name", default)
    return {"name": name, **registry.checked(name, {**registry.defaults(name), **options})}


def resolve_plan(given: Mapping[str, Any], recipe: Recipe) -> Plan:
    """The plan with every setting spelled out, or an error that says which one is wrong."""
    for key in given:
        if key not in Plan.model_fields:
            raise unknown("a setting of [train]", key, Plan.model_fields)
    merged = {**recipe.plan, **given}
    # The number of threads can show in the last bit of a sum: spell it out, so that a resumed run has the same.
    merged["threads"] = merged.get("threads") or torch.get_num_threads()
    try:
        plan = Plan.model_validate(merged)
    except ValidationError as error:
        first = error.errors()[0]
        if isinstance(own := first.get("ctx", {}).get("error"), ConfigError):
            raise own from None
        where = ".".join(map(str, first["loc"]))
        what = first["msg"].replace("Input should be", "must be")
        raise ConfigError(f"{where} {what}; got {first['input']!r}.") from None
    if "shards" in given:
        return plan
    # A shard gives a batch several rows, so that mixup finds a partner.
    return plan.model_copy(update={"shards": max(1, min(plan.shards, plan.batch_size // 4))})

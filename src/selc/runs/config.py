"""The configuration of a run: every setting spelled out, as a TOML file that can be loaded again."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

import tomli_w
import torch
from pydantic import BaseModel, ConfigDict, ValidationError

from selc._io.files import in_short, read_toml, write_text
from selc.classifiers import checked as checked_classifier
from selc.classifiers import is_classifier_name
from selc.data import DATASETS, RECIPES, Recipe
from selc.encoders import ENCODERS, NONE
from selc.errors import ConfigError, unknown
from selc.methods import METHODS
from selc.nets import NETS
from selc.noise import NOISES
from selc.registry import Registry, is_import, is_name
from selc.training import Plan
from selc.training.metrics import chosen

ARRAYS = "arrays"  # the data of a run that was started from Python with arrays in memory
OUT_OF_FOLD = "out-of-fold"  # the method of a run with a classifier of scikit-learn
_OF_CLASSIFIERS = ("seed", "device", "metrics", "threads")  # what of a plan is not about training a network


class Choice(BaseModel):
    """Something by name, with its options."""

    model_config = ConfigDict(frozen=True, extra="allow")
    name: str

    @property
    def options(self) -> dict[str, Any]:
        return dict(self.model_extra or {})


class LabelSource(BaseModel):
    """Where the labels come from: the data (no path), or the run at ``path``, hard or soft; and verdicts on them."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    path: str = ""
    kind: Literal["hard", "soft"] = "hard"
    verified: str = ""  # a decisions.json, whose labels are never changed


class Config(BaseModel):
    """Everything that a run depends on; ``config.toml`` in a run folder.

    Attributes
    ----------
    data, noise, method, net : Choice
        Each a ``name`` and its ``options``.
    labels : LabelSource
        Where the labels come from, if not from the data.
    train : Plan
        How to train.

    Examples
    --------
    What is not said is spelled out:

    >>> import selc
    >>> config = selc.Config.resolve({"data": "digits", "method": {"name": "gce", "q": 0.5}, "train": {"epochs": 20}})
    >>> config.method.options["q"], config.net.name, config.train.epochs
    (0.5, 'mlp', 20)
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    data: Choice
    encoder: Choice = Choice(name=NONE)  # what makes features of images; none: the network sees them
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
        config = cls._spelled_out(settings, recipe, _choice)
        chosen(config.train.metrics)
        return config

    @classmethod
    def _spelled_out(cls, settings: Mapping[str, Any], recipe: Recipe | None, choice: _Chooser) -> Config:
        settings = dict(settings)
        data = settings.pop("data", "digits")
        chosen = choice(DATASETS, {"name": data} if isinstance(data, str) else data, "digits")
        recipe = recipe or RECIPES.get(chosen["name"]) or Recipe()
        labels = _labels(settings.pop("labels", {}))
        net = choice(NETS, settings.pop("net", {}), recipe.net)
        method = _of_classifier(settings, net["name"]) if is_classifier_name(net["name"]) else None
        resolved: dict[str, Any] = {
            "data": chosen,
            "encoder": _encoder(choice, settings.pop("encoder", {})),
            "labels": labels,
            "noise": choice(NOISES, settings.pop("noise", {}), "none"),
            "method": method or choice(METHODS, settings.pop("method", {}), "selc"),
            "net": net,
            "train": resolve_plan(settings.pop("train", {}), recipe),
        }
        if labels.path and resolved["noise"]["name"] != "none":
            raise ConfigError(
                "--labels and --noise must not come together: noise would be drawn on the corrected labels; got both. "
                "Leave one out."
            )
        if settings:
            raise unknown("a section of the configuration", next(iter(settings)), resolved)
        config = _validated(cls, resolved, "the configuration")
        _check_finite(config.model_dump(), "a setting")
        return config

    @classmethod
    def load(cls, path: Path) -> Config:
        """Read the configuration of a run, also of one with names that only the program knew that made it.

        A file is not the user: nothing that it names is imported before somebody asks for it.
        """
        settings = read_toml(path)
        if settings.get("data") in (
            ARRAYS,
            {"name": ARRAYS},
        ):  # it may name a method and a network that only the caller has
            config = _validated(cls, settings, str(path))
            _check_finite(config.model_dump(), f"a setting in {path}")
            return config
        return cls._spelled_out(settings, None, _as_written)

    def check_trusted(self, folder: Path, trust: bool, *, measures: bool = False) -> None:
        """Refuse to use what somebody else may have chosen the code of; ``trust`` is the word of the user.

        ``measures`` says that metrics will be used as well.
        """
        metrics = [("metric", name) for name in self.train.metrics if measures]
        named = (("encoder", self.encoder.name), ("network", self.net.name), ("method", self.method.name), *metrics)
        for what, name in named:
            if is_import(name) and not trust:
                raise ConfigError(
                    f"{folder} is a run of the {what} {name}, and to use it that module is imported, which "
                    "runs its code; got no --trust (trust=True). Give it if you know where the folder and the module "
                    "come from."
                )

    def save(self, path: Path) -> None:
        write_text(path, tomli_w.dumps(self.model_dump(mode="json")))

    def fingerprint(self, labels_digest: str) -> str:
        """A hash of what the result depends on: not where and how fast it is computed."""
        content = self.model_dump(mode="json")
        for free in ("device", "compile", "threads", "engine", "metrics"):
            del content["train"][free]
        # Runs from before there were verdicts and encoders can be gone on with.
        if not content["labels"]["verified"]:
            del content["labels"]["verified"]  # runs from before there were verdicts can be gone on with
        if content["data"].get("text_model") == "auto":
            del content["data"]["text_model"]  # so can those from before there was a choice
        if self.encoder.name == NONE:
            del content["encoder"]
        text = json.dumps([content, labels_digest], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


M = TypeVar("M", bound=BaseModel)


def _validated(kind: type[M], settings: Mapping[str, Any], what: str) -> M:
    try:
        return kind.model_validate(settings)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "it"
        raise ConfigError(f"{what} is not valid: {where}: {in_short(ValueError(first['msg']))}.") from None


def _table(given: Any, section: str) -> dict[str, Any]:
    """A section with its settings by name."""
    if not isinstance(given, Mapping):
        raise ConfigError(f"[{section}] must be a table of settings by name; got {shown(given)}.")
    return dict(given)


def _check_finite(value: Any, where: str) -> None:
    """Refuse what is no number: it could not be stored and loaded again."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(f"{where} must be a finite number; got {value}.")
    if isinstance(value, dict):
        for key, item in value.items():
            _check_finite(item, str(key))
    elif isinstance(value, list | tuple):
        for item in value:
            _check_finite(item, where)


def shown(value: Any) -> str:
    """A value of a file for a sentence; a long one is cut."""
    text = repr(value)
    return text if len(text) <= 80 else text[:79] + "…"


def _labels(given: Any) -> LabelSource:
    given = _table(given, "labels")
    for key in given:
        if key not in LabelSource.model_fields:
            raise unknown("a setting of [labels]", key, LabelSource.model_fields)
    try:
        return LabelSource.model_validate(given)
    except ValidationError as error:
        raise ConfigError(f"[labels] is not valid: {error.errors()[0]['msg']}; got {shown(given)}.") from None


_Chooser = Callable[[Registry[Any], Any, str], dict[str, Any]]


def _encoder(choice: _Chooser, given: Any) -> dict[str, Any]:
    section = {"name": given} if isinstance(given, str) else given
    if section in ({}, {"name": NONE}):
        return {"name": NONE}
    return choice(ENCODERS, section, NONE)


def _of_classifier(settings: dict[str, Any], net: str) -> dict[str, Any]:
    """The method of a classifier of scikit-learn, taken out of the settings; what only networks have is an error."""
    given = _table(settings.pop("method", {}), "method").get("name")
    if given not in (None, OUT_OF_FOLD, "selc"):
        raise ConfigError(
            f"--method must be left out with --net {net}, by which labels are judged out of fold; got {given}."
        )
    for_networks = [key for key in _table(settings.get("train", {}), "train") if key not in _OF_CLASSIFIERS]
    if given != OUT_OF_FOLD and for_networks:  # the file of such a run spells out every setting
        raise ConfigError(
            f"train.{for_networks[0]} must be left out with --net {net}, which is fitted and not trained in epochs; "
            "got it. Settings of its own are given by --set net.NAME=VALUE."
        )
    return {"name": OUT_OF_FOLD}


def _choice(registry: Registry[Any], given: Any, default: str) -> dict[str, Any]:
    """What a section chooses, with every option spelled out."""
    name, options = _named(registry, given, default)
    if registry is NETS and is_classifier_name(name):
        return {"name": name, **checked_classifier(name, options)}
    return {"name": name, **registry.checked(name, {**registry.defaults(name), **options})}


def _as_written(registry: Registry[Any], given: Any, default: str) -> dict[str, Any]:
    """The same; code of the user's own, and a name that is not known here, are left as they are."""
    name, options = _named(registry, given, default)
    if is_import(name) or (name not in registry and (is_name(name) or is_classifier_name(name))):
        return {"name": name, **options}
    return _choice(registry, given, default)


def _named(registry: Registry[Any], given: Any, default: str) -> tuple[str, dict[str, Any]]:
    options = _table(given, registry.what)
    name = options.pop("name", default)
    if not isinstance(name, str):
        raise ConfigError(f"the name in [{registry.what}] must be a text; got {shown(name)}.")
    return name, options


def resolve_plan(given: Any, recipe: Recipe) -> Plan:
    """The plan with every setting spelled out, or an error that says which one is wrong."""
    given = _table(given, "train")
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
        raise ConfigError(f"{where} {what}; got {shown(first['input'])}.") from None
    if "shards" in given:
        return plan
    # A shard gives a batch several rows, so that mixup finds a partner.
    return plan.model_copy(update={"shards": max(1, min(plan.shards, plan.batch_size // 4))})

"""Several kinds of noise, one after another."""

from __future__ import annotations

from typing import Any

from torch import Generator, Tensor

from selc.errors import ConfigError
from selc.noise.base import NOISES, Noise, Supply, apply, check, measured


@NOISES.register("hybrid")
def hybrid(
    labels: Tensor, num_classes: int, rng: Generator, supply: Supply, *, steps: tuple[dict[str, Any], ...] = ()
) -> Noise:
    """Several kinds of noise one after another, each on the labels that the one before it left.

    ``steps`` is a list of tables with the ``name`` of a noise and its options. Rate and matrix compare the last labels
    with those before the first step. What a network supplies was learnt from the latter.
    """
    plan = [(_name(step), {k: v for k, v in step.items() if k != "name"}) for step in steps]
    if not plan:
        raise ConfigError('hybrid noise needs steps, such as steps=[{name="pair", rate=0.2}, ...]; got none.')
    for name, options in plan:
        check(name, options, supply)  # all of them, before the first is drawn: a teacher may take hours
    noise = measured(labels, labels.clone(), num_classes)
    facts: dict[str, float] = {}
    for number, (name, options) in enumerate(plan, 1):
        noise = apply(name, noise.labels, num_classes, rng, options, supply)
        facts |= {f"step{number}.{key}": value for key, value in noise.facts.items()}
        facts[f"step{number}.rate"] = noise.rate
    return measured(labels, noise.labels, num_classes)._replace(facts=facts)


def _name(step: dict[str, Any]) -> str:
    name = step.get("name")
    if not isinstance(name, str):
        raise ConfigError(f"each step of hybrid noise must be a table with the name of a noise; got {step!r}.")
    return name

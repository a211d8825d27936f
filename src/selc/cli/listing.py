"""`selc list`: what is known by name."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from selc.cli.common import speaking


class Kind(StrEnum):
    METHODS = "methods"
    NETS = "nets"
    NOISE = "noise"
    DATASETS = "datasets"
    METRICS = "metrics"
    ENCODERS = "encoders"
    TOOLS = "tools"
    TRACKERS = "trackers"


def list_(
    kind: Annotated[Kind, typer.Argument(help="What to list.")],
    name: Annotated[str | None, typer.Argument(help="Tell more about this one: its options, its size.")] = None,
) -> None:
    """Show what is known by name; with a name, all about that one."""
    with speaking():
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        from selc.data import DATASETS
        from selc.encoders import ENCODERS
        from selc.errors import unknown
        from selc.integrations.trackers import TRACKERS
        from selc.methods import METHODS
        from selc.nets import NETS
        from selc.noise import NOISES
        from selc.registry import Registry
        from selc.review.exchange import TOOLS
        from selc.training.metrics import METRICS

        registries: dict[Kind, Registry[Any]] = {
            Kind.METHODS: METHODS,
            Kind.NETS: NETS,
            Kind.NOISE: NOISES,
            Kind.DATASETS: DATASETS,
            Kind.METRICS: METRICS,
            Kind.ENCODERS: ENCODERS,
            Kind.TOOLS: TOOLS,
            Kind.TRACKERS: TRACKERS,
        }
        registry = registries[kind]
        if name is not None and name not in [*registry]:
            raise unknown(f"the name of one of the {kind}", name, registry)
        table = Table(box=None, pad_edge=False, show_header=name is None and kind in (Kind.METHODS, Kind.ENCODERS))
        table.add_column("name", style="bold", no_wrap=True)
        table.add_column("what it is")
        if name is not None:
            for what, text in {name: registry.describe(name), **_facts(kind, registry, name)}.items():
                table.add_row(what, Text(text))  # brackets are no markup
        elif kind is Kind.METHODS:
            table.add_column("time of CE", justify="right", no_wrap=True)
            for each in registry:
                table.add_row(each, Text(registry.describe(each)), f"{registry[each].cost:.1f} x")
        elif kind is Kind.ENCODERS:
            table.add_column("here", no_wrap=True)
            for each in registry:
                table.add_row(each, Text(registry.describe(each)), _here(each))
        else:
            for each in registry:
                table.add_row(each, Text(registry.describe(each)))
        console = Console(highlight=False)
        console.print(table)
        if name is None:
            console.print(f"\nAll about one of them: selc list {kind} {next(iter(registry))}", markup=False)


def _facts(kind: Kind, registry: Any, name: str) -> dict[str, str]:
    """What else is known of one: of a method its demands, of a published dataset the paper's Table 7, its options."""
    from selc.data import FACTS

    facts: dict[str, str] = {}
    if kind is Kind.METHODS:
        method = registry[name]
        facts = {
            "family": method.family,
            "needs": method.needs or "nothing",
            "time": f"{method.cost:.1f} x that of CE",
            "processes": "one or many" if method.parallel else "one",
        }
    elif kind is Kind.DATASETS and name in FACTS:
        about = FACTS[name]
        sizes = {"train": about.train, "val": about.val, "test": about.test, "classes": about.classes}
        facts = {what: f"{count:,}" for what, count in sizes.items() if count}
        facts |= {"input": about.size, "wrong labels": f"{about.noise} %" if about.noise not in ("", "-") else "-"}
    elif kind is Kind.ENCODERS:
        encoder = registry.about[name]
        facts = {"here": _here(name), "licence of the weights": encoder.licence, "how to get it": encoder.install}
    options = registry.defaults(name)
    facts["options"] = "\n".join(f"{key}={value}" for key, value in options.items()) or "none"
    return facts


def _here(encoder: str) -> str:
    """Whether an encoder is installed, and whether it is the one that is taken by itself."""
    from selc.encoders import ENCODERS, best

    return "default" if encoder == best() else "yes" if ENCODERS.about[encoder].there() else "no"

"""`selc list`: what is known by name."""

from __future__ import annotations

from enum import StrEnum
from textwrap import fill
from typing import Annotated, Any

import typer

from selc.cli.common import speaking
from selc.cli.ending import say
from selc.errors import unknown


class Kind(StrEnum):
    METHODS = "methods"
    NETS = "nets"
    NOISE = "noise"
    DATASETS = "datasets"
    METRICS = "metrics"
    ENCODERS = "encoders"
    TOOLS = "tools"
    TRACKERS = "trackers"


WHAT_FOR = {
    Kind.METHODS: "how to train on wrong labels: --method",
    Kind.NETS: "networks: --net",
    Kind.NOISE: "ways to spoil labels, to try a method: --noise",
    Kind.DATASETS: "data by name, and the forms that your own may have",
    Kind.METRICS: "what is measured on a test set: --metrics",
    Kind.ENCODERS: "what makes features of images: --encoder",
    Kind.TOOLS: "annotation tools: selc export RUN --to",
    Kind.TRACKERS: "where metrics go besides: --track",
}


def list_(
    kind: Annotated[
        str | None,
        typer.Argument(help=f"What to list: {', '.join(Kind)}.", autocompletion=lambda: [*Kind], show_default=False),
    ] = None,
    name: Annotated[str | None, typer.Argument(help="Tell more about this one: its options, its size.")] = None,
) -> None:
    """Show what is known by name; with a name, all about that one."""
    with speaking():
        if kind is None:
            _kinds()
            return
        if kind not in [*Kind]:
            raise unknown("what to list", kind, [each.value for each in Kind])
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        from selc.data import DATASETS
        from selc.encoders import ENCODERS
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
        registry = registries[Kind(kind)]
        if name is not None and name not in [*registry]:
            raise unknown("NAME", name, registry)
        table = Table(box=None, pad_edge=False, show_header=name is None and kind in (Kind.METHODS, Kind.ENCODERS))
        table.add_column("name", style="bold", no_wrap=True)
        table.add_column("what it is")
        if name is not None:
            for what, text in {name: registry.describe(name), **_facts(Kind(kind), registry, name)}.items():
                table.add_row(what, Text(text))  # brackets are no markup
        elif kind == Kind.METHODS:
            table.add_column("time, ce = 1", justify="right", no_wrap=True)
            for each in registry:
                table.add_row(each, Text(registry.describe(each)), f"{registry[each].cost:.1f}")
        elif kind == Kind.ENCODERS:
            table.add_column("here", no_wrap=True)
            for each in registry:
                table.add_row(each, Text(registry.describe(each)), _here(each))
        else:
            for each in registry:
                table.add_row(each, Text(registry.describe(each)))
        console = Console(highlight=False)
        console.print(table)
        if name is not None and (more := registry.more(name)):
            print(f"\n{_in_lines(more, console.width)}")
        if name is None:
            console.print(f"\nAll about one of them: selc list {kind} {next(iter(registry))}", markup=False)


def _kinds() -> None:
    """What there is to be listed."""
    say({kind.value: WHAT_FOR[kind] for kind in Kind}, [(f"selc list {Kind.METHODS}", "all of one kind")])


def _in_lines(text: str, width: int) -> str:
    """A docstring's paragraphs for a terminal; what is indented is an equation and stays."""
    parts = []
    for part in text.replace("``", "").split("\n\n"):
        plain = not part.startswith(" ")
        parts.append(fill(" ".join(part.split()), width, break_long_words=False) if plain else part)
    return "\n\n".join(parts)


def _facts(kind: Kind, registry: Any, name: str) -> dict[str, str]:
    """What else is known of one: of a method its demands, of a published dataset the paper's Table 7, its options."""
    from selc.data import FACTS

    facts: dict[str, str] = {}
    if kind is Kind.METHODS:
        method = registry[name]
        facts = {
            "family": method.family,
            "needs": method.needs or "nothing",
            "time": f"{method.cost:.1f} times that of plain training (ce)",
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

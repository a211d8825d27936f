"""`selc list`: what is known by name."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from selc.cli.common import speaking

if TYPE_CHECKING:
    from rich.table import Table


class Kind(StrEnum):
    METHODS = "methods"
    NETS = "nets"
    NOISE = "noise"
    DATASETS = "datasets"
    METRICS = "metrics"
    ENCODERS = "encoders"
    TOOLS = "tools"
    TRACKERS = "trackers"


def list_(kind: Annotated[Kind, typer.Argument(help="What to list.")]) -> None:
    """Show what is known by name."""
    with speaking():
        from rich.console import Console
        from rich.table import Table

        from selc.data import DATASETS
        from selc.integrations.trackers import TRACKERS
        from selc.methods import METHODS
        from selc.nets import NETS
        from selc.noise import NOISES
        from selc.registry import Registry
        from selc.review.exchange import TOOLS
        from selc.training.metrics import METRICS

        if kind is Kind.ENCODERS:
            Console().print(_encoders())
            return
        registries: dict[Kind, Registry[Any]] = {
            Kind.METHODS: METHODS,
            Kind.NETS: NETS,
            Kind.NOISE: NOISES,
            Kind.DATASETS: DATASETS,
            Kind.METRICS: METRICS,
            Kind.TOOLS: TOOLS,
            Kind.TRACKERS: TRACKERS,
        }
        registry = registries[kind]
        if kind is Kind.DATASETS:
            Console().print(_datasets())
            return
        table = Table(box=None, pad_edge=False)
        table.add_column("name", style="bold", no_wrap=True)
        table.add_column("what it is")
        if kind is Kind.METHODS:
            for column in ("family", "needs", "time of CE", "processes"):
                table.add_column(column)
        table.add_column("options")
        for name in registry:
            options = ", ".join(f"{k}={v}" for k, v in registry.defaults(name).items())
            row = [name, registry.describe(name)]
            if kind is Kind.METHODS:
                method = METHODS[name]
                row += [method.family, method.needs or "-", f"{method.cost:.1f} x"]  # type: ignore[attr-defined]
                row.append("many" if method.parallel else "one")  # type: ignore[attr-defined]
            table.add_row(*row, options)
        Console().print(table)


def _encoders() -> Table:
    """What can make features of images, whether it is there, and the licence of its weights."""
    from rich.table import Table

    from selc.encoders import ENCODERS, best

    table = Table(box=None, pad_edge=False)
    table.add_column("name", style="bold", no_wrap=True)
    for column in ("what it is", "here", "licence of the weights", "how to get it"):
        table.add_column(column)
    for name in ENCODERS:
        about = ENCODERS.about[name]
        here = "default" if name == best() else "yes" if about.there() else "no"
        table.add_row(name, ENCODERS.describe(name), here, about.licence, about.install)
    return table


def _datasets() -> Table:
    """The paper's Table 7 for the published sets, and the forms of own data."""
    from rich.table import Table

    from selc.data import DATASETS, FACTS

    table = Table(box=None, pad_edge=False)
    table.add_column("name", style="bold", no_wrap=True)
    table.add_column("what it is")
    for column in ("train", "val", "test", "classes", "input", "wrong %"):
        table.add_column(column, justify="right", no_wrap=True)
    for name in DATASETS:
        facts = FACTS.get(name)
        cells = ["-"] * 6
        if facts is not None:
            counts = [f"{count:,}" if count else "-" for count in (facts.train, facts.val, facts.test, facts.classes)]
            cells = [*counts, facts.size, facts.noise]
        table.add_row(name, DATASETS.describe(name), *cells)
    return table

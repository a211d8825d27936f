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


def list_(kind: Annotated[Kind, typer.Argument(help="What to list.")]) -> None:
    """Show what is known by name."""
    with speaking():
        from rich.console import Console
        from rich.table import Table

        from selc.data import DATASETS
        from selc.methods import METHODS
        from selc.nets import NETS
        from selc.noise import NOISES
        from selc.registry import Registry

        registries: dict[Kind, Registry[Any]] = {
            Kind.METHODS: METHODS,
            Kind.NETS: NETS,
            Kind.NOISE: NOISES,
            Kind.DATASETS: DATASETS,
        }
        registry = registries[kind]
        table = Table(box=None, pad_edge=False)
        table.add_column("name", style="bold", no_wrap=True)
        table.add_column("what it is")
        table.add_column("options")
        for name in registry:
            options = ", ".join(f"{k}={v}" for k, v in registry.defaults(name).items())
            table.add_row(name, registry.describe(name), options)
        Console().print(table)

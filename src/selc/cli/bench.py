"""`selc bench`: the tables and figures of the paper."""

from __future__ import annotations

import os
import sys
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from selc._io.terminal import folded
from selc.cli.common import DataRoot, DataRootBefore, speaking
from selc.errors import ConfigError, unknown

if TYPE_CHECKING:
    from selc.bench.runner import Machine, Places
    from selc.bench.table import Cell, Table

RENDER = "render"


def bench(
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME...",
            help="table1 to table6, figure1 to figure5, human, all of these; suite: all methods on data of many kinds; "
            "or `render`, alone or with names, to write the tables from the results.",
        ),
    ],
    scale: Annotated[str, typer.Option(help="paper: as published; small: one GPU, an hour; cpu: two cores.")] = "cpu",
    variant: Annotated[
        str, typer.Option(help="text: as the paper says; code: as the authors' code does it where the two differ.")
    ] = "text",
    methods: Annotated[str | None, typer.Option(metavar="LIST", help="Only these rows, such as CE,SELC.")] = None,
    columns: Annotated[
        str | None, typer.Option(metavar="LIST", help="Only columns whose name contains one of these.")
    ] = None,
    seeds: Annotated[str | None, typer.Option(metavar="LIST", help="Only these seeds, such as 0,1.")] = None,
    workers: Annotated[
        int,
        typer.Option(help="Trainings at a time, one thread each. (default: the cores)", min=0, show_default=False),
    ] = 0,
    gpus: Annotated[
        str | None, typer.Option(metavar="LIST", help="Train on these GPUs, one at a time on each.")
    ] = None,
    data: DataRoot = None,
    data_before: DataRootBefore = None,
    results: Annotated[Path | None, typer.Option(help="File of results. (benchmarks/results/bench.jsonl)")] = None,
    keep: Annotated[
        Path | None, typer.Option(metavar="RUNS", help="Keep the run folders here; figures do so in runs/bench.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for tables and figures. (default: beside the results)")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and how long it takes.")] = False,
    again: Annotated[bool, typer.Option("--again", help="Train also what has a result already.")] = False,
) -> None:
    """Run the tables and figures of the paper: what has no result yet is trained, the rest is left alone."""
    with speaking():
        from selc.bench.render import write_pages
        from selc.bench.results import DEFAULT
        from selc.bench.runner import RUNS, Machine, Places

        data = data or data_before
        results = results or DEFAULT
        out = out or results.parent
        tables = _tables([name for name in what if name != RENDER], scale)
        if RENDER in what:
            choices: dict[str, object] = {"--methods": methods, "--columns": columns, "--seeds": seeds, "--gpus": gpus}
            choices |= {"--data-root": data, "--keep": keep, "--workers": workers or None}
            choices |= {"--dry-run": dry_run or None, "--again": again or None}
            _refuse_with_render(choices)
            for path in write_pages(tables, scale, results, out, variant):
                print(path)
            return
        if gpus is not None and workers:
            raise ConfigError("--workers and --gpus must not come together: a GPU has one process; got both.")
        cores = workers or len(
            os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
        )
        machine = Machine(workers=cores, gpus=_numbers(gpus, "--gpus"), data=data or "")
        if data is not None:
            os.environ["SELC_DATA"] = data
        plain, drawn = [t for t in tables if t.kind != "figure"], [t for t in tables if t.kind == "figure"]
        of_plain, of_drawn = _cells([plain, drawn], scale, variant, methods, columns, seeds)
        failed = 0
        for group, cells, kept in ((plain, of_plain, keep is not None), (drawn, of_drawn, True)):
            if group:
                places = Places(results, keep or RUNS, kept)
                failed += _fill(cells, machine, places, dry_run, again)
        if not dry_run:
            failed += _draw(drawn, scale, variant, keep or RUNS, out)
        if failed:
            raise typer.Exit(1)


def _tables(names: list[str], scale: str) -> list[Table]:
    """The tables that were named; `all` and nothing (for `render`) are those that have the scale."""
    from selc.bench.table import SCALES, load
    from selc.bench.table import names as known

    if scale not in SCALES:
        raise unknown("--scale", scale, SCALES)
    for name in names:
        if name != "all" and name not in known():
            raise unknown("a table or figure", name, [*known(), "all", RENDER])
    if not names or "all" in names:
        return [table for table in map(load, known()) if scale in table.scales and table.kind != "suite"]
    return [load(name) for name in dict.fromkeys(names)]


def _cells(
    groups: list[list[Table]], scale: str, variant: str, methods: str | None, columns: str | None, seeds: str | None
) -> list[list[Cell]]:
    """The cells of each group of tables that were asked for; a table may lack a row that another one has."""
    from selc.bench.runner import chosen

    cells = [[cell for table in group for cell in table.cells(scale, variant)] for group in groups]
    wanted = _numbers(seeds, "--seeds") if seeds is not None else None
    asked = {id(cell) for cell in chosen([*chain(*cells)], _parts(methods), _parts(columns), wanted)}
    return [[cell for cell in group if id(cell) in asked] for group in cells]


def _refuse_with_render(options: dict[str, object]) -> None:
    """What chooses trainings has no say in what is rendered: every result that is there."""
    for option, value in options.items():
        if value is not None:
            raise ConfigError(f"{option} is for trainings, and `render` writes every result that is there; got both.")


def _fill(cells: list[Cell], machine: Machine, places: Places, dry_run: bool, again: bool) -> int:
    """Train; return how many failed."""
    from selc.bench.runner import described, left_over, look, plan_text, run

    outlook = look(cells, places, again=again, device="gpu" if machine.gpus else "cpu")
    for line in plan_text(outlook, machine):
        print(folded(line, sys.stdout))
    if dry_run or not (outlook.todo or left_over(places)):
        return 0
    try:
        report = run(outlook, machine, places, again=again)
    except KeyboardInterrupt:
        print("\nInterrupted; every finished epoch is saved. Go on with the same command.", file=sys.stderr)
        raise typer.Exit(130) from None
    for cell, reason in report.failed:
        print(f"failed: {described(cell)}: {reason}", file=sys.stderr)
    print(f"{report.finished} trained, {len(report.failed)} failed -> {places.results}")
    return len(report.failed)


def _draw(tables: list[Table], scale: str, variant: str, runs: Path, out: Path) -> int:
    from selc.bench.paper_figures import draw

    missing = 0
    for table in tables:
        written, reasons = draw(table, scale, runs, out, variant)
        for path in written:
            print(path)
        for reason in reasons:
            print(f"note: {reason}", file=sys.stderr)
        missing += not written
    return missing


def _parts(text: str | None) -> list[str] | None:
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]


def _numbers(text: str | None, option: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in _parts(text) or [])
    except ValueError:
        raise ConfigError(f"{option} must be whole numbers with commas, such as 0,1; got {text!r}.") from None

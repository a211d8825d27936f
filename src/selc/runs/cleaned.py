"""Cleaned labels: what a run and a reviewer together made of the given ones, as a table, and to train on."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from selc._io.files import in_short
from selc._io.parquet_file import read_parquet
from selc._io.table_files import has_pyarrow, write_table
from selc.analysis.findings import RELABEL, Findings
from selc.data import Bundle
from selc.errors import ConfigError, InputError, RunFolderError
from selc.noise.base import label_digest
from selc.runs.decisions import Decisions, check_unique, fingerprint_of
from selc.runs.folder import RunFolder

GIVEN, RELABELLED, HUMAN, DROPPED = range(4)
SOURCES = ("given", "relabelled", "human", "dropped")
COLUMNS = ("sample_id", "label", "given_label", "source")
NAME = "cleaned"  # of the tables in a folder
TABLES = (".csv", ".parquet", ".pq")


class Cleaned(NamedTuple):
    """A label for each sample, in the order of the data, and where it comes from, [N] each."""

    labels: Tensor  # of a dropped sample it is the given one
    source: Tensor  # a place in SOURCES
    given: Tensor  # before

    @property
    def rows(self) -> Tensor:
        """The samples that are left."""
        return (self.source != DROPPED).nonzero().flatten()

    def counts(self) -> dict[str, int]:
        return dict(zip(SOURCES, torch.bincount(self.source, minlength=len(SOURCES)).tolist(), strict=True))


def clean(run: RunFolder, findings: Findings, decisions: Decisions | None, *, human_only: bool = False) -> Cleaned:
    """The verdicts of the reviewer; elsewhere the changes that the run is sure of (``relabel``), else the given labels.

    A sample that the reviewer skipped is treated as one that was not reviewed. Verdicts and drops that the run itself
    was started with still stand.
    """
    labels, source = findings.given.clone(), torch.full_like(findings.given, GIVEN)
    if not human_only:
        sure = findings.action == RELABEL
        labels[sure], source[sure] = findings.suggested[sure], RELABELLED
    if run.verified is not None:
        source[run.verified] = HUMAN
    if run.rows is not None:
        source[~torch.isin(torch.arange(len(source)), run.rows)] = DROPPED
    if decisions is not None:
        place = {sample: row for row, sample in enumerate(run.ids)}
        number = {name: label for label, name in enumerate(run.classes)}
        for decision in decisions.made.values():
            row = place[decision.sample_id]
            if decision.label is not None:
                labels[row], source[row] = number[decision.label], HUMAN
            elif decision.verdict == "drop":
                labels[row], source[row] = findings.given[row], DROPPED
    return Cleaned(labels, source, findings.given)


def columns(cleaned: Cleaned, run: RunFolder) -> dict[str, list[str | None]]:
    """The table; a dropped sample has no label."""
    names, given = run.classes, cleaned.given.tolist()
    kept = (cleaned.source != DROPPED).tolist()
    labels = [names[label] if keep else None for label, keep in zip(cleaned.labels.tolist(), kept, strict=True)]
    sources: list[str | None] = [SOURCES[source] for source in cleaned.source.tolist()]
    return dict(zip(COLUMNS, (list(run.ids), labels, [names[label] for label in given], sources), strict=True))


def write_tables(cleaned: Cleaned, run: RunFolder, out: Path) -> list[Path]:
    """Write ``out`` as CSV or Parquet by its ending; for a folder both, the latter if pyarrow is there."""
    table = columns(cleaned, run)
    kinds = new_tables(out)
    for path in kinds:
        write_table(path, table)
    return kinds


def new_tables(out: Path) -> list[Path]:
    """The files that would be written; one that is there already is an error, so that nothing is lost."""
    kinds = [out]
    if out.suffix.lower() not in TABLES:
        kinds = [out / f"{NAME}.csv", *([out / f"{NAME}.parquet"] if has_pyarrow() else [])]
    elif out.suffix.lower() != ".csv" and not has_pyarrow():
        raise ConfigError(f"{out} needs pyarrow to be written; got no such package. Choose a name that ends in .csv.")
    if out.is_file() and kinds != [out]:
        raise ConfigError(f"--out must be a new folder, or end in .csv or .parquet; got the file {out}.")
    for path in kinds:
        if path.exists():
            raise RunFolderError(
                f"--out must be new, so that nothing is lost; got {path}, which is there already. "
                "Remove it or choose another name."
            )
    return kinds


def cleaned_labels(path: Path | str, bundle: Bundle) -> Cleaned:
    """The labels of a table that `selc apply` wrote, for the rows of ``bundle``, matched by the id of the sample."""
    place = cleaned_table(Path(path))
    if place is None:
        raise InputError(
            f"--labels must be the folder of a run, or what `selc apply` wrote ({NAME}.csv or .parquet); got {path}."
        )
    found = _read(place)
    check_unique(found["sample_id"], str(place))
    ids = ids_of(bundle)
    check_unique(ids, "the data")
    row_of = {sample: row for row, sample in enumerate(found["sample_id"])}
    _same_samples(ids, row_of, place)
    number = {name: label for label, name in enumerate(bundle.classes)}
    kinds = {name: kind for kind, name in enumerate(SOURCES)}
    labels, sources, given = [], [], []
    for sample in ids:
        there = row_of[sample]
        kind, name, before = found["source"][there], found["label"][there], found["given_label"][there]
        if kind not in kinds:
            raise InputError(f"source must be one of {', '.join(SOURCES)}; got {kind!r} for {sample!r} in {place}.")
        for label in (before,) if kind == "dropped" else (before, name):
            if label not in number:
                raise InputError(
                    f"a label must be one of the {len(number)} classes of the data; got {label!r} for {sample!r} in "
                    f"{place}."
                )
        sources.append(kinds[kind])
        given.append(number[before])
        labels.append(given[-1] if kind == "dropped" else number[name])
    cleaned = Cleaned(_numbers(labels), _numbers(sources), _numbers(given))
    if bundle.by_place:
        check_places(cleaned.given, bundle, str(place))
    return cleaned


def check_places(given: Tensor, bundle: Bundle, what: str) -> None:
    """Refuse labels by the places of their rows alone, if the labels they were made from are not those of the data.

    A few may differ: they were corrected in the data, or by a round before. Rows in another order agree by chance, and
    sorted rows turned round agree by less than half of what is left beyond chance. Where the true labels are known the
    data are a benchmark with noise drawn on them, so that there it is enough to be beyond chance.
    """
    N, C = len(given), len(bundle.classes)
    same = float((given == bundle.labels).double().mean())
    shares = [torch.bincount(labels, minlength=C).double() / N for labels in (given, bundle.labels)]
    chance = float((shares[0] * shares[1]).sum())
    beyond = 3 * math.sqrt(chance * (1 - chance) / N) if bundle.true is not None else (1 - chance) / 2
    if same < 1 and same <= chance + beyond:
        raise InputError(
            f"samples without names are known by their place, so --labels must be about the rows of the data in their "
            f"order; got {what}, whose given labels are those of the data in {same:.1%} of the rows only. Give what "
            "was made from these data, or the samples ids (--id-column)."
        )


def cleaned_table(path: Path) -> Path | None:
    """The table that ``path`` means: itself, or the one in a folder that `selc apply` wrote; None if there is none."""
    if path.suffix.lower() in TABLES and path.is_file():
        return path
    for ending in (".csv", ".parquet"):
        if (inside := path / f"{NAME}{ending}").is_file():
            return inside
    return None


class Verified(NamedTuple):
    """What a person decided: rows with the label that they have, and rows to leave out."""

    rows: Tensor
    labels: Tensor
    dropped: Tensor


def verified_rows(path: Path | str, data: Bundle | RunFolder, *about: Tensor) -> Verified:
    """The verdicts in a decisions.json, as rows of ``data``: of a run (the very one), or of a dataset, by sample id.

    ``about`` are labels [N] that the review may have been about, where these are known: verdicts on others are refused.
    """
    decisions = Decisions.read(path)
    ids = ids_of(data) if isinstance(data, Bundle) else data.ids
    check_unique(ids, "the data" if isinstance(data, Bundle) else str(data.path))
    if isinstance(data, RunFolder):
        decisions.of_run(data)
    elif data.by_place and (
        decisions.samples != len(ids)
        or (about and decisions.run not in [fingerprint_of(label_digest(y), data.digest, data.classes) for y in about])
    ):
        raise InputError(
            f"samples without names are known by their place, so verdicts must come from a review of the very same "
            f"labels and data; got {path}, which is about {decisions.samples} samples of another run, and the data "
            f"have {len(ids)}. Give the labels that were reviewed (--labels, --noise), or the samples ids."
        )
    names = data.classes
    decisions.check(ids, names, *([names[label] for label in labels.tolist()] for labels in about))
    place = {sample: row for row, sample in enumerate(ids)}
    number = {name: label for label, name in enumerate(names)}
    made = sorted((place[d.sample_id], d) for d in decisions.made.values())
    fixed = [(row, number[d.label]) for row, d in made if d.label is not None]
    dropped = [row for row, d in made if d.verdict == "drop"]
    return Verified(_numbers([row for row, _ in fixed]), _numbers([label for _, label in fixed]), _numbers(dropped))


def ids_of(bundle: Bundle) -> list[str]:
    """The names of the samples, else their row numbers, as a run folder keeps them."""
    return [str(i) for i in (bundle.ids if bundle.ids is not None else range(len(bundle.labels)))]


def _numbers(values: Sequence[int]) -> Tensor:
    return torch.tensor(values, dtype=torch.long)


def _same_samples(ids: list[str], row_of: dict[str, int], place: Path) -> None:
    strange = row_of.keys() - set(ids)
    missing = next((sample for sample in ids if sample not in row_of), None)
    if missing is not None or strange:
        what = f"no row for {missing!r}" if missing is not None else f"{min(strange)!r}, which the data do not have"
        raise InputError(
            f"--labels must have one row for each sample of the data; got {place} with {len(row_of)} rows for "
            f"{len(ids)} samples, and {what}. Give the table that was made from these data."
        )


def _read(path: Path) -> dict[str, list[Any]]:
    table = _read_csv(path) if path.suffix.lower() == ".csv" else _read_parquet(path)
    if missing := [name for name in COLUMNS if name not in table]:
        raise InputError(f"{path} must have the columns {', '.join(COLUMNS)}; got none called {missing[0]!r}.")
    return table


def _read_csv(path: Path) -> dict[str, list[Any]]:
    try:
        rows = list(csv.reader(io.StringIO(path.read_bytes().decode("utf-8-sig"), newline=""), strict=True))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} must be a readable CSV table in UTF-8; got: {in_short(error)}.") from None
    if not rows:
        raise InputError(f"{path} must have the columns {', '.join(COLUMNS)}; got an empty file.")
    head, *body = rows
    for number, row in enumerate(body):
        if len(row) != len(head):
            raise InputError(f"each row of {path} must have {len(head)} cells; got {len(row)} in row {number + 1}.")
    return {name: [row[k] for row in body] for k, name in enumerate(head)}


def _read_parquet(path: Path) -> dict[str, list[Any]]:
    if not has_pyarrow():
        raise InputError(f"{path} needs pyarrow to be read; got no such package. Use {NAME}.csv.")
    return dict(read_parquet(path, what="a readable Parquet table").to_pydict())

"""A `datasets.Dataset` of Hugging Face with what was found about its labels, as columns of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from selc.analysis import LabelAnalysis
from selc.data.sources.hub import training_part
from selc.errors import ConfigError, InputError
from selc.runs.cleaned import GIVEN, HUMAN, RELABELLED, SOURCES, clean
from selc.runs.cleaned_source import ADDED, correct, corrected_dataset
from selc.runs.decisions import Decisions
from selc.runs.door import origin_of
from selc.runs.folder import RunFolder
from selc.types import Outcome


def with_findings(
    dataset: Any, source: LabelAnalysis | Outcome | RunFolder | Path | str, *, label_column: str = "label"
) -> Any:
    """The dataset with corrected labels, the labels that it had, and how good these were.

    Parameters
    ----------
    dataset : datasets.Dataset
        The one that was trained on, row by row.
    source : LabelAnalysis, Outcome, RunFolder or path
        What `selc.Recorder.analysis` or `selc.fit` returned, or a finished run.
    label_column : str, default "label"
        The column of the labels: a ClassLabel, whole numbers, or names.

    Returns
    -------
    datasets.Dataset
        All columns and rows, with ``label`` corrected; ``given_label``, of the same type, ``label_source`` ("given",
        "relabelled", or "human" where the run was told that a person has verified it) and ``label_quality`` from 0 (it
        does not fit) to 1 are new.

    Examples
    --------
    ::

        dataset = with_findings(dataset, recorder.analysis())
        dataset.filter(lambda row: row["label_quality"] < 0.2)
        dataset.save_to_disk("cleaned")
    """
    if not hasattr(dataset, "add_column"):
        raise ConfigError(f"dataset must be a datasets.Dataset; got {type(dataset).__name__}. Take one split of it.")
    columns = list(dataset.column_names)
    if label_column not in columns:
        raise InputError(
            f"label_column must be a column of the dataset; got {label_column!r}, and there are {columns}."
        )
    if taken := [name for name in ADDED if name in columns]:
        raise InputError(f"the columns {', '.join(ADDED)} must be free; got {taken[0]!r} already. Rename it.")
    found = _found(source)
    if len(found.given) != len(dataset):
        raise InputError(
            f"the dataset must be the one that was trained on; got {len(dataset)} rows, and {len(found.given)} labels."
        )
    feature, written = dataset.features[label_column], list(dataset[label_column])
    values = _values(feature, written, found)
    row = next((row for row, label in enumerate(written) if values[found.given[row]] != label), None)
    if row is not None:
        raise InputError(
            f"the labels of the dataset must be those that were trained on; got {written[row]!r} in row {row}, which "
            f"was {values[found.given[row]]!r} then. Give the dataset of the training, in its order."
        )
    new = [values[label] for label in found.corrected]
    result = dataset.rename_column(label_column, ADDED[0]).add_column(label_column, new, feature=feature)
    result = result.add_column(ADDED[1], found.source()).add_column(ADDED[2], list(found.quality))
    return result.select_columns([*columns, *ADDED])


def cleaned(
    dataset: Any,
    run: RunFolder | Path | str,
    decisions: Path | str | None = None,
    *,
    human_only: bool = False,
    label_column: str = "",
) -> Any:
    """What `selc apply` makes of a dataset: the labels that the run is sure of, and the verdicts of a person.

    Parameters
    ----------
    dataset : datasets.Dataset or datasets.DatasetDict
        The one that was trained on; of a dictionary of parts only the training part is changed.
    run : RunFolder or path
        The finished run.
    decisions : path, optional
        What the page of `selc review` saved; rows that were dropped there are left out.
    human_only : bool, default False
        Change nothing that no person has looked at.
    label_column : str, optional
        The column of the labels, if it was given to the training; a run of `selc train` knows it, and that of the ids.

    Returns
    -------
    datasets.Dataset or datasets.DatasetDict
        All columns in their order, then ``given_label``, ``label_source`` (given, relabelled, human, or unused for a
        row that the run left out) and ``label_quality``.

    Examples
    --------
    ::

        selc.fit(dataset, out="runs/first")
        cleaned(dataset, "runs/first").save_to_disk("cleaned")
    """
    run = run if isinstance(run, RunFolder) else RunFolder.open(run)
    if human_only and decisions is None:
        raise ConfigError("human_only needs decisions: without them there is no verdict of a person; got none.")
    made = None if decisions is None else Decisions.read(decisions).of_run(run)
    findings = run.findings()
    table, origin = training_part(dataset), origin_of(run)
    columns = {
        **(origin.options if origin.name == "hub" else {}),
        **({"label_column": label_column} if label_column else {}),
    }
    result = correct(table, clean(run, findings, made, human_only=human_only), findings, run, columns)
    return corrected_dataset(result._replace(whole=dataset), table)


class _Found(NamedTuple):
    given: Sequence[int]
    corrected: Sequence[int]
    quality: Sequence[float]
    names: Sequence[str] | None  # of the classes; None: their numbers
    verified: Sequence[bool] | None = None  # by a person, as far as is known

    def source(self) -> list[str]:
        """Where each label comes from."""
        changed = [SOURCES[GIVEN if a == b else RELABELLED] for a, b in zip(self.given, self.corrected, strict=True)]
        seen = self.verified or [False] * len(changed)
        return [SOURCES[HUMAN] if human else source for human, source in zip(seen, changed, strict=True)]


def _found(source: Any) -> _Found:
    if isinstance(source, Outcome):
        issues = source.label_issues_
        if not issues:
            raise InputError("an outcome must be what selc.fit returned; got one without label_issues_.")
        names = source.classes if source.named else None
        place = {name: k for k, name in enumerate(names or ())}
        given = [place[label] if names else int(label) for label in issues["given_label"].tolist()]
        return _Found(given, source.corrected_labels.tolist(), issues["label_quality"].tolist(), names)
    if isinstance(source, LabelAnalysis):
        found = source.findings
        return _Found(found.given.tolist(), source.corrected.tolist(), found.quality.tolist(), None)
    run = source if isinstance(source, RunFolder) else RunFolder.open(source)
    found = run.findings()
    verified = None if run.verified is None else run.verified.tolist()
    return _Found(found.given.tolist(), run.corrected().tolist(), found.quality.tolist(), run.classes, verified)


def _values(feature: Any, written: Sequence[Any], found: _Found) -> Sequence[Any]:
    """What stands in the dataset for each class."""
    count = max([*found.given, *found.corrected, 0]) + 1
    if getattr(feature, "names", None) is not None:  # a ClassLabel holds numbers
        return range(len(feature.names))
    if written and isinstance(written[0], str):
        return sorted(set(written)) if found.names is None else found.names
    return range(count) if found.names is None else [int(name) for name in found.names]


__all__ = ["cleaned", "with_findings"]

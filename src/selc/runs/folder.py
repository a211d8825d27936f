"""The run folder: everything that a run leaves behind, each file whole or not at all.

config.toml             every setting, loadable again
environment.json        versions, commit, processor, threads
data.json               what was noticed about the data, and which samples were left out
given_targets.safetensors  soft labels to train on, where another run gave some
given_labels.npz        given labels, true labels where known, names of the samples (noise.npz until 0.1.0)
noise.json              what is known of noise in them: rate, matrix; their hash, and that of the data
inputs.json, inputs.safetensors  how data become inputs, for new data (`selc predict`)
metrics.jsonl           one line per epoch
tables.json             the form of the tables of per-sample state, and why
stage-K/                checkpoint and recorded losses of each stage
model.safetensors       the trained weights, for plain PyTorch
fitted_on.safetensors   in its place, the rows that a classifier of scikit-learn was fitted on, to be fitted again
corrected_labels.csv    one row per sample
label_issues.csv        one row per sample: label quality, suggestion, what to do (and .parquet, with pyarrow)
targets.safetensors     soft targets and the network's probabilities
report.html, figures/   what `selc report` and `selc figures` write, review.html what `selc review` does
summary.json            the results; it is written last and says that the run is finished
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import warnings
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from shlex import quote
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

import selc
from selc._io.array_files import read_arrays
from selc._io.files import in_short, read_json, read_tensors, write_json, write_tensors, write_text, write_whole
from selc._io.near import near_by
from selc._io.table_files import as_csv, has_pyarrow, write_table
from selc.analysis import LabelAnalysis
from selc.analysis.findings import Findings
from selc.errors import RunFolderError
from selc.memory.store import Store
from selc.noise import Noise
from selc.runs.config import Config
from selc.runs.older import as_today, check_same_series, epoch_as_today, findings_in, judged_by_training_pass
from selc.runs.preprocessing import write_inputs
from selc.training.checkpoints.checkpoint import drop_older
from selc.training.record import read_records
from selc.turning import Decision, Evidence
from selc.turning.point import saved_decision, saved_evidence
from selc.types import Inputs, Outcome, Pass

ANALYSIS = "analysis.safetensors"
GIVEN, GIVEN_BEFORE = "given_labels.npz", "noise.npz"  # the labels of the user; the second name is that of 0.1.0
# What a run that was killed before it began may have left.
_FIRST = (
    *("environment.json", GIVEN, "noise.json", "given_targets.safetensors"),
    *("data.json", "inputs.safetensors", "inputs.json", "config.toml"),
)
PRELIMINARY = {*_FIRST[:-1], *(f".{name}.tmp" for name in _FIRST)}


class RunFolder:
    """A folder that holds one run: what was trained, on what, and what came out of it.

    Parameters
    ----------
    path : path
        The folder. ``RunFolder.open(path)`` also checks that there is a run in it.

    Attributes
    ----------
    config : Config
        Every setting.
    finished : bool
        Whether it has its results.
    summary : dict
        The results in short, as in ``summary.json``.
    given : Tensor of int, shape [N]
        The given labels; ``true`` are the true ones where they are known, else None.
    classes : tuple of str
        Names of the classes.
    ids : list of str
        Names of the samples.

    Examples
    --------
    >>> import tempfile
    >>> import torch
    >>> import selc
    >>> folder = tempfile.TemporaryDirectory()
    >>> x = torch.tensor([[-1.0], [1.0]] * 20)
    >>> _ = selc.fit(x, ["left", "right"] * 20, method="ce", epochs=1, batch_size=20, out=f"{folder.name}/run")
    >>> run = selc.RunFolder.open(f"{folder.name}/run")
    >>> run.finished, run.classes, len(run.corrected()), run.config.method.name
    (True, ('left', 'right'), 40, 'ce')
    >>> folder.cleanup()
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    @classmethod
    def create(
        cls,
        path: Path | str,
        config: Config,
        noise: Noise,
        true: Tensor | None,
        classes: Sequence[str],
        ids: Sequence[str] | None = None,
        digest: str = "",
        target: Store | None = None,
        rows: Tensor | None = None,
        verified: Tensor | None = None,
        remarks: Mapping[str, Any] | None = None,
        inputs: Inputs | None = None,
    ) -> RunFolder:
        """Write what is known before the first batch. A folder that holds anything else is left alone."""
        run = cls(path)
        run.check_new()
        write_json(run.path / "environment.json", environment())
        arrays = {"given": noise.labels.numpy(), "classes": np.array(classes, dtype=np.str_)}
        if true is not None:
            arrays["true"] = true.numpy()
        if rows is not None:
            arrays["rows"] = rows.numpy()
        if verified is not None:
            arrays["held"] = verified.numpy()  # the key that it has had since 0.1.0, so that old folders are read alike
        if ids is not None:
            arrays["ids"] = np.array(ids, dtype=np.str_)
        write_whole(run.path / GIVEN, lambda p: _save_npz(p, arrays))
        rate = None if true is None else float((true != noise.labels).double().mean())
        about = {"rate": rate, "sha256": noise.digest, "data_sha256": digest, "facts": dict(noise.facts)}
        write_json(run.path / "noise.json", {**about, "transition_matrix": noise.matrix.tolist()})
        if target is not None:
            write_tensors(run.path / "given_targets.safetensors", _named(target=target))
        if remarks:
            write_json(run.path / "data.json", remarks)
        if inputs is not None:
            write_inputs(run.path, inputs)
        config.save(run.path / "config.toml")  # last: a folder with it is a run that can be resumed
        return run

    @classmethod
    def open(cls, path: Path | str) -> RunFolder:
        run = cls(path)
        if not (run.path / "config.toml").is_file():
            raise RunFolderError(f"{run.path} must be the folder of a run; got {_what_is_there(run.path)}")
        return run

    def check_new(self) -> None:
        """Refuse a place for a new run that holds something."""
        if self.path.exists() and (not self.path.is_dir() or {p.name for p in self.path.iterdir()} - PRELIMINARY):
            there = "which is a file" if self.path.is_file() else "which holds something already"
            then = "Choose another folder."
            if (self.path / "config.toml").is_file():
                there = "which holds a run already"
                then = f"Go on with `selc resume {quote(str(self.path))}`, or choose another folder."
            raise RunFolderError(f"--out must be a new or an empty folder; got {self.path}, {there}. {then}")

    @property
    def config(self) -> Config:
        return Config.load(self.path / "config.toml")

    @property
    def finished(self) -> bool:
        return (self.path / "summary.json").exists()

    @property
    def summary(self) -> dict[str, Any]:
        self._check_finished()
        saved: dict[str, Any] = read_json(self.path / "summary.json")
        return as_today(saved, len(self.classes)) if judged_by_training_pass(saved) else saved

    @property
    def given(self) -> Tensor:
        return torch.from_numpy(self._labels["given"])

    @property
    def true(self) -> Tensor | None:
        """The true labels, where they are known: to score a finished run, never to train."""
        labels = self._labels.get("true")
        return None if labels is None else torch.from_numpy(labels)

    @property
    def rows(self) -> Tensor | None:
        """The rows to train on, where some were dropped by a person."""
        rows = self._labels.get("rows")
        return None if rows is None else torch.from_numpy(rows)

    @property
    def verified(self) -> Tensor | None:
        """Which labels a person has decided on, [N] booleans; None: nobody has."""
        verified = self._labels.get("held")
        return None if verified is None else torch.from_numpy(verified)

    @property
    def held(self) -> Tensor | None:
        """The same as `verified`.

        .. deprecated:: 0.2.0
            Use ``verified``.
        """
        old, new = "selc.RunFolder.held", "selc.RunFolder.verified"
        warnings.warn(f"{old} is deprecated, use {new}; it goes with 0.4.0", DeprecationWarning, stacklevel=2)
        return self.verified

    @property
    def settled(self) -> Tensor | None:
        """Samples that a person has settled before, [N] booleans: the label is verified, or the sample dropped."""
        verified, rows = self.verified, self.rows
        if verified is None and rows is None:
            return None
        result = torch.full((len(self.given),), rows is not None)
        if rows is not None:
            result[rows] = False
        return result if verified is None else result | verified

    @property
    def ids(self) -> list[str]:
        """The name of each sample: as the data gave them, else their row numbers."""
        arrays = self._labels
        return [str(i) for i in arrays.get("ids", range(len(arrays["given"])))]

    def check_resumable(self) -> None:
        """Refuse to go on with a run that another series of versions began."""
        check_same_series(self.path, selc.__version__)

    def check_data(self, digest: str, rows: int) -> None:
        """Refuse to go on with data that are not those of the run."""
        before = read_json(self.path / "noise.json").get("data_sha256", "")
        if rows != len(self.given) or (digest and before and digest != before):
            raise RunFolderError(
                f"the data must be the same as when {self.path} was started; got {rows} samples, and then there were "
                f"{len(self.given)}{'' if rows != len(self.given) else ', but not the same ones'}. Start a new run."
            )

    @property
    def classes(self) -> tuple[str, ...]:
        return tuple(str(name) for name in self._labels["classes"])

    def given_targets(self) -> Store | None:
        """The soft labels to train on, where another run gave some, [N, C]."""
        path = self.path / "given_targets.safetensors"
        if not path.exists():
            return None
        return _table("target", read_tensors(path), len(self.classes))

    def targets(self) -> Tensor:
        """The soft targets of the finished run, [N, C], for whoever knows that they fit."""
        return self.table("target").full()

    def table(self, name: Literal["target", "probs"]) -> Store:
        """The soft targets, or the network's probabilities, of the finished run."""
        self._check_finished()
        return _table(name, read_tensors(self.path / "targets.safetensors"), len(self.classes))

    def corrected(self) -> Tensor:
        """The corrected labels of the finished run, [N]."""
        self._check_finished()
        return read_tensors(self.path / "targets.safetensors")["corrected"]

    def stages(self) -> list[Path]:
        return sorted(self.path.glob("stage-*"), key=lambda p: int(p.name.removeprefix("stage-")))

    def history(self) -> list[dict[str, Any]]:
        """One entry per epoch of every stage, from the checkpoints; epochs that were stepped back over are marked."""
        manifests = [self._manifest(stage) for stage in range(len(self.stages()))]
        entries = [epoch_as_today(entry) for manifest in manifests for entry in manifest.get("history", [])]
        for stage, epoch in (manifest["begin"] for manifest in manifests if "begin" in manifest):
            for entry in entries:
                if entry["stage"] == stage and entry["epoch"] >= epoch:
                    entry["undone"] = True
        return entries

    def records(self, stage: int | None = None) -> Pass:
        """The training pass, [E, N] each, mapped from the files; of the last stage that recorded any.

        Where the stage went on from a state of an earlier one, the epochs up to there are those of that one.
        """
        if stage is None:
            recorded = [e["stage"] for e in self.history() if "given_loss" in e]
            stage = max(recorded, default=0)
        manifest = self._manifest(stage)
        if not manifest:
            raise RunFolderError(f"{self.path} must have saved an epoch of stage {stage}; got none yet.")
        epochs = manifest["history"][-1]["epoch"] + 1
        return read_records(self.path / f"stage-{stage}" / "records", epochs, len(self.given), len(self.classes))

    def _manifest(self, stage: int) -> dict[str, Any]:
        path = self.path / f"stage-{stage}" / "manifest.json"
        return dict(read_json(path)) if path.exists() else {}

    def write_metrics(self, last: dict[str, Any] | None = None) -> None:
        """One line per epoch; ``last`` is one that may still be on its way to the disk."""
        entries = self.history()
        if last is not None and (last["stage"], last["epoch"]) not in {(e["stage"], e["epoch"]) for e in entries}:
            entries.append(last)
        write_text(self.path / "metrics.jsonl", "".join(json.dumps(e) + "\n" for e in entries))

    def write_results(self, outcome: Outcome, summary: dict[str, Any], analysis: LabelAnalysis) -> None:
        """Write what the run was for, and drop what it needs no more; the summary last."""
        write_tensors(self.path / "model.safetensors", {k: v.clone() for k, v in outcome.model.state_dict().items()})
        self.write_labels(outcome.target, outcome.probs, outcome.corrected_labels.cpu(), summary, analysis)

    def write_labels(
        self, target: Store, probs: Store, corrected: Tensor, summary: dict[str, Any], analysis: LabelAnalysis
    ) -> None:
        """The same but for the model."""
        tables = _named(target=target, probs=probs)
        write_tensors(self.path / "targets.safetensors", {**tables, "corrected": corrected})
        write_text(
            self.path / "corrected_labels.csv",
            labels_csv(self.ids, self.given, corrected, target, self.classes),
        )
        write_tensors(self.path / ANALYSIS, analysis.tensors())
        self.write_findings(analysis.findings)
        self.write_metrics()
        for stage in self.stages():
            shutil.rmtree(stage / "snapshots", ignore_errors=True)  # there is nothing left to step back for
            drop_older(stage)
        write_json(self.path / "summary.json", summary)

    def write_findings(self, findings: Findings) -> None:
        columns = findings.columns(self.ids, self.classes)
        write_table(self.path / "label_issues.csv", columns)
        if has_pyarrow():
            write_table(self.path / "label_issues.parquet", columns)

    def findings(self) -> Findings:
        """The rows of label_issues.csv, of the finished run."""
        return self.analysis().findings

    def analysis(self) -> LabelAnalysis:
        """What the finished run concluded about its labels, as it was written down."""
        summary = self.summary
        if self.of_older:
            findings = findings_in(self.path, self.given, self.classes)
        else:
            tables = read_tensors(self.path / ANALYSIS)
            names = ("predicted", "suggested", "confidence", "quality", "action")
            findings = Findings(self.given, *(tables[name] for name in names))
        return LabelAnalysis.of_saved(summary, findings, self.corrected())

    @property
    def of_older(self) -> bool:
        """Whether the run is finished and judged labels by what it was trained on, as early 0.1.0 did."""
        return self.finished and judged_by_training_pass(read_json(self.path / "summary.json"))

    def evidence(self) -> Evidence | None:
        """What was predicted of held-out rows, where the method decided by such; None if it did not (yet)."""
        return saved_evidence(self.path, len(self.classes))

    def decision(self) -> Decision | None:
        """What was decided by it."""
        return saved_decision(self.path)

    def _check_finished(self) -> None:
        if not self.finished:
            raise RunFolderError(
                f"{self.path} must be a finished run; got one that is not. Run `selc resume {quote(str(self.path))}`."
            )

    @cached_property
    def _labels(self) -> dict[str, Any]:
        """What is written once, before the first batch, and never again: labels, names, rows."""
        path = self.path / GIVEN
        if not path.exists() and (self.path / GIVEN_BEFORE).exists():
            path = self.path / GIVEN_BEFORE
        try:
            return dict(read_arrays(path))
        except (OSError, ValueError) as error:
            raise RunFolderError(f"{path} must hold the labels of the run; got: {in_short(error)}.") from None


def _named(**tables: Store) -> dict[str, Tensor]:
    """Tables as tensors for a file: a whole one by its name, of another form each of its tensors as NAME/PART."""
    return {
        name if part == "table" else f"{name}/{part}": tensor.cpu()
        for name, table in tables.items()
        for part, tensor in table.tensors().items()
    }


def _table(name: str, tensors: Mapping[str, Tensor], columns: int) -> Store:
    """The table that `_named` called ``name``."""
    if name in tensors:
        return Store.of({"table": tensors[name]}, columns)
    return Store.of({k.removeprefix(f"{name}/"): t for k, t in tensors.items() if k.startswith(f"{name}/")}, columns)


def labels_csv(ids: Sequence[str], given: Tensor, corrected: Tensor, target: Store, classes: Sequence[str]) -> str:
    """One row per sample, in the order of the data; ``confidence`` is the soft target of the believed label."""
    confidence, believed = target.top()
    names = np.array(classes, dtype=np.str_)
    labels = {"given_label": given, "corrected_label": corrected, "believed_label": believed.cpu()}
    return as_csv(
        {
            "sample_id": ids,
            **{column: names[numbers.numpy()] for column, numbers in labels.items()},
            "confidence": [f"{share:.4f}" for share in confidence.tolist()],
        }
    )


def environment() -> dict[str, Any]:
    """What the result may depend on beside the configuration."""
    return {
        "selc": selc.__version__,
        "commit": _commit(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "platform": f"{platform.system()} {platform.machine()}",
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),  # sums differ in their last bits between these
        "threads": torch.get_num_threads(),
    }


@cache  # of the code that this process has loaded
def _commit() -> str | None:
    """The commit of selc's own checkout, with a mark if files were changed; None if it is installed otherwise."""
    package = Path(selc.__file__).parent
    git = ["git", "-C", str(package)]
    try:
        top = subprocess.run([*git, "rev-parse", "--show-toplevel"], capture_output=True, text=True, timeout=5)
        if top.returncode != 0 or not os.path.samefile(Path(top.stdout.strip()) / "src" / "selc", package):
            return None
        text = subprocess.run(
            [*git, "describe", "--always", "--dirty", "--abbrev=12"],
            capture_output=True,
            text=True,
            timeout=5,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return text.stdout.strip() or None


def _save_npz(path: Path, arrays: dict[str, Any]) -> None:
    with open(path, "wb") as file:  # by handle: by name, numpy would add an ending
        np.savez_compressed(file, **arrays)


def _what_is_there(path: Path) -> str:
    """What is found in the place of a run folder, and which runs are near."""
    if path.is_file():
        return "a file. Give the folder that `selc train` wrote (-> FOLDER in its first lines)."
    if not path.is_dir():
        return f"no such folder.{near_by(Path(os.path.abspath(path)))}"
    runs = sorted(place.parent.name for place in path.glob("*/config.toml"))
    if not runs:
        return "a folder without a config.toml."
    some = ", ".join(str(path / name) for name in runs[:5]) + (f" and {len(runs) - 5} more" if len(runs) > 5 else "")
    return f"a folder that holds runs. Give one of them: {some}."

"""Label Studio's own library reads what we write for it."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest

from selc.review.exchange import export
from selc.review.exchange.answers import read_decisions
from selc.review.exchange.tools.base import DROP
from selc.runs import RunFolder
from tests.exchange.answering import label_studio

pytestmark = pytest.mark.adapters


@pytest.mark.parametrize("kind", ["photos", "reviews"])
def test_its_own_validator_accepts_the_tasks_and_the_setup_and_no_other_class(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    with warnings.catch_warnings(action="ignore"):  # of the library's own
        interface = pytest.importorskip("label_studio_sdk.label_interface")
        run: RunFolder = request.getfixturevalue(kind)
        made = export(run, "label-studio", tmp_path / "tasks.json")
        assert made.setup is not None
        setup = interface.LabelInterface(made.setup.read_text())
        setup.validate()
        tasks = json.loads(made.tasks.read_text())
        assert len(tasks) == len(run.ids)
        for task in tasks:
            (prediction,) = task["predictions"]
            assert setup.validate_task({"data": task["data"]})
            assert setup.validate_prediction(prediction, return_errors=True) == []
        prediction["result"][0]["value"]["choices"] = ["unicorn"]
        assert setup.validate_prediction(prediction, return_errors=True)
        # What a person answers there, by the same validator, is what `selc apply` reads.
        choices = {sample: (*run.classes, DROP)[row % (len(run.classes) + 1)] for row, sample in enumerate(run.ids)}
        exported = label_studio(made.tasks.read_text(), choices)
        for task in json.loads(exported):
            assert all(setup.validate_annotation(annotation) for annotation in task["annotations"])
        (tmp_path / "project.json").write_text(exported)
        decisions, _ = read_decisions(tmp_path / "project.json", run)
        assert {sample: made.label or DROP for sample, made in decisions.made.items()} == choices

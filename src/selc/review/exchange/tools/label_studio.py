"""Label Studio: tasks as JSON with predictions, a labelling configuration in XML, and its export "JSON"."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any
from urllib.parse import quote

import selc
from selc.errors import InputError
from selc.review.exchange.tools.base import (
    TOOLS,
    Answer,
    Answers,
    Content,
    Item,
    Sheet,
    Tool,
    as_list,
    as_xml,
    chosen_of,
    text_of,
)

LABEL = "label"  # the name of the choices in the labelling configuration


@TOOLS.register("label-studio")
class LabelStudio(Tool):
    """Label Studio: images and texts, with the suggestions as predictions."""

    ending, setup_ending = ".json", ".xml"
    steps = "make a project, paste the setup as its labelling configuration (Code), import the tasks; export as JSON"

    def prefix(self, root: Path) -> str:
        return f"/data/local-files/?d={quote(root.name)}/"

    def tasks(self, sheet: Sheet) -> str:
        view = _view(sheet)
        return as_list([_task(item, view, sheet.run) for item in sheet.items])

    def setup(self, sheet: Sheet) -> str:
        view = _view(sheet)
        top = ET.Element("View")
        ET.SubElement(top, "Header", value="$given_label")
        ET.SubElement(top, view.capitalize(), name=view, value=f"${view}")
        choices = ET.SubElement(top, "Choices", name=LABEL, toName=view, choice="single", showInline="true")
        for name in sheet.choices:
            ET.SubElement(choices, "Choice", value=name)
        return as_xml(top)

    def wrote(self, content: Content) -> bool:
        return isinstance(content, list) and any(
            ("data" in row and "annotations" in row) or ("sample_id" in row and "annotation_id" in row)
            for row in content
        )

    def answers(self, content: Content, where: str) -> Answers:
        assert isinstance(content, list)
        if any("annotation_id" in row for row in content):
            raise InputError(
                f"{where} must be Label Studio's export JSON; got JSON-MIN, which does not tell samples that were "
                "skipped from the others. Export the project again as JSON."
            )
        return Answers([answer for place, row in enumerate(content) for answer in _answers(row, _in(place, where))])


def _view(sheet: Sheet) -> str:
    return "image" if sheet.images else "text"


def _in(place: int, where: str) -> str:
    return f"task {place + 1} of {where}"


def _task(item: Item, view: str, run: str) -> dict[str, Any]:
    choice = {"id": "suggestion", "type": "choices", "from_name": LABEL, "to_name": view}
    suggestion = choice | {"value": {"choices": [item.suggested]}}
    return {
        # What is in the data is a column of the data manager, to sort and filter by, and is exported.
        "data": {view: item.view, **item.about(), "suggested_label": item.suggested, "selc_run": run},
        "predictions": [
            {"model_version": f"selc {selc.__version__}", "score": item.confidence, "result": [suggestion]}
        ],
    }


def _answers(row: dict[str, Any], where: str) -> list[Answer]:
    """One for each annotator. Predictions are not read: an export reduces them to numbers."""
    data, annotations = row.get("data"), row.get("annotations", [])
    about = (text_of(data, "selc_run", where), text_of(data, "given_label", where))
    sample = text_of(data, "sample_id", where)
    if not isinstance(annotations, list) or not all(isinstance(made, dict) for made in annotations):
        raise InputError(f"{where} must have a list of annotations; got {annotations!r:.80}.")
    made = [Answer(sample, _chosen(a, where), *about) for a in annotations]
    return made or [Answer(sample, (), *about)]


def _chosen(annotation: dict[str, Any], where: str) -> tuple[str, ...]:
    if annotation.get("was_cancelled"):  # skipped
        return ()
    results = annotation.get("result")
    if not isinstance(results, list) or not all(isinstance(result, dict) for result in results):
        raise InputError(f"{where} must have annotations with results; got {results!r:.80}.")
    labels: list[str] = []
    for result in results:
        if result.get("type") == "choices" and result.get("from_name") == LABEL:
            value = result.get("value")
            labels += chosen_of(value.get("choices") if isinstance(value, dict) else None, where)
    return tuple(dict.fromkeys(labels))

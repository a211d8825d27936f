"""What each tool exports after a person has answered, by its documented structure; None: the sample was skipped."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping
from typing import Any

Choices = Mapping[str, str | None]  # by the id of the sample


def label_studio(tasks: str, choices: Choices) -> str:
    def annotation(number: int, choice: str | None, view: str) -> dict[str, Any]:
        result = {"id": f"r{number}", "type": "choices", "from_name": "label", "to_name": view, "origin": "manual"}
        return {
            "id": number,
            "completed_by": 1,
            "result": [] if choice is None else [{**result, "value": {"choices": [choice]}}],
            "was_cancelled": choice is None,
            "ground_truth": False,
            "lead_time": 4.2,
        }

    exported = []
    for number, task in enumerate(json.loads(tasks)):
        view = "image" if "image" in task["data"] else "text"
        made = annotation(number, choices[task["data"]["sample_id"]], view)
        # Predictions come back as mere numbers (label-studio#5654).
        beside = {"predictions": [number], "drafts": [], "meta": {}, "total_annotations": 1, "project": 7}
        exported.append({"id": number, "annotations": [made], "data": task["data"], **beside})
    return json.dumps(exported)


def prodigy(tasks: str, choices: Choices) -> str:
    lines = []
    for line in tasks.splitlines():
        task = json.loads(line)
        choice = choices[task["meta"]["sample_id"]]
        answered = {"answer": "ignore"} if choice is None else {"answer": "accept", "accept": [choice]}
        hashes = {"_input_hash": 17, "_task_hash": 18, "_view_id": "choice", "_timestamp": 1700000000}
        lines.append(json.dumps({**task, **hashes, **answered}))
    return "\n".join(lines) + "\n"


def doccano(tasks: str, choices: Choices) -> str:
    lines = []
    for number, line in enumerate(tasks.splitlines()):
        task = json.loads(line)
        choice = choices[task["sample_id"]]
        meta = {key: value for key, value in task.items() if key not in ("text", "label")}
        labels = [] if choice is None else [choice]
        lines.append(json.dumps({"id": number, "text": task["text"], **meta, "label": labels, "Comments": []}))
    return "\n".join(lines) + "\n"


def cvat(tasks: str, choices: Choices) -> str:
    """Who agrees ticks the box; who does not puts another tag in the place of the suggestion."""
    imported = ET.fromstring(tasks)
    top = ET.Element("annotations")
    ET.SubElement(top, "version").text = "1.1"
    ET.SubElement(ET.SubElement(ET.SubElement(top, "meta"), "task"), "name").text = "review"
    for image in imported.iter("image"):
        tag = image.find("tag")
        assert tag is not None
        choice = choices[image.get("name", "")]
        if choice == tag.get("label"):
            ticked = next(a for a in tag if a.get("name") == "checked")
            ticked.text = "true"
        elif choice is not None:
            image.remove(tag)
            new = ET.SubElement(image, "tag", label=choice, source="manual")
            for name, value in (("checked", "false"), ("given_label", ""), ("label_quality", "")):
                ET.SubElement(new, "attribute", name=name).text = value
        top.append(image)
    return ET.tostring(top, encoding="unicode")


ANSWERED: dict[str, Callable[[str, Choices], str]] = {
    "label-studio": label_studio,
    "prodigy": prodigy,
    "doccano": doccano,
    "cvat": cvat,
}

"""doccano: texts as JSON lines, its labels as JSON, and its exports JSONL and JSON for text classification.

A label that was imported looks like one that a person chose, so suggestions are not imported as labels: they stand
beside the text, as metadata.
"""

from __future__ import annotations

import json

from selc.review.exchange.tools.base import TOOLS, Answer, Answers, Content, Sheet, Tool, as_list, chosen_of, text_of


@TOOLS.register("doccano")
class Doccano(Tool):
    """doccano: texts, with the suggestions as metadata beside them."""

    shows = "texts"
    ending, setup_ending = ".jsonl", ".json"
    steps = "make a project for text classification, import the setup as labels and the tasks as JSONL; export JSONL"

    def tasks(self, sheet: Sheet) -> str:
        rows = (
            {
                "text": item.view,
                "label": [],
                **item.about(),
                "suggested_label": item.suggested,
                "suggested_confidence": item.confidence,
                "selc_run": sheet.run,
            }
            for item in sheet.items
        )
        return "".join(json.dumps(row, allow_nan=False) + "\n" for row in rows)

    def setup(self, sheet: Sheet) -> str:
        return as_list([{"text": name} for name in sheet.choices])

    def wrote(self, content: Content) -> bool:
        return isinstance(content, list) and any("label" in row and "text" in row for row in content)

    def answers(self, content: Content, where: str) -> Answers:
        assert isinstance(content, list)
        made = []
        for place, row in enumerate(content):
            here = f"row {place + 1} of {where}"
            labels = chosen_of(row.get("label"), here)
            about = (text_of(row, "selc_run", here), text_of(row, "given_label", here))
            made.append(Answer(text_of(row, "sample_id", here), labels, *about))
        return Answers(made)

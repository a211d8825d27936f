"""Prodigy: tasks for its interface `choice` as JSON lines, and the same with answers (`prodigy db-out`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from selc.errors import InputError
from selc.review.exchange.tools.base import TOOLS, Answer, Answers, Content, Item, Sheet, Tool, chosen_of, text_of

ANSWERS = ("accept", "reject", "ignore")


@TOOLS.register("prodigy")
class Prodigy(Tool):
    """Prodigy: images and texts, with the suggestions selected in its interface choice."""

    ending = ".jsonl"
    steps = "prodigy mark NAME TASKS --view-id choice; then prodigy db-out NAME > answers.jsonl"

    def prefix(self, root: Path) -> str:
        return f"{root.resolve()}/"

    def tasks(self, sheet: Sheet) -> str:
        options = [{"id": name, "text": name} for name in sheet.choices]
        view = "image" if sheet.images else "text"
        tasks = (_task(item, view, options, sheet.run) for item in sheet.items)
        return "".join(json.dumps(task, allow_nan=False) + "\n" for task in tasks)

    def wrote(self, content: Content) -> bool:
        return isinstance(content, list) and any("answer" in row for row in content)

    def answers(self, content: Content, where: str) -> Answers:
        assert isinstance(content, list)
        made, rejected = [], 0
        for place, row in enumerate(content):
            here = f"line {place + 1} of {where}"
            if row.get("answer") not in ANSWERS:
                raise InputError(f"{here} must have an answer {', '.join(ANSWERS)}; got {row.get('answer')!r:.80}.")
            labels = chosen_of(row.get("accept", []), here) if row["answer"] == "accept" else ()
            rejected += row["answer"] == "reject"
            meta = row.get("meta")
            about = (text_of(row, "selc_run", here), text_of(meta, "given_label", here))
            made.append(Answer(text_of(meta, "sample_id", here), labels, *about))
        note = f"{rejected} samples were rejected, which does not say which label is right; they count as not judged"
        return Answers(made, [note] if rejected else [])


def _task(item: Item, view: str, options: list[dict[str, str]], run: str) -> dict[str, Any]:
    meta = {**item.about(), "score": item.confidence}  # shown below the sample
    return {view: item.view, "options": options, "accept": [item.suggested], "meta": meta, "selc_run": run}

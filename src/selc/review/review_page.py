"""One file that holds the page, its script and its pictures; whatever the user wrote is data and never markup."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.resources import files
from pathlib import Path
from shlex import quote
from typing import Any, NamedTuple

from selc._io.files import write_text
from selc.analysis.findings import ACTIONS, Findings
from selc.data import Bundle
from selc.errors import ConfigError
from selc.registry import is_import
from selc.review.alike import Alike, look_alikes
from selc.review.order_of_work import most_valuable
from selc.review.pictures import (
    FEW_LETTERS,
    LARGE,
    LETTERS,
    SMALL,
    cells,
    file_links,
    free_texts,
    shows_images,
    thumbnails,
)
from selc.runs.config import ARRAYS
from selc.runs.decisions import FORMAT, check_unique, fingerprint
from selc.runs.door import source
from selc.runs.folder import RunFolder
from selc.runs.job import load
from selc.runs.telling_words import telling_words

EMBEDDED = 400  # samples whose pictures are in the page, where the others can be shown from their files
MOST = 5_000  # where there are no files
DIGITS = 6  # after the point, of a confidence and of a quality


class Written(NamedTuple):
    """What was made."""

    path: Path
    samples: int
    size: int  # in bytes
    pictures: bool


def write_review(
    run: RunFolder, out: Path | None = None, *, count: int = 500, alike: int = 3, bundle: Bundle | None = None
) -> Written:
    """Write the review page of a finished run; ``bundle`` is its data, if that was loaded before."""
    if count < 1:
        raise ConfigError(f"--top must be at least 1 sample; got {count}.")
    findings = run.findings()
    check_unique(run.ids, str(run.path))
    if bundle is None and run.config.data.name != ARRAYS:
        # Code of the user's own is not imported for a page: the folder may be from somebody else.
        bundle = source(run.config) if is_import(run.config.encoder.name) else load(run.config)
    if bundle is not None:
        run.check_data(bundle.digest, len(bundle.labels))
    rows = most_valuable(findings, count)
    path = out or run.path / "review.html"
    content = _content(run, findings, bundle, rows, alike, path)
    text = page(content)
    write_text(path, text)
    return Written(path, len(rows), len(text.encode()), bool(content["pictures"]))


def page(content: dict[str, Any]) -> str:
    """The page for ``content``, as one text."""
    parts = {name: _asset(f"page.{name}") for name in ("css", "js")}
    policy = "; ".join(
        (
            "default-src 'none'",
            "img-src data: 'self' file:",  # files of the data beside the page, which no text in it can name
            f"style-src '{_hash(parts['css'])}'",
            f"script-src '{_hash(parts['js'])}'",  # nothing else may run, whatever is in the data
            "base-uri 'none'",
            "form-action 'none'",
        )
    )
    parts |= {"policy": policy, "data": as_data(packed(content))}
    # One pass: a name in the data that looks like a mark of the template is left alone.
    return re.sub(r"\{\{(\w+)\}\}", lambda mark: parts[mark[1]], _asset("page.html"))


def packed(content: dict[str, Any]) -> dict[str, Any]:
    """The content with its samples by column, classes and zones as numbers: a page of 100,000 is a quarter as long.

    What only the first samples have (look-alikes) is by key. Of a link stays what comes after the part that all links
    share: 0 where that is the id, null where there is no link.
    """
    samples, links = content["samples"], content["links"]
    number = {name: k for k, name in enumerate(content["classes"])}
    start = os.path.commonprefix([*links.values()])  # noqa: RUF071 (of letters: what follows the last / is cut off)
    start = start[: start.rfind("/") + 1]
    tails = [links[s["key"]][len(start) :] if s["key"] in links else None for s in samples]
    columns = {
        "id": [s["id"] for s in samples],
        "key": [int(s["key"]) for s in samples],
        "given": [number[s["given"]] for s in samples],
        "suggested": [number[s["suggested"]] for s in samples],
        "zone": [ACTIONS.index(s["zone"]) for s in samples],
        "confidence": [round(s["confidence"], DIGITS) for s in samples],
        "quality": [round(s["quality"], DIGITS) for s in samples],
        "link": [0 if tail == s["id"] else tail for s, tail in zip(samples, tails, strict=True)] if links else [],
    }
    near = {s["key"]: [s.get("nearer"), s["alike"]] for s in samples if s["alike"]}
    return {**content, "samples": columns, "links": start, "near": near, "zones": list(ACTIONS)}


def as_data(content: Any) -> str:
    """JSON that can stand inside a script element: no sign in it begins or ends markup."""
    text = json.dumps(content, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("&", r"\u0026").replace("<", r"\u003c").replace(">", r"\u003e")


def _content(
    run: RunFolder, findings: Findings, bundle: Bundle | None, rows: list[int], alike: int, path: Path
) -> dict[str, Any]:
    ids, names = run.ids, run.classes
    links = file_links(run, rows, path)
    first = rows[: EMBEDDED if links else MOST]  # a page of 100,000 opens at once: the first pictures are in it
    near = look_alikes(run, bundle, findings, first, alike) if bundle is not None else [[] for _ in first]
    shown = _views(bundle, first, near)
    if bundle is not None and shown.texts:
        _add_words(shown.texts, run, findings, bundle, first)
    near += [[] for _ in rows[len(first) :]]
    columns = findings.columns(ids, names)
    samples = [
        {
            **sample(findings, columns, row, ids, names),
            "alike": [
                {"label": names[a.label], "rows": [{"id": ids[r], "key": str(r)} for r in a.rows]} for a in near[k]
            ],
            "nearer": near[k][0].distance - near[k][1].distance if len(near[k]) == 2 else None,
        }
        for k, row in enumerate(rows)
    ]
    return {
        "format": FORMAT,
        "run": fingerprint(run),
        "name": run.path.resolve().name,
        "total": len(ids),
        "classes": list(names),
        "samples": samples,
        "links": links,
        "apply": f"selc apply {quote(str(run.path))} --decisions decisions.json",
        **asdict(shown),
    }


def sample(
    findings: Findings, columns: Mapping[str, Any], row: int, ids: Sequence[Any], names: Sequence[Any]
) -> dict[str, Any]:
    """What is said of one sample; ``columns`` are those of the findings."""
    return {
        "id": ids[row],
        "given": names[int(findings.given[row])],
        "suggested": names[int(findings.suggested[row])],
        "confidence": float(columns["suggested_confidence"][row]),
        "quality": float(columns["label_quality"][row]),
        "zone": ACTIONS[findings.action[row]],
        "key": str(row),
    }


@dataclass(frozen=True)
class _Views:
    """What there is to see, by row: pictures of the samples and of their look-alikes, or texts and cells of both."""

    pictures: dict[str, str] = field(default_factory=dict)
    small: dict[str, str] = field(default_factory=dict)
    texts: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    tables: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    beside: dict[str, dict[str, list[str]]] = field(default_factory=dict)  # of look-alikes, in the cells of the sample


def _views(bundle: Bundle | None, rows: list[int], near: list[list[Alike]]) -> _Views:
    if bundle is None:
        return _Views()
    others = sorted({row for groups in near for group in groups for row in group.rows})
    if shows_images(bundle):
        large, small = thumbnails(bundle, rows, LARGE), thumbnails(bundle, others, SMALL)
        return _Views(_by_row(rows, large), _by_row(others, small))
    only_alike = sorted({*others} - {*rows})
    small_texts, large_texts = free_texts(bundle, only_alike, FEW_LETTERS), free_texts(bundle, rows, LETTERS)
    texts = _by_row(only_alike, small_texts) | _by_row(rows, large_texts)
    of_rows = [[row, *(k for group in groups for k in group.rows)] for row, groups in zip(rows, near, strict=True)]
    shown = cells(bundle, of_rows)
    tables = {str(row): seen[0] for row, seen in zip(rows, shown, strict=True)}
    beside = {
        str(row): {str(other): [value for _, value in cell] for other, cell in zip(alike, seen[1:], strict=True)}
        for (row, *alike), seen in zip(of_rows, shown, strict=True)
        if seen[0] and alike
    }
    return _Views(texts=texts, tables=tables, beside=beside)


def _add_words(
    texts: dict[str, list[tuple[str, str]]], run: RunFolder, findings: Findings, bundle: Bundle, rows: list[int]
) -> None:
    """Put beside each text the words that speak for its suggestion."""
    suggested, given = findings.suggested[rows].tolist(), findings.given[rows].tolist()
    for row, label, words in zip(rows, suggested, telling_words(run, bundle, rows, suggested, given), strict=True):
        if words:
            texts[str(row)] = [*texts[str(row)], (f"words for {run.classes[label]}", ", ".join(words))]


def _by_row(rows: list[int], values: list[Any]) -> dict[str, Any]:
    return dict(zip(map(str, rows), values, strict=True))


def _asset(name: str) -> str:
    return (files("selc.review") / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()

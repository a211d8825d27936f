"""The most suspicious samples of a run, with what can be shown of them: pictures, or rows of text and numbers."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from selc.analysis.findings import ACTIONS
from selc.data import Bundle, ImageInputs
from selc.data.sources.originals import small_enough, stored_pictures
from selc.errors import InputError, SelcError
from selc.report.cells import cells_at
from selc.report.cells import written as written_number
from selc.report.reading import Snapshot
from selc.report.sentences import worst_to_look_at
from selc.report.style import abridged, shortened
from selc.runs.config import ARRAYS, Choice
from selc.runs.door import source
from selc.runs.telling_words import telling_words

SHOWN = 60  # samples on a page
NOTHING_SUSPICIOUS = 12  # samples to look at where none is suspicious
SIDE = 160  # pixels of a thumbnail; a larger image is made smaller
CRISP = 64  # pixels up to which an image is shown as it is, each pixel a square
COLUMNS = 8  # of a row of a table; text comes first
WORDS = "words for the suggestion"
LETTERS = 600  # of a free text
_NAME = 120  # letters of a sample's name


@dataclass(frozen=True)
class Card:
    """A sample of the gallery."""

    row: int
    name: str
    given: str
    suggested: str
    quality: float
    confidence: float
    action: str
    picture: str = ""  # a data URI
    texts: tuple[str, ...] = ()  # beginnings of the cells
    numbers: tuple[str, ...] = ()


@dataclass(frozen=True)
class Gallery:
    """Samples in the order of suspicion, and a sentence if there is less to see than there should be."""

    cards: list[Card] = field(default_factory=list)
    suspicious: int = 0  # in all of the data
    texts: tuple[str, ...] = ()  # names of the columns of text
    columns: tuple[str, ...] = ()  # names of the numbers
    more_columns: int = 0
    crisp: bool = False
    remark: str = ""


def gallery(run: Snapshot, count: int = SHOWN, data: str | None = None, bundle: Bundle | None = None) -> Gallery:
    """The ``count`` most suspicious samples of a run.

    The data are read again from where the run had them, or from the path ``data``, or are those of ``bundle``. If
    they are not there any more, the samples are shown by name, and the remark says why.
    """
    found = run.verdicts
    if found is None:
        return Gallery(remark="No epoch has been saved yet, so no sample is suspicious so far.")
    issues = found.is_issue
    order = found.quality.argsort(stable=True)
    suspects = order[issues[order]]
    least = worst_to_look_at(run, found) or (0 if len(suspects) else NOTHING_SUSPICIOUS)
    rows = torch.cat([suspects, order[~issues[order]][: max(0, least - len(suspects))]])[:count]
    ids, classes = run.ids, [shortened(name, _NAME) for name in run.classes]
    cards = [
        Card(
            row,
            shortened(ids[row], _NAME),
            classes[int(found.given[row])],
            classes[int(found.suggested[row])],
            float(found.quality[row]),
            float(found.confidence[row]),
            ACTIONS[int(found.action[row])],
        )
        for row in rows.tolist()
    ]
    plain = Gallery(cards, int(issues.sum()))
    if not cards:
        return plain
    if bundle is None and run.config.data.name == ARRAYS:
        return replace(
            plain,
            remark="The run was started from Python with arrays, which are not in its folder, so that the samples can "
            "only be named by their rows.",
        )
    try:
        return _illustrated(plain, run, bundle or _load(run, data), rows)
    except (SelcError, OSError) as error:
        reason = (error.for_command if isinstance(error, SelcError) else str(error)).strip().rstrip(".")
        return replace(
            plain,
            remark=f"The samples cannot be shown, because their data were not found as they were ({reason}); "
            "if they have moved, name their new place: selc report RUN --data PATH.",
        )


def _load(run: Snapshot, place: str | None) -> Bundle:
    """The data of the run, from ``place`` if they have moved."""
    config = run.config
    if place is None:
        return source(config)
    options = config.data.options
    key = next((key for key in ("path", "root") if key in options), None)
    if key is None:
        raise InputError(f"--data is for data that lie in a file or folder; got it with {config.data.name!r}")
    moved = Choice(name=config.data.name, **{**options, key: place})
    return source(config.model_copy(update={"data": moved}))


def _illustrated(plain: Gallery, run: Snapshot, bundle: Bundle, rows: Tensor) -> Gallery:
    places, remark = _places(run, bundle, rows)
    there = [k for k, place in enumerate(places) if place is not None]
    if not there:
        raise InputError("none of the samples is there")
    chosen = torch.tensor([places[k] for k in there])
    inputs = bundle.inputs
    pictures = bundle.pictures or (stored_pictures(inputs) if len(bundle.shape) == 3 else None)
    if pictures is not None:
        images = pictures(chosen.tolist(), SIDE)
        cards = list(plain.cards)
        for k, image in zip(there, images, strict=True):
            cards[k] = replace(cards[k], picture=thumbnail(image))
        crisp = small_enough(images, CRISP)
        return replace(plain, cards=cards, crisp=crisp, remark=remark)
    found = cells_at(bundle, chosen.tolist())
    free = {name: [abridged(text.strip(), LETTERS) for text in column] for name, column in found.free.items()}
    texts = dict(list({**free, **found.texts}.items())[:COLUMNS])
    if run.verdicts is not None and (words := _words(run, bundle, chosen, rows[torch.tensor(there)])):
        texts = {WORDS: words, **dict(list(texts.items())[: COLUMNS - 1])}
    left = COLUMNS - len(texts)
    cards = list(plain.cards)
    for k, row in enumerate(there):
        written = tuple(column[k] for column in texts.values())
        numbers = tuple(map(written_number, found.numbers[k, :left].tolist()))
        cards[row] = replace(cards[row], texts=written, numbers=numbers)
    short = [tuple(shortened(name, 40) for name in names) for names in (texts, found.names[:left])]
    more = max(0, len(found.free) + len(found.texts) + len(found.names) - COLUMNS)
    return replace(plain, cards=cards, texts=short[0], columns=short[1], more_columns=more, remark=remark)


def _words(run: Snapshot, bundle: Bundle, chosen: Tensor, rows: Tensor) -> list[str]:
    """The words of each text that speak for its suggestion; nothing where there are none in any."""
    assert run.verdicts is not None
    suggested, given = (labels[rows].tolist() for labels in (run.verdicts.suggested, run.verdicts.given))
    found = [", ".join(words) for words in telling_words(run, bundle, chosen.tolist(), suggested, given)]
    return found if any(found) else []


def _places(run: Snapshot, bundle: Bundle, rows: Tensor) -> tuple[list[int | None], str]:
    """Where the samples lie in the data as they are now: by row if nothing has changed, else pictures by name."""
    try:
        run.check_data(bundle.digest, len(bundle.labels))
    except SelcError:
        if bundle.ids is None or (bundle.pictures is None and not isinstance(bundle.inputs, ImageInputs)):
            raise
        now = {name: row for row, name in enumerate(bundle.ids)}
        ids = run.ids
        places = [now.get(ids[row]) for row in rows.tolist()]
        lost = sum(place is None for place in places)
        remark = "The data have changed since the run; pictures are those that now have the names of the samples"
        return places, remark + (f", and {lost} of {len(places)} are no longer there." if lost else ".")
    return list(rows.tolist()), ""


def thumbnail(pixels: Tensor) -> str:
    """An image, uint8 [K, H, W], as a data URI: small ones without loss, others as JPEG of at most `SIDE` pixels."""
    from PIL import Image

    array = pixels.permute(1, 2, 0).contiguous().numpy()
    image = Image.fromarray(array[:, :, 0] if array.shape[2] == 1 else array)
    buffer = io.BytesIO()
    if max(image.size) <= CRISP:
        image.save(buffer, "PNG", optimize=True)
        kind = "png"
    else:
        image.thumbnail((SIDE, SIDE))
        image.save(buffer, "JPEG", quality=80, optimize=True)
        kind = "jpeg"
    return f"data:image/{kind};base64,{base64.b64encode(buffer.getvalue()).decode()}"

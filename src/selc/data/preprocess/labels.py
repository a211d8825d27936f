"""Labels as people write them, as numbers of classes: names sorted, numbers sorted as numbers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor

from selc.errors import InputError

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
NAMED = 5  # classes or rows that a sentence names
Where = Callable[[int], str]  # the place of a row in words: a file, a line


def tidied(labels: Iterable[object]) -> list[str]:
    """Labels as text without spaces around them; None is empty, and 1.0, 2.0, ... are whole numbers."""
    texts = ["" if label is None else str(label).strip() for label in labels]
    texts = ["" if text == "<NA>" else text for text in texts]  # how pandas writes what is not there
    whole = re.compile(r"-?\d+\.0+")
    if all(is_missing(text) or whole.fullmatch(text) for text in texts):
        return [text.partition(".")[0] for text in texts]
    return texts


def is_missing(label: str) -> bool:
    return not label or label.lower() == "nan"


def bad_labels(
    labels: Sequence[str], classes: Sequence[str] | None, what: str, where: Where, skip_bad: bool
) -> dict[int, str]:
    """The rows without a label, or with one that is none of ``classes`` where these are known; each with a reason.

    Without ``skip_bad`` there are none: they are an error.
    """
    missing = [row for row, label in enumerate(labels) if is_missing(label)]
    if missing and not skip_bad:
        raise InputError(
            f"every row of {what} must have a label; got {len(missing)} of {len(labels)} without, first "
            f"{where(missing[0])}. Fill it in, or go on without such rows by --skip-bad (skip_bad=True)."
        )
    bad = dict.fromkeys(missing, "it has no label")
    if classes is not None:
        known = set(classes)
        strange = [row for row, label in enumerate(labels) if label not in known and row not in bad]
        if strange and not skip_bad:
            names = class_names(labels[row] for row in strange)
            raise InputError(
                f"the labels of {what} must be known classes, such as {', '.join(map(repr, classes[:3]))}; got "
                f"{_listed(names)} in {len(strange)} of {len(labels)} rows, first {where(strange[0])}. "
                "Correct them, or go on without such rows by --skip-bad (skip_bad=True)."
            )
        bad |= {row: f"its label {labels[row]!r} is none of the classes" for row in strange}
    return bad


def class_names(labels: Iterable[str]) -> tuple[str, ...]:
    """The different labels, in order: by number if all are numbers, else by name."""
    names = set(labels)
    try:
        return tuple(sorted(names, key=lambda name: (float(name), name)))
    except ValueError:
        return tuple(sorted(names))


def checked_classes(labels: Sequence[str], what: str = "the data") -> tuple[str, ...]:
    """The classes of training data, or an error where they cannot be classes."""
    classes = class_names(labels)
    if len(classes) < 2:
        got = f"only {classes[0]!r}" if classes else "no label at all"
        raise InputError(f"the labels of {what} must name at least two classes; got {got}. There is nothing to tell.")
    if len(labels) >= 20 and 2 * len(classes) > len(labels):
        raise InputError(
            f"labels must be classes, which repeat; got {len(classes)} different ones in {len(labels)} rows of {what}, "
            f"such as {classes[0]!r} and {classes[-1]!r}. Is that the column (or the folder) of the labels?"
        )
    return classes


def encode(labels: Sequence[str], classes: Sequence[str]) -> Tensor:
    """The number of each label's class, [N]."""
    number = {name: k for k, name in enumerate(classes)}
    return torch.tensor([number[label] for label in labels], dtype=torch.int64)


def notes_on(labels: Tensor, classes: Sequence[str]) -> list[str]:
    """What is worth knowing before a training: classes that are hardly there, or that may be one and the same."""
    notes = []
    counts = torch.bincount(labels, minlength=len(classes)).tolist()
    single = [name for name, count in zip(classes, counts, strict=True) if count == 1]
    if single:
        notes.append(
            f"{_classes(len(single))} one sample only ({_listed(single)}): little can be learnt of such a class, "
            "and nothing can confirm its label"
        )
    alike = [name for name, times in Counter(name.casefold() for name in classes).items() if times > 1]
    if alike:
        pair = [name for name in classes if name.casefold() == alike[0]]
        notes.append(f"{' and '.join(map(repr, pair))} differ only in upper and lower case; they count as two classes")
    if same := _one_number(classes):
        more = f" (and {len(same) - 1} more such)" if len(same) > 1 else ""
        notes.append(
            f"{' and '.join(map(repr, same[0]))} are one number written in different ways{more}; they count as "
            "different classes: write them alike if they are one"
        )
    return notes


def _one_number(classes: Sequence[str]) -> list[list[str]]:
    """Classes whose names are the same number, such as 1 and 1.0."""
    known: dict[float, list[str]] = {}
    for name in classes:
        if _NUMBER.fullmatch(name):
            known.setdefault(float(name), []).append(name)
    return [names for names in known.values() if len(names) > 1]


def _classes(count: int) -> str:
    return "1 class has" if count == 1 else f"{count} classes have"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names[:NAMED]) + (" and others" if len(names) > NAMED else "")

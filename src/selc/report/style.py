"""What the figures share: their size, colours and fonts, how they are saved, and what they ask of a run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from torch import Tensor

from selc._io.files import write_whole
from selc.errors import ConfigError, InputError
from selc.runs import RunFolder

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 7.0  # inches: the text width of a page
DPI = 200  # of a PNG
TEXT, SMALL = 9.0, 8.0  # points: titles and names of axes; ticks and remarks

# Okabe and Ito's colours, which colour-blind readers can tell apart.
BLACK, ORANGE, GREEN, BLUE, VERMILLION, PURPLE = "#000000", "#E69F00", "#009E73", "#0072B2", "#D55E00", "#CC79A7"

# Without the date and the version of matplotlib, equal figures are equal bytes.
_METADATA: dict[str, dict[str, str | None]] = {
    "png": {"Software": None},
    "svg": {"Creator": None, "Date": None},
    "pdf": {"Creator": None, "Producer": None, "CreationDate": None},
}


def panels(
    rows: int, columns: int, height: float, layout: Literal["constrained", "compressed"] = "constrained"
) -> tuple[Figure, list[list[Axes]]]:
    """An empty figure and its panels by row and column, on shared axes; no global state of pyplot is touched."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise ConfigError(
            "a figure needs matplotlib; got no such package. Install it: pip install 'selc[report]'."
        ) from None
    figure = Figure(figsize=(WIDTH, height), facecolor="white", layout=layout)
    grid: list[list[Axes]] = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True).tolist()
    for axes in (axes for row in grid for axes in row):
        axes.tick_params(labelsize=SMALL)
        axes.spines[["top", "right"]].set_visible(False)
    return figure, grid


def entitle(axes: Axes, title: str, x: str = "", y: str = "") -> None:
    """Say what a panel shows. A name of the user's is taken as it is: a dollar sign in it is no formula."""
    axes.set_title(title, fontsize=TEXT, parse_math=False)
    axes.set_xlabel(x, fontsize=TEXT)
    axes.set_ylabel(y, fontsize=TEXT)


def shortened(name: str, length: int) -> str:
    """A name of at most ``length`` letters: what is too long loses its middle, since ends tell names apart."""
    if len(name) <= length:
        return name
    end = (length - 1) // 2
    return f"{name[: length - 1 - end]}…{name[len(name) - end :]}"


def abridged(text: str, length: int) -> str:
    """A text of at most ``length`` letters: what is too long loses its middle, between two words where there are some.

    >>> abridged("the leads shine and the music stays with you", 34)
    'the leads shine … stays with you'
    """
    if len(text) <= length:
        return text
    end = (length - 3) // 2
    head, tail = text[: length - 3 - end], text[len(text) - end :]
    if not text[len(head)].isspace():  # a word that would be cut goes
        head = re.sub(r"\s+\S*\Z", "", head)
    if not text[-end - 1].isspace():
        tail = re.sub(r"\A\S*\s+", "", tail)
    return f"{head.rstrip()} … {tail.lstrip()}"


def printable(text: str) -> str:
    """Letters that control a screen, and are not allowed in a page, become boxes."""
    return re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]", "\N{REPLACEMENT CHARACTER}", text)


def true_labels(run: RunFolder, figure: str) -> Tensor:
    """The true labels of a run, for a figure that cannot do without."""
    true = run.true
    if true is None:
        raise InputError(f"{figure} needs the true labels of the run; got {run.path}, which holds only the given ones.")
    return true


def save(figure: Figure, path: Path | str) -> None:
    """Write a figure as PNG, SVG or PDF, by the ending of ``path``: whole or not at all, equal ones as equal bytes."""
    import matplotlib

    path = Path(path)
    ending = path.suffix.lower().removeprefix(".")
    if ending not in _METADATA:
        raise ConfigError(f"a figure's file must end in .png, .svg or .pdf; got {path.name!r}.")
    # The salt fixes the names inside an SVG; fonts of type 42 are the ones that publishers take.
    with matplotlib.rc_context({"svg.hashsalt": "selc", "pdf.fonttype": 42, "savefig.bbox": None}):
        write_whole(path, lambda p: figure.savefig(p, format=ending, dpi=DPI, metadata=_METADATA[ending]))

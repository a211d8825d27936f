"""The page of `judge.py`: what failed first, then the figures of each promise, then every cell."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from statistics import NormalDist, mean, median
from typing import Any

import numpy as np

from judge_data import jobs
from machine import processors

Line = dict[str, Any]
CHANCE = 0.05
POINT = 0.01
RANKINGS = {"ap_folds": "five folds", "ap_aum": "AUM", "ap_ce_mean": "mean over CE"}


def page(lines: list[Line]) -> str:
    text = [
        "# The judge",
        "",
        "All defaults, `python benchmarks/judge.py`. A cell is a data set with a noise; its seeds are taken together. "
        "Clean test accuracy of the last epoch, in per cent, unless said otherwise. Which data were in view while "
        "rules were chosen (the first half) and which never are (the third set) is fixed in judge.toml. Commits: "
        f"{', '.join(sorted({str(line['commit']) for line in lines}))}. {processors(lines)}",
        "",
    ]
    for half, name in (("first", "first half"), ("second", "second half"), ("third", "third set")):
        planned = list(jobs(half))
        there = {(job.data, job.noise) for job in planned}
        chosen = [line for line in lines if (line["data"], line["noise"]) in there]
        text += [f"# The {name}: {len(chosen)} of {len(planned)} trainings", "", *(_half(chosen) if chosen else [])]
    return "\n".join(text)


def _half(lines: list[Line]) -> list[str]:
    return [
        *_failures(lines),
        *_model(lines),
        *_rate(lines),
        *_ranking(lines),
        *_flagging(lines),
        *_changes(lines),
        *_epochs(lines),
        *_all(lines),
    ]


def _grouped(lines: Iterable[Line], *names: str) -> dict[tuple[str, ...], list[Line]]:
    groups: dict[tuple[str, ...], list[Line]] = defaultdict(list)
    for line in lines:
        groups[tuple(line[name] for name in names)].append(line)
    return dict(groups)


def _cells(lines: Iterable[Line]) -> dict[tuple[str, ...], list[Line]]:
    return _grouped(lines, "data", "noise")


def _by_data(lines: Iterable[Line]) -> dict[str, list[Line]]:
    return {data: part for (data,), part in _grouped(lines, "data").items()}


def holm(chances: dict[Any, float]) -> list[Any]:
    """What is significant among many, by Holm's correction."""
    found: list[Any] = []
    for place, (name, chance) in enumerate(sorted(chances.items(), key=lambda item: item[1])):
        if chance > CHANCE / (len(chances) - place):
            break
        found.append(name)
    return found


def below_ce(cell: Sequence[Line]) -> float:
    """The chance of so few right answers if SELC were but a point below CE, paired over test rows and seeds."""
    lost, won = (sum(line[name] for line in cell) for name in ("only_ce_right", "only_selc_right"))
    rows = sum(line["test_rows"] for line in cell)
    spread = math.sqrt(max(lost + won - (won - lost) ** 2 / rows, 1.0)) / rows
    return NormalDist().cdf(((won - lost) / rows + POINT) / spread)


def fewer_right(cell: Sequence[Line]) -> float:
    """The chance of so many spoilt labels among the changed ones if as many were mended (a sign test)."""
    spoilt, mended = (sum(line[name] for line in cell) for name in ("spoilt", "mended"))
    n = spoilt + mended
    return float(sum(math.comb(n, k) for k in range(spoilt, n + 1)) / 2**n)


def _share(name: str, of: Sequence[Line]) -> float:
    return 100 * mean(line[name] for line in of) if of else math.nan


def _table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    def shown(value: Any) -> str:
        return f"{value:.1f}" if isinstance(value, float) else str(value)

    lines = ["| " + " | ".join(head) + " |", "|" + "|".join("---" for _ in head) + "|"]
    return [*lines, *("| " + " | ".join(map(shown, row)) + " |" for row in rows), ""]


def _row(cell: Sequence[Line]) -> list[Any]:
    line = cell[0]
    rates = [one["noise_rate"] for one in cell]
    ranges = "; ".join("none" if r is None else f"{100 * r['low']:.1f} to {100 * r['high']:.1f}" for r in rates)
    starts = [(one["decision"] or {}).get("start") for one in cell]
    return [
        *(line["data"], line["noise"], len(cell), line["rows"], _share("wrong", cell), ranges),
        *(
            _share(name, cell)
            for name in ("accuracy_ce", "accuracy_ce_best", "accuracy", "right_before", "right_after")
        ),
        f"{', '.join('none' if s is None else f'{s:g}' for s in starts)} of {line['epochs']}",
    ]


HEAD = (
    *("data", "noise", "seeds", "rows", "wrong", "range", "CE", "CE best in hindsight", "SELC"),
    *("labels right before", "after", "start"),
)


def _failures(lines: list[Line]) -> list[str]:
    cells = _cells(lines)
    worse = holm({name: below_ce(cell) for name, cell in cells.items()})
    spoilt = holm({name: fewer_right(cell) for name, cell in cells.items()})
    clean = [name for name, cell in cells.items() if cell[0]["wrong"] == 0 and _share("changed", cell) >= 0.5]
    text = [
        "## What failed",
        "",
        f"- Significantly more than a point below CE's last epoch (Holm): {len(worse)} of {len(cells)} cells.",
        f"- Significantly fewer right labels after than before (Holm): {len(spoilt)} of {len(cells)} cells.",
        f"- Clean labels of which 0.5 % or more were changed: {len(clean)} cells.",
        "",
    ]
    return [*text, *_table(HEAD, (_row(cells[name]) for name in dict.fromkeys([*worse, *spoilt, *clean])))]


def _model(lines: list[Line]) -> list[str]:
    clean, noisy = [li for li in lines if li["wrong"] == 0], [li for li in lines if li["wrong"] > 0]
    names = {
        "accuracy_ce": "CE, last epoch",
        "accuracy": "SELC",
        "accuracy_ce_best": "CE, best epoch in hindsight, on the rows that it was chosen by",
        "accuracy_ce_hindsight": "CE, best epoch in hindsight, by one half of the test rows, on the other half",
        "accuracy_noisy_stop": "CE stopped by held-out noisy accuracy",
        "accuracy_label_wave": "CE stopped by Label Wave",
        "accuracy_paper": "SELC, the paper's start and alpha",
        "accuracy_logistic": "logistic regression (seed 0)",
        "accuracy_boosting": "boosting (seed 0)",
    }
    rows = []
    for key, name in names.items():
        parts = [[li for li in part if key in li] for part in (clean, noisy)]
        if any(parts):
            rows.append([name, *(_share(key, part) for part in parts), len(parts[0]) + len(parts[1])])
    shares = [_share_of_gain(key, noisy) for key in ("accuracy_ce_best", "accuracy_ce_hindsight")]
    told = (
        "Of what CE's best epoch gains over its last, SELC has {} by the best epoch on the test rows themselves, which "
        "is the best by chance as well, and {} by one that is chosen on the other half of them.".format(*shares)
    )
    return ["## The model", "", *_table(["", "clean labels", "wrong labels", "trainings"], rows), told, ""]


def _share_of_gain(hindsight: str, noisy: list[Line]) -> str:
    there = [line for line in noisy if hindsight in line]
    most = _share(hindsight, there) - _share("accuracy_ce", there)
    gain = _share("accuracy", there) - _share("accuracy_ce", there)
    return f"{100 * gain / most:.0f} %" if there and most > 0 else "no number"


def _covers(line: Line) -> bool:
    rate = line["noise_rate"]
    return bool(rate["low"] - 0.0005 <= line["wrong"] <= rate["high"] + 0.0005)


def _rate(lines: list[Line]) -> list[str]:
    told = [line for line in lines if line["noise_rate"]]
    if not told:
        return []
    widths = [100 * (line["noise_rate"]["high"] - line["noise_rate"]["low"]) for line in told]
    numbers = [line for line in told if line["noise_rate"]["estimate"] is not None]
    theirs = [line for line in lines if "rate_cleanlab" in line]
    by_data = [
        [name, f"{sum(map(_covers, part))} of {len(part)}", *_errors(part), len(part)]
        for name, part in _by_data(told).items()
    ]
    ours, cleanlab = _errors(theirs)
    return [
        "## How many are wrong",
        "",
        f"- The range holds the truth in {sum(map(_covers, told))} of {len(told)} trainings; median width "
        f"{median(widths):.1f} points; a number is named in {100 * len(numbers) / len(lines):.0f} %.",
        f"- Mean distance of the most likely rate from the truth: {ours:.1f} points; cleanlab's estimate from the same "
        f"predictions: {cleanlab:.1f}.",
        "",
        *_table(["data", "range holds the truth", "off by, points", "cleanlab", "trainings"], by_data),
    ]


def _errors(lines: Sequence[Line]) -> tuple[float, float]:
    """Mean distances in points: ours, cleanlab's."""
    both = [line for line in lines if line["noise_rate"] and "rate_cleanlab" in line]
    ours = [100 * abs(line["noise_rate"]["likely"] - line["wrong"]) for line in both]
    theirs = [100 * abs(line["rate_cleanlab"] - line["wrong"]) for line in both]
    return (mean(ours), mean(theirs)) if both else (math.nan, math.nan)


def _ranking(lines: list[Line]) -> list[str]:
    ranked = [line for line in lines if "ap" in line and line["wrong"] >= 0.01]
    rows = []
    for name, part in _by_data(ranked).items():
        averages = {key: mean(line[key] for line in part) for key in ("ap", *RANKINGS)}
        best = max(RANKINGS, key=lambda key: averages[key])
        low, high = _bootstrap([line["ap"] - line[best] for line in part])
        verdict = "ahead" if low > 0 else "behind" if high < 0 else "as good"
        shown = [f"{averages[key]:.3f}" for key in ("ap", *RANKINGS)]
        rows.append([name, *shown, f"{low:+.3f} to {high:+.3f}", verdict])
    head = ["data", "SELC", *RANKINGS.values(), "SELC less the best of them", ""]
    return ["## Which are wrong: average precision of the ranking", "", *_table(head, rows)]


def _bootstrap(values: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of a mean."""
    rng = np.random.default_rng(0)
    means = rng.choice(np.array(values), (2000, len(values))).mean(axis=1)
    return float(np.quantile(means, 0.025)), float(np.quantile(means, 0.975))


def _flagging(lines: list[Line]) -> list[str]:
    both = [line for line in lines if "f1" in line and "f1_cleanlab" in line]
    if not both:
        return []
    counts = np.sum([line["reliability"] for line in lines], axis=0)
    rows = [
        [f"{k / 10:.1f} to {(k + 1) / 10:.1f}", int(n), f"{s / n:.3f}", f"{r / n:.3f}"]
        for k, (n, s, r) in enumerate(counts.T.tolist())
        if n
    ]
    by_data = [
        [name, *(f"{mean(line[key] for line in part):.3f}" for key in ("f1", "f1_cleanlab"))]
        for name, part in _by_data(both).items()
    ]
    return [
        "## Which are flagged",
        "",
        f"Mean F1 over {len(both)} trainings: {mean(line['f1'] for line in both):.3f}; "
        f"`cleanlab.filter.find_label_issues` {mean(line['f1_cleanlab'] for line in both):.3f}.",
        "",
        *_table(["data", "F1", "cleanlab"], by_data),
        "Suggestions of flagged rows: are confidences honest?",
        "",
        *_table(["confidence", "suggestions", "mean confidence", "share that is right"], rows),
    ]


def _changes(lines: list[Line]) -> list[str]:
    from judge import BARS

    noisy, clean = [li for li in lines if li["wrong"] > 0], [li for li in lines if li["wrong"] == 0]
    text = ["## Which are changed", ""]
    for name, part in (("clean", clean), ("wrong", noisy)):
        if part:
            text += [
                f"- {name.capitalize()} labels ({len(part)} trainings): {_share('changed', part):.2f} % changed; right "
                f"{_share('right_before', part):.1f} % before, {_share('right_after', part):.1f} % after; all by the "
                f"paper's start and alpha: {_share('right_after_paper', part):.1f} %.",
            ]
    rows = []
    for place, bar in enumerate(BARS):
        shares = [
            [100 * mean(line["trade"][place][k] / line["rows"] for line in part) for k in (0, 1)]
            for part in (clean, noisy)
            if part
        ]
        rows.append([f"more than {bar}", *(value for pair in shares for value in pair)])
    kinds = [name for name, part in (("clean", clean), ("wrong", noisy)) if part]
    head = [
        "change where confidence is",
        *(f"{what}, {name} labels" for name in kinds for what in ("changed", "right")),
    ]
    return [*text, "", "The trade, if labels were changed by confidence alone:", "", *_table(head, rows)]


def _epochs(lines: list[Line]) -> list[str]:
    """How far the best epoch by noisy held-out labels is from the best by clean test rows."""
    told = [line for line in lines if "best_noisy" in line]
    if not told:
        return []
    key: Callable[[Line], float] = lambda line: 100 * (line["accuracy_ce_best"] - line["accuracy_noisy_stop"])  # noqa: E731
    rows = [
        [name, mean(map(key, part)), max(map(key, part)), mean(abs(li["best_noisy"] - li["best_clean"]) for li in part)]
        for name, part in _by_data(told).items()
    ]
    head = ["data", "points lost on average", "at most", "epochs apart on average"]
    return ["## The best epoch by noisy held-out labels, against the best by clean test rows", "", *_table(head, rows)]


def _all(lines: list[Line]) -> list[str]:
    return ["## All cells", "", *_table(HEAD, map(_row, _cells(lines).values()))]

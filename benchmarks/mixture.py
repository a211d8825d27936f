"""How long our mixture and 2-means take on a million losses, against scikit-learn, as ratios in one run."""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from sklearn.cluster import KMeans
from sklearn.mixture import GaussianMixture

from machine import machine
from selc._io.files import write_text
from selc.runs.folder import environment
from selc.turning.mixture import fit_mixture, normalise, two_means

RESULTS = Path(__file__).parent / "results" / "mixture.md"
TARGET = 50


def losses(count: int) -> torch.Tensor:
    """Losses as in the middle of a training on labels of which 30 % are wrong."""
    rng = torch.Generator().manual_seed(0)
    wrong = torch.rand(count, generator=rng) < 0.3
    low = -torch.rand(count, generator=rng).log() * 0.4
    high = 3.0 + torch.randn(count, generator=rng) * 0.8
    return normalise(torch.where(wrong, high, low), clip=0.001)


def seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    x = losses(arguments.samples)
    column = x.numpy()[:, None]
    rivals: dict[str, tuple[Callable[[], object], Callable[[], object], int | None]] = {
        "fit_mixture / GaussianMixture": (
            lambda: fit_mixture(x),
            lambda: GaussianMixture(2, random_state=0).fit(column),
            TARGET,
        ),
        "two_means / KMeans": (
            lambda: two_means(x),
            lambda: KMeans(2, n_init=1, random_state=0).fit(column),
            None,
        ),
    }
    where = environment()
    lines = [
        "# Mixture",
        "",
        f"Written by `benchmarks/mixture.py` at commit {where['commit']}, {machine(where)}: "
        f"{arguments.samples:,} losses, one thread, "
        f"{arguments.repeats} repeats in turn, processor time; scikit-learn with its default tolerance.",
        "",
        "| ours / theirs | times faster, median | smallest to largest | ours, seconds | theirs, seconds | target |",
        "|---|---|---|---|---|---|",
    ]
    for name, (ours, theirs, target) in rivals.items():
        pairs = [(seconds(ours), seconds(theirs)) for _ in range(arguments.repeats)]
        ratios = [b / a for a, b in pairs]
        mine, other = (statistics.median(side) for side in zip(*pairs, strict=True))
        row = (
            f"| {name} | {statistics.median(ratios):.0f} | {min(ratios):.0f} to {max(ratios):.0f} "
            f"| {mine:.3f} | {other:.2f} | {f'>= {target}' if target else ''} |"
        )
        lines.append(row)
        print(json.dumps({"name": name, "ratios": [round(r, 1) for r in ratios]}), flush=True)
    mixture = fit_mixture(x)
    model = GaussianMixture(2, random_state=0).fit(column)
    likelihood = float(mixture.density(x.double()).sum(0).log().mean())
    lines += ["", f"Log-likelihood per sample: ours {likelihood:.5f}, theirs {model.score(column):.5f}."]
    write_text(arguments.out, "\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()

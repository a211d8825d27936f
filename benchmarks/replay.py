"""Try rules for the start on recorded evidence, in seconds: what each would have chosen, and what CE had there.

`judge.py` leaves the evidence of every cell: what was predicted of held-out rows after each epoch, and, to score with,
the true labels and CE's clean test accuracy after each epoch. A rule is a function from evidence to a look. A new rule
is tried here first; what it is chosen by are the cells of the first half (judge.toml).

    python benchmarks/replay.py runs/judge
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import torch

from selc._io.files import read_tensors
from selc.turning import Evidence, decide

Rule = Callable[[Evidence], int]


def ours(evidence: Evidence) -> int:
    return decide(evidence, evidence.looks).first


def best(evidence: Evidence) -> int:
    """Noisy early stopping: the look with the most held-out labels predicted."""
    return int((evidence.predictions == evidence.labels).double().mean(dim=1).argmax())


def smoothed_best(evidence: Evidence) -> int:
    return int(evidence.curve.argmax())


def within(errors: float) -> Rule:
    """The earliest look within so many standard errors of the best, without a bound in points."""

    def rule(evidence: Evidence) -> int:
        top = int(evidence.curve.argmax())
        pairs = (evidence.behind(look, top) for look in range(top + 1))
        return next(look for look, (behind, error) in enumerate(pairs) if behind <= errors * error)

    return rule


def last(evidence: Evidence) -> int:
    return evidence.looks - 1


RULES: dict[str, Rule] = {
    "ours": ours,
    "within half an error": within(0.5),
    "within one error": within(1.0),
    "within two errors": within(2.0),
    "best, three looks": smoothed_best,
    "best look": best,
    "last": last,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="what judge.py wrote by --evidence")
    arguments = parser.parse_args()
    lost: dict[str, list[float]] = defaultdict(list)
    for path in sorted(arguments.folder.glob("*.safetensors")):
        saved = read_tensors(path)
        curve = saved.pop("ce_curve")
        classes = int(max(saved.pop("true").max(), saved.pop("given_labels").max())) + 1
        evidence = Evidence.from_tensors(saved, classes)
        for name, rule in RULES.items():
            place = min(rule(evidence), len(curve) - 1)
            lost[name].append(float(curve.max() - curve[place]))
    print(f"{len(next(iter(lost.values()), []))} cells; points that CE loses there against its best epoch in hindsight")
    print(f"{'rule':<24}{'mean':>8}{'worst':>8}")
    for name, points in sorted(lost.items(), key=lambda item: sum(item[1])):
        values = 100 * torch.tensor(points)
        print(f"{name:<24}{float(values.mean()):>8.2f}{float(values.max()):>8.2f}")


if __name__ == "__main__":
    main()

"""Two finished runs with known findings: on a folder of images, and on a table with a column of text."""

from __future__ import annotations

import pytest
import torch

from selc._io.files import write_tensors
from selc.analysis.findings import KEEP, RELABEL, REVIEW
from selc.callbacks import Callback
from selc.runs import Config, RunFolder, execute
from tests.own_data.miniature import folder, write_csv

SMALL = {"method": {"name": "ce"}, "net": {"name": "mlp", "hidden": [4]}, "train": {"epochs": 1, "batch_size": 8}}


class Quiet(Callback):
    """What is said of so few data is not what is tested here."""

    def on_notice(self, text: str) -> bool:
        return True


def with_findings(run: RunFolder) -> RunFolder:
    """The run, as if it had found its first five labels wrong, the next class being right, and two more doubtful."""
    given, C = run.given, len(run.classes)
    N = len(given)
    wrong = torch.arange(N) < 7
    suggested = torch.where(wrong, (given + 1) % C, given)
    action = torch.full((N,), KEEP)
    action[:5], action[5:7] = RELABEL, REVIEW
    quality = torch.linspace(0.01, 0.99, N, dtype=torch.float64)
    confidence = torch.linspace(0.95, 0.55, N, dtype=torch.float64)
    found = {"predicted": suggested, "suggested": suggested, "confidence": confidence, "quality": quality}
    write_tensors(run.path / "analysis.safetensors", {**found, "action": action, "corrected": given})
    return RunFolder.open(run.path)


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    root = folder(tmp_path_factory.mktemp("exchange") / "my photos", each=5, size=(10, 12))
    (root / "red" / "4.png").rename(root / "red" / "100% & <b>.png")
    data = {"name": "folder", "path": str(root), "cache": "off", "workers": 1}
    return with_findings(execute(Config.resolve({"data": data, **SMALL}), root.parent / "run", [Quiet()]))


@pytest.fixture(scope="session")
def reviews(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    place = tmp_path_factory.mktemp("exchange") / "reviews.csv"
    kinds = ("good", "bad", "so-so")
    rows = [[f"r{k}", f"a {kinds[k % 3]} film & <i>{k // 6}</i>", k / 4, kinds[(k * 7) % 3]] for k in range(24)]
    write_csv(place, ["id", "opinion", "stars", "label"], rows)
    data = {"name": "table", "path": str(place), "id_column": "id"}
    return with_findings(execute(Config.resolve({"data": data, **SMALL}), place.parent / "run", [Quiet()]))

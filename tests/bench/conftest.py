"""All datasets of the tables as miniatures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.data.miniatures import MAKERS, cifar, cifar_human, features


@pytest.fixture(scope="module")
def miniatures(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """All datasets in their official layouts with a few images, with the labels that the tables name."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = tmp_path_factory.mktemp("data")
    for name in ("cifar10", "cifar100", "animal10n", "clothing1m", "webvision"):
        MAKERS[name](folder)
    features(folder / "cifar10")
    train = pq.read_table(folder / "cifar10" / "train.parquet")
    for column in ("seal_0.2", "pmd1_0.35"):
        train = train.append_column(column, pa.array(np.roll(train["label"].to_numpy(), 1)))
    pq.write_table(train, folder / "cifar10" / "train.parquet")
    ten, hundred = cifar().labels, cifar(100).labels
    other = np.roll(ten, 1)
    human = folder / "cifar10" / "CIFAR-10_human.pt"
    cifar_human(human, ten, aggre_label=other, random_label1=other, worse_label=other)
    cifar_human(folder / "cifar100" / "CIFAR-100_human.pt", hundred, noisy_label=np.roll(hundred, 1))
    for tenths in (1, 2, 3, 4):
        path = folder / "IDN_noisy_labels" / f"cifar10_dependent0.{tenths}.csv"
        path.parent.mkdir(exist_ok=True)
        lines = [f"{row},{label}" for row, label in enumerate(np.roll(ten, 1).tolist())]
        path.write_text("index,label_noisy\n" + "\n".join(lines) + "\n")
    (folder / "PMD_noisy_labels").mkdir()
    for data, labels in (("cifar10", ten), ("cifar100", hundred)):
        for kind in (1, 2, 3):
            for rate in ("0.35", "0.70"):
                np.save(folder / "PMD_noisy_labels" / f"{data}-{kind}-{rate}.npy", np.roll(labels, 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SELC_DATA", str(folder))
        patch.setenv("SELC_CACHE", str(folder / "cache"))
        patch.chdir(folder)  # where the authors' files of labels are looked for
        yield folder

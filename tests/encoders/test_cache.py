"""Features are cached by what they are features of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from selc.cli import app
from selc.data.preprocess.preprocessor import Transform
from selc.data.preprocess.text_column import TextColumn
from selc.data.sources.image_folder import folder as load
from selc.encoders import Encoding, encode
from selc.encoders import encoding as images
from selc.errors import RunFolderError
from tests.encoders.conftest import Means
from tests.own_data.miniature import encoded, picture

CPU = torch.device("cpu")


def encoding(photographs: Path, name: str, cache: Path | None) -> Encoding:
    return Encoding.of(load(path=str(photographs)), {"name": name}, device=CPU, cache=cache)


def features(photographs: Path, name: str, cache: Path | None) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return encoding(photographs, name, cache).apply(load(path=str(photographs)).inputs)


def test_a_changed_folder_embeds_only_what_is_new(encoder: str, cache: Path, photographs: Path) -> None:
    first = features(photographs, encoder, cache)
    Means.seen = 0
    (photographs / "red" / "3.png").rename(photographs / "blue" / "moved.png")
    (photographs / "green" / "new.png").write_bytes(encoded(picture("green", 99, (40, 60))))
    made = encoding(photographs, encoder, cache)
    assert made.missing(load(path=str(photographs))) == 1
    Means.seen = 0
    second = made.apply(load(path=str(photographs)).inputs)
    assert Means.seen == 1
    assert {row.tobytes() for row in first} < {row.tobytes() for row in second}
    assert len(second) == 37


@pytest.mark.parametrize("block", [8, 256])
def test_what_an_interrupted_call_had_done_is_kept(
    encoder: str, cache: Path, photographs: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    """After a block, and within one."""
    monkeypatch.setattr(images, "BLOCK", block)
    whole = features(photographs, encoder, None)
    forward = Means.forward

    def stops(self: Means, x: torch.Tensor) -> torch.Tensor:
        if Means.seen >= 16:
            raise KeyboardInterrupt
        return forward(self, x)

    made = encoding(photographs, encoder, cache)
    Means.seen = 0
    with monkeypatch.context() as patch:
        patch.setattr(Means, "forward", stops)
        with pytest.raises(KeyboardInterrupt):
            made.apply(load(path=str(photographs)).inputs)
    Means.seen = 0
    assert np.array_equal(made.apply(load(path=str(photographs)).inputs), whole)
    assert Means.seen == 36 - 16


def test_a_spoilt_file_of_the_cache_is_made_again(encoder: str, cache: Path, photographs: Path) -> None:
    whole = features(photographs, encoder, cache)
    for path in (cache / "features").rglob("*.npz"):
        path.write_bytes(path.read_bytes()[:100])
    assert np.array_equal(features(photographs, encoder, cache), whole)


def test_the_mirror_image_counts_as_much_as_the_image(encoder: str, cache: Path, photographs: Path) -> None:
    """Means do not change in a mirror."""
    made = Encoding.of(load(path=str(photographs)), {"name": encoder, "flip": True}, device=CPU)
    Means.seen = 0
    flipped = made.apply(load(path=str(photographs)).inputs)
    assert Means.seen == 2 * 36
    np.testing.assert_allclose(flipped, features(photographs, encoder, None), atol=1e-3)


def test_preprocessors_come_back_from_their_state(encoder: str, cache: Path, photographs: Path) -> None:
    """The contract of a `Transform`: state and arrays make it again, and it gives the same rows."""
    texts = np.array(["a red house", "a blue house", "the red boat", "the blue boat"] * 5, dtype=object)
    column, _ = TextColumn.learnt("text", texts)
    inputs = load(path=str(photographs)).inputs
    made = encoding(photographs, encoder, None)
    pairs: list[tuple[Transform, Transform, Any]] = [
        (column, TextColumn.from_state(column.state(), column.arrays()), texts),
        (made, Encoding.from_state(made.state(), made.arrays()), inputs),
    ]
    for preprocessor, again, items in pairs:
        assert isinstance(preprocessor, Transform)
        assert np.array_equal(preprocessor.apply(items), again.apply(items))


def test_another_encoder_than_that_of_the_training_is_refused(encoder: str, photographs: Path) -> None:
    state = encoding(photographs, encoder, None).state()
    with pytest.raises(RunFolderError, match="must be the one of the training; got one with other weights"):
        Encoding.from_state({**state, "digest": "0" * 64}, {})


def test_every_set_of_a_source_becomes_features(encoder: str, cache: Path, photographs: Path) -> None:
    source = load(path=str(photographs), test=str(photographs))
    rows = encode(source, Encoding.of(source, {"name": encoder}, device=CPU, cache=cache))
    assert rows.shape == (6,)
    index = [torch.arange(36)]
    train, test = (next(iter(part.stream(index, None))) for part in (rows.inputs, rows.tests["test"].inputs))
    assert torch.equal(train, test)
    assert rows.pictures is not None
    assert rows.pictures([0], 30)[0].shape == (3, 20, 30)


def test_a_training_that_is_broken_off_while_it_embeds_says_how_to_go_on(
    encoder: str, cache: Path, photographs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stops(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Encoding, "features", stops)
    result = CliRunner().invoke(app, ["train", str(photographs), "--out", str(tmp_path / "run")])
    assert result.exit_code == 130
    assert "Interrupted; what was done is kept. Go on with the same command." in result.output
    assert not (tmp_path / "run").exists()

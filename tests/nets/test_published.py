"""Equal outputs with torchvision's and timm's networks, after their weights were loaded by the option `weights`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from selc.nets import create
from tests.nets.published import published_library
from tests.nets.test_formulas import awake

CASES = [
    ("torchvision.models", "resnet18", "resnet18", 96),
    ("torchvision.models", "resnet34", "resnet34", 96),
    ("torchvision.models", "resnet50", "resnet50", 96),
    ("torchvision.models", "vgg19_bn", "vgg19-bn", 64),
    ("timm", "resnet18", "resnet18", 96),
    ("timm", "resnet34", "resnet34", 96),
    ("timm", "resnet50", "resnet50", 96),
    ("timm", "vgg19_bn", "vgg19-bn", 224),  # timm's takes no less
    ("timm", "inception_resnet_v2", "inception-resnet-v2", 96),
]


def reference(library: str, name: str, classes: int) -> nn.Module:
    module = published_library(library)
    torch.manual_seed(0)
    net = (
        module.create_model(name, num_classes=classes)
        if library == "timm"
        else module.get_model(name, num_classes=classes)
    )
    assert isinstance(net, nn.Module)
    return awake(net, 0)


@pytest.mark.parametrize(("library", "theirs", "ours", "side"), CASES)
def test_outputs_equal_those_of_the_published_network(
    library: str, theirs: str, ours: str, side: int, tmp_path: Path
) -> None:
    known = reference(library, theirs, 10)
    path = tmp_path / "weights.safetensors"
    save_file({key: value.contiguous() for key, value in known.state_dict().items()}, path)
    net = create(ours, 10, (3, side, side), {"weights": str(path)}).eval()
    path.unlink()  # up to 560 MB
    x = torch.randn(1, 3, side, side)
    with torch.no_grad():
        torch.testing.assert_close(net(x), known(x), rtol=1e-5, atol=1e-5)
    assert sum(p.numel() for p in net.parameters()) == sum(p.numel() for p in known.parameters())


def test_torchvision_is_asked_for_weights_in_its_own_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the download itself is replaced; everything around it is torchvision's."""
    published_library("torchvision.models")
    known = reference("torchvision.models", "resnet18", 1000)
    asked: dict[str, Any] = {}

    def download(url: str, **how: Any) -> Any:
        asked.update(how, url=url)
        return known.state_dict()

    monkeypatch.setattr("torchvision.models._api.load_state_dict_from_url", download)
    net = create("resnet18", 1000, (3, 96, 96), {"weights": "torchvision"}).eval()
    x = torch.randn(1, 3, 96, 96)
    with torch.no_grad():
        assert torch.equal(net(x), known(x))
    assert asked["weights_only"] is True
    assert "resnet18" in asked["url"]


def test_timm_is_asked_for_weights_in_its_own_words(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    timm = published_library("timm")
    known = reference("timm", "resnet18", 1000)
    path = tmp_path / "weights.safetensors"
    save_file(known.state_dict(), path)
    real = timm.create_model

    def from_file(name: str, pretrained: bool) -> Any:
        return real(name, pretrained=pretrained, pretrained_cfg_overlay={"file": str(path)})

    monkeypatch.setattr(timm, "create_model", from_file)
    net = create("resnet18", 1000, (3, 96, 96), {"weights": "timm"}).eval()
    x = torch.randn(1, 3, 96, 96)
    with torch.no_grad():
        assert torch.equal(net(x), known(x))

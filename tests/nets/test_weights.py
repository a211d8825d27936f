"""Published weights arrive whole and by name, or not at all."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from selc.errors import ConfigError
from selc.nets import create
from selc.nets.weights import fill

IMAGES = (3, 96, 96)


def as_torchvision(net: nn.Module) -> dict[str, Tensor]:
    """The names of torchvision's resnet18: conv1, bn1, layer1.0.conv1, ..., fc."""
    names = {key: key.removeprefix("features.") for key in net.state_dict()}
    return {name.replace("head.", "fc."): net.state_dict()[key].clone() for key, name in names.items()}


@pytest.fixture(scope="module")
def published() -> nn.Module:
    """A resnet18 whose weights play the part of published ones."""
    torch.manual_seed(1)
    return create("resnet18", 1000, IMAGES)


@pytest.fixture(scope="module")
def file(published: nn.Module, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("weights") / "resnet18.safetensors"
    save_file(as_torchvision(published), path)
    return str(path)


def same_features(a: nn.Module, b: nn.Module) -> bool:
    ours, theirs = a.get_submodule("features").state_dict(), b.get_submodule("features").state_dict()
    return ours.keys() == theirs.keys() and all(torch.equal(ours[key], theirs[key]) for key in ours)


def test_a_file_with_torchvisions_names_fills_the_whole_network(file: str, published: nn.Module) -> None:
    net = create("resnet18", 1000, IMAGES, {"weights": file})
    assert same_features(net, published)
    assert torch.equal(net.get_parameter("head.weight"), published.get_parameter("head.weight"))
    x = torch.randn(2, *IMAGES)
    with torch.no_grad():
        assert torch.equal(net.eval()(x), published.eval()(x))


def test_a_file_with_our_own_names_does_so_too(tmp_path: Path, published: nn.Module) -> None:
    save_file({k: v.clone() for k, v in published.state_dict().items()}, tmp_path / "model.safetensors")
    net = create("resnet18", 1000, IMAGES, {"weights": str(tmp_path / "model.safetensors")})
    assert same_features(net, published)


def test_for_other_classes_the_head_starts_fresh_and_that_is_said(
    file: str, published: nn.Module, caplog: pytest.LogCaptureFixture
) -> None:
    torch.manual_seed(5)
    fresh = create("resnet18", 7, IMAGES).get_parameter("head.weight")
    torch.manual_seed(5)
    with caplog.at_level(logging.WARNING, "selc"):
        net = create("resnet18", 7, IMAGES, {"weights": file})
    assert same_features(net, published)
    assert torch.equal(net.get_parameter("head.weight"), fresh)
    assert "1000 outputs, 7 are needed; the head starts fresh" in caplog.text


def test_a_file_without_a_head_is_a_backbone(
    tmp_path: Path, published: nn.Module, caplog: pytest.LogCaptureFixture
) -> None:
    state = {k: v for k, v in as_torchvision(published).items() if not k.startswith("fc.")}
    save_file(state, tmp_path / "backbone.safetensors")
    net = create("resnet18", 7, IMAGES, {"weights": str(tmp_path / "backbone.safetensors")})
    assert same_features(net, published)
    assert "no head" in caplog.text


def test_counters_that_old_files_lack_are_not_missed(published: nn.Module, tmp_path: Path) -> None:
    state = {k: v for k, v in as_torchvision(published).items() if not k.endswith("num_batches_tracked")}
    save_file(state, tmp_path / "old.safetensors")
    net = create("resnet18", 1000, IMAGES, {"weights": str(tmp_path / "old.safetensors")})
    assert torch.equal(net.get_parameter("head.bias"), published.get_parameter("head.bias"))


def test_on_the_meta_device_a_file_is_checked_and_nothing_is_said(file: str, caplog: pytest.LogCaptureFixture) -> None:
    with torch.device("meta"):
        net = create("resnet18", 7, IMAGES, {"weights": file})
        with pytest.raises(ConfigError, match="must be complete"):
            create("resnet34", 7, IMAGES, {"weights": file})
    assert all(p.is_meta for p in net.parameters())
    assert not caplog.text


@pytest.mark.parametrize(
    ("name", "shape", "sentence"),
    [
        ("resnet34", IMAGES, r"weights .* of net 'resnet34' must be complete; got no tensor for 'features.layer1.2"),
        ("resnet50", IMAGES, r"of net 'resnet50' must (be complete|fit it)"),
        ("resnet18", (3, 32, 32), r"got \[64, 3, 7, 7\] for 'features.conv1.weight'.*Set net.stem=imagenet"),
        ("resnet18", (1, 96, 96), r"got \[64, 3, 7, 7\] for .* Do the images have 3 channels\?"),
        ("vgg19-bn", IMAGES, r"must be of that network; got a tensor '.*' that it does not have"),
    ],
)
def test_weights_that_do_not_fit_are_refused(name: str, shape: tuple[int, ...], sentence: str, file: str) -> None:
    with torch.device("meta"), pytest.raises(ConfigError, match=sentence):
        create(name, 10, shape, {"weights": file})


def test_a_tensor_too_many_is_refused(published: nn.Module) -> None:
    state = {**published.state_dict(), "features.extra": torch.zeros(1)}
    with pytest.raises(ConfigError, match=r"got a tensor 'features.extra'"):
        fill(create("resnet18", 10, IMAGES), state, lambda key: key, "weights")


def test_only_whole_safetensors_files_are_read(tmp_path: Path) -> None:
    """A .pth file may run code when it is read, so it never is."""
    torch.save({}, tmp_path / "weights.pth")
    (tmp_path / "broken.safetensors").write_bytes(b"no such thing")
    for path in ("weights.pth", "nowhere.safetensors"):
        with pytest.raises(ConfigError, match=r"weights must be none, torchvision, timm or the path of a .safetensors"):
            create("resnet18", 10, IMAGES, {"weights": str(tmp_path / path)})
    with pytest.raises(ConfigError, match="must be a whole safetensors file"):
        create("resnet18", 10, IMAGES, {"weights": str(tmp_path / "broken.safetensors")})


@pytest.mark.parametrize("library", ["torchvision", "timm"])
def test_a_library_that_does_not_import_gets_a_sentence(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (library, f"{library}.models"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ConfigError, match=rf"weights={library} needs {library}; got: .*safetensors"):
        create("resnet18", 10, IMAGES, {"weights": library})


def test_a_network_says_who_publishes_its_weights() -> None:
    with pytest.raises(ConfigError, match=r"net 'inception-resnet-v2' must come from timm; got 'torchvision'"):
        create("inception-resnet-v2", 10, IMAGES, {"weights": "torchvision"})


def stand_in(monkeypatch: pytest.MonkeyPatch, answer: Any) -> dict[str, Any]:
    """A torchvision whose download gives ``answer``; returns what it was asked for."""
    asked: dict[str, Any] = {}

    class Entry:
        def get_state_dict(self, **how: Any) -> Any:
            asked.update(how)
            if isinstance(answer, Exception):
                raise answer
            return answer

    class Entries:
        IMAGENET1K_V1 = Entry()

    models = ModuleType("torchvision.models")
    models.get_model_weights = lambda name: asked.update(name=name) or Entries  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torchvision", ModuleType("torchvision"))
    monkeypatch.setitem(sys.modules, "torchvision.models", models)
    return asked


def test_weights_from_torchvision_are_checked_and_never_unpickled(
    monkeypatch: pytest.MonkeyPatch, published: nn.Module
) -> None:
    asked = stand_in(monkeypatch, as_torchvision(published))
    net = create("resnet18", 1000, IMAGES, {"weights": "torchvision"})
    assert same_features(net, published)
    assert (asked["name"], asked["weights_only"], asked["check_hash"]) == ("resnet18", True, True)


def test_the_meta_device_downloads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = stand_in(monkeypatch, RuntimeError("no download was asked for"))
    with torch.device("meta"):
        create("resnet18", 10, IMAGES, {"weights": "torchvision"})
    assert not asked


def test_a_download_that_fails_gets_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, OSError("no connection"))
    with pytest.raises(ConfigError, match="weights=torchvision must be downloadable; got OSError: no connection"):
        create("resnet18", 10, IMAGES, {"weights": "torchvision"})


def test_timm_may_draw_without_moving_our_draws(monkeypatch: pytest.MonkeyPatch, published: nn.Module) -> None:
    def create_model(name: str, pretrained: bool) -> Any:
        assert (name, pretrained) == ("resnet18", True)
        torch.rand(10)

        class Model:
            def state_dict(self) -> dict[str, Tensor]:
                return as_torchvision(published)

        return Model()

    timm = ModuleType("timm")
    timm.create_model = create_model  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "timm", timm)
    draws = []
    for weights in ("none", "timm"):
        torch.manual_seed(0)
        create("resnet18", 1000, IMAGES, {"weights": weights})
        draws.append(torch.rand(3))
    assert torch.equal(*draws)

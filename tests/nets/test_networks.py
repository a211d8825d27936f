"""What every network promises, and the published counts of parameters."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from selc.errors import ConfigError
from selc.nets import NETS, SMALLEST, create
from tests.tiers import but_for, exhaustive

LIGHT: dict[str, dict[str, Any]] = {"vgg19-bn": {"hidden": 32}}  # the same layers, but for 119 M weights
LARGE = ("inception-resnet-v2", "vgg19-bn", "wrn-28-10")  # seconds each, in `make test-all` only
# And those of which there is a smaller one of the same blocks: what is costly is shown of that one in `make test`.
DEEPER = (*LARGE, "resnet34", "resnet50", "preact-resnet34", "efficientnet-lite0")
STEPS = 80  # twice as many as the slowest takes; most take three
STEMMED = [name for name in NETS if "stem" in NETS.defaults(name)]


def smallest_shape(name: str, channels: int = 3) -> tuple[int, ...]:
    side = SMALLEST.get(name, 4)
    return channels, side, side


def count(net: nn.Module) -> int:
    return sum(p.numel() for p in net.parameters())


def on_meta(name: str, num_classes: int, shape: tuple[int, ...], **options: Any) -> nn.Module:
    """The network without memory for its weights: shapes are computed, numbers are not."""
    with torch.device("meta"):
        return create(name, num_classes, shape, options)


@pytest.mark.parametrize("name", but_for(DEEPER, NETS))
def test_a_network_learns_to_tell_two_of_the_smallest_images_apart(name: str) -> None:
    torch.manual_seed(0)
    net = create(name, 5, smallest_shape(name), LIGHT.get(name))
    for module in net.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0  # so that one loss can be compared with another
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    x, labels = torch.randn(2, *smallest_shape(name)), torch.tensor([1, 3])
    losses: list[float] = []
    while not losses or losses[-1] > 0.5:  # who cannot tell them apart gets no further than log 2 = 0.69
        assert len(losses) < STEPS, losses
        loss = F.cross_entropy(net(x), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())


@pytest.mark.parametrize("name", but_for(DEEPER, NETS))
def test_every_parameter_of_a_network_gets_a_gradient(name: str) -> None:
    side = max(16, SMALLEST.get(name, 0))
    torch.manual_seed(0)
    net = create(name, 7, (3, side, side), LIGHT.get(name))
    net(torch.randn(4, 3, side, side)).square().sum().backward()
    still = [key for key, p in net.named_parameters() if p.grad is None or not bool((p.grad != 0).any())]
    assert not still


@pytest.mark.parametrize("name", but_for(LARGE, NETS))
def test_features_and_head_make_up_the_network(name: str) -> None:
    shape = smallest_shape(name)
    net = create(name, 5, shape, LIGHT.get(name)).eval()
    features, head = net.get_submodule("features"), net.get_submodule("head")
    x = torch.randn(2, *shape)
    with torch.no_grad():
        hidden = features(x)
        assert isinstance(head, nn.Linear)
        assert hidden.shape == (2, head.in_features)
        assert torch.equal(head(hidden), net(x))
    assert {name for name, _ in net.named_children()} == {"features", "head"}


@pytest.mark.parametrize("num_classes", [2, *exhaustive(100)])
@pytest.mark.parametrize("name", but_for(DEEPER, NETS))
def test_a_network_has_an_output_for_every_class(name: str, num_classes: int) -> None:
    side = max(48, SMALLEST.get(name, 0))
    for shape in (smallest_shape(name), (3, side, side + 5)):
        net = on_meta(name, num_classes, shape)
        assert net(torch.empty(2, *shape, device="meta")).shape == (2, num_classes)


@pytest.mark.parametrize("name", but_for(LARGE, sorted(set(NETS) - {"efficientnet-lite0"})))
def test_a_network_takes_grey_images(name: str) -> None:
    shape = smallest_shape(name, channels=1)
    assert on_meta(name, 3, shape)(torch.empty(2, *shape, device="meta")).shape == (2, 3)


@pytest.mark.parametrize("name", but_for(DEEPER, NETS))
def test_the_same_seed_makes_the_same_network(name: str) -> None:
    states = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        states.append(create(name, 5, smallest_shape(name), LIGHT.get(name)).state_dict())
    first, second, other = states
    assert all(torch.equal(first[key], second[key]) for key in first)
    assert not torch.equal(first["head.weight"], other["head.weight"])


@pytest.mark.parametrize("name", sorted(SMALLEST))
def test_inputs_that_a_network_cannot_take_are_named(name: str) -> None:
    least = SMALLEST[name]
    for shape in ((3, least - 1, least), (3, least, least - 1), (10,), (3, 3, least, least)):
        with pytest.raises(ConfigError, match=rf"net '{name}' needs images .* at least {least} x {least}; got .*\["):
            create(name, 5, shape)


def test_a_network_that_fits_is_offered_instead() -> None:
    with pytest.raises(ConfigError, match="Use net resnet18"):
        create("vgg19-bn", 5, (3, 28, 28))
    with pytest.raises(ConfigError, match="Use net cnn"):
        create("resnet18", 5, (3, 5, 5))
    with pytest.raises(ConfigError, match="Use net mlp"):
        create("cnn", 5, (3, 3, 3))


# Counts as published: with 10 classes by the requirement of the project and common CIFAR repositories; with 1,000 by
# torchvision's and timm's tables.
@pytest.mark.parametrize(
    ("name", "classes", "side", "published"),
    [
        ("resnet18", 10, 32, 11_173_962),
        ("resnet18", 1000, 224, 11_689_512),
        ("resnet34", 10, 32, 21_282_122),
        ("resnet34", 10, 224, 21_289_802),
        ("resnet34", 1000, 224, 21_797_672),
        ("resnet50", 10, 32, 23_520_842),
        ("resnet50", 10, 224, 23_528_522),
        ("resnet50", 1000, 224, 25_557_032),
        ("preact-resnet18", 10, 32, 11_172_170),
        ("wrn-28-10", 10, 32, 36_479_194),
        ("wrn-28-10", 100, 32, 36_536_884),
        ("wrn-28-2", 10, 32, 1_467_610),
        ("vgg19-bn", 10, 64, 139_622_218),
        ("vgg19-bn", 1000, 224, 143_678_248),
        ("inception-resnet-v2", 10, 299, 54_321_834),
        ("inception-resnet-v2", 1000, 299, 55_843_464),
        ("efficientnet-lite0", 1000, 224, 4_652_008),
    ],
)
def test_the_number_of_parameters_is_the_published_one(name: str, classes: int, side: int, published: int) -> None:
    assert count(on_meta(name, classes, (3, side, side))) == published


def test_preact_networks_have_the_parameters_of_their_layers() -> None:
    """Counted by hand: 3 x 3 convolutions, two numbers per channel and norm, 1 x 1 shortcuts, and the head."""

    def stages(depths: tuple[int, ...]) -> int:
        total, inputs = 0, 64
        for width, depth in zip((64, 128, 256, 512), depths, strict=True):
            for _ in range(depth):
                total += 9 * inputs * width + 9 * width * width + 2 * inputs + 2 * width
                total += inputs * width if inputs != width else 0
                inputs = width
        return total

    stem, head, norm_of_first_block = 9 * 3 * 64, 512 * 10 + 10, 2 * 64
    last_norm = 2 * 512
    # In the correct ones the norm of the first block stands in the stem; the authors' have both.
    assert count(on_meta("preact-resnet18", 10, (3, 32, 32))) == stem + stages((2, 2, 2, 2)) + last_norm + head
    assert count(on_meta("preact-resnet34", 10, (3, 32, 32))) == stem + stages((3, 4, 6, 3)) + last_norm + head
    authors = count(on_meta("preact-resnet34-authors", 10, (3, 32, 32)))
    assert authors == stem + norm_of_first_block + stages((2, 2, 2, 2)) + head


def map_before_first_stage(name: str, side: int, **options: Any) -> Tensor:
    features = on_meta(name, 10, (3, side, side), **options).get_submodule("features")
    x = torch.empty(1, 3, side, side, device="meta")
    for part, module in features.named_children():
        if part == "layer1":
            return x
        x = module(x)
    raise AssertionError("there is no first stage")


@pytest.mark.parametrize("name", but_for(STEMMED[1:], STEMMED))
def test_the_stem_follows_the_image_size(name: str) -> None:
    assert map_before_first_stage(name, 32).shape == (1, 64, 32, 32)
    assert map_before_first_stage(name, 64).shape == (1, 64, 64, 64)
    assert map_before_first_stage(name, 65).shape == (1, 64, 17, 17)
    assert map_before_first_stage(name, 224).shape == (1, 64, 56, 56)


@pytest.mark.parametrize("name", STEMMED)
def test_the_stem_can_be_chosen(name: str) -> None:
    assert map_before_first_stage(name, 32, stem="imagenet").shape == (1, 64, 8, 8)
    assert map_before_first_stage(name, 224, stem="cifar").shape == (1, 64, 224, 224)
    with pytest.raises(ConfigError, match=f"net '{name}' with stem 'imagenet' needs images .* 32 x 32"):
        create(name, 10, (3, 16, 16), {"stem": "imagenet"})
    with pytest.raises(ConfigError, match="stem of net"):
        create(name, 10, (3, 32, 32), {"stem": "large"})


def test_create_builds_the_cifar_stem_unless_told() -> None:
    with torch.device("meta"):
        assert count(create("resnet34", 10)) == 21_282_122
        assert count(create("resnet34", 10, options={"stem": "imagenet"})) == 21_289_802


@pytest.mark.parametrize("name", [n for n in NETS if "dropout" in NETS.defaults(n)])
def test_dropout_is_a_share(name: str) -> None:
    with pytest.raises(ConfigError, match=r"dropout .*in \[0, 1\); got .*1"):
        create(name, 5, smallest_shape(name), {"dropout": 1.0})


def test_a_network_without_classes_is_refused() -> None:
    with pytest.raises(ConfigError, match="num_classes must be at least 1; got 0"):
        create("mlp", 0, (4,))

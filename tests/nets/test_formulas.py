"""Networks against the functions that their papers describe, written out with torch.nn.functional."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from selc.nets import create
from selc.nets.resnet import BasicBlock, Bottleneck
from selc.nets.wide_resnet import wide_resnet
from tests.helpers import rng

State = dict[str, Tensor]


def awake(net: nn.Module, seed: int) -> nn.Module:
    """In eval mode, with norms that are not the identity: a misplaced one shows."""
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            for tensor, low in ((module.weight, 0.5), (module.bias, -0.5)):
                nn.init.uniform_(tensor, low, low + 1, generator=rng(seed))
            for buffer, low in ((module.running_mean, -0.5), (module.running_var, 0.5)):
                assert isinstance(buffer, Tensor)
                nn.init.uniform_(buffer, low, low + 1, generator=rng(seed + 1))
    return net.eval()


def norm(x: Tensor, s: State, key: str) -> Tensor:
    """gamma (x - mean) / sqrt(var + 1e-5) + beta, per channel."""
    gamma, beta, mean, var = (s[f"{key}.{k}"][:, None, None] for k in ("weight", "bias", "running_mean", "running_var"))
    return gamma * (x - mean) / torch.sqrt(var + 1e-5) + beta


def conv(x: Tensor, s: State, key: str, stride: int = 1) -> Tensor:
    weight = s[f"{key}.weight"]
    return F.conv2d(x, weight, stride=stride, padding=weight.shape[-1] // 2)


def head(x: Tensor, s: State) -> Tensor:
    return x.mean(dim=(2, 3)) @ s["head.weight"].T + s["head.bias"]


def state(net: nn.Module) -> State:
    return {key: value.double() if value.is_floating_point() else value for key, value in net.state_dict().items()}


def close(net: nn.Module, x: Tensor, expected: Tensor) -> None:
    with torch.no_grad():
        actual = net(x)
    torch.testing.assert_close(actual.double(), expected, rtol=1e-4, atol=1e-4 * float(expected.abs().max()))


@pytest.mark.parametrize(("inputs", "stride"), [(6, 1), (6, 2), (4, 1)])
def test_a_basic_block_is_two_convolutions_and_a_shortcut(inputs: int, stride: int) -> None:
    block = awake(BasicBlock(inputs, 6, stride), 0)
    s = state(block)
    x = torch.randn(2, inputs, 8, 8, generator=rng(1))
    y = conv(F.relu(norm(conv(x.double(), s, "conv1", stride), s, "bn1")), s, "conv2")
    projected = "downsample.0.weight" in s
    assert projected == (inputs != 6 or stride == 2)
    shortcut = norm(conv(x.double(), s, "downsample.0", stride), s, "downsample.1") if projected else x.double()
    close(block, x, F.relu(norm(y, s, "bn2") + shortcut))


def test_a_bottleneck_strides_in_its_middle_convolution() -> None:
    block = awake(Bottleneck(6, 4, 2), 0)
    s = state(block)
    x = torch.randn(2, 6, 8, 8, generator=rng(1))
    y = F.relu(norm(conv(x.double(), s, "conv1"), s, "bn1"))
    y = F.relu(norm(conv(y, s, "conv2", 2), s, "bn2"))
    shortcut = norm(conv(x.double(), s, "downsample.0", 2), s, "downsample.1")
    close(block, x, F.relu(norm(conv(y, s, "conv3"), s, "bn3") + shortcut))


def preact(x: Tensor, s: State, groups: dict[str, int], first_is_active: bool = False, authors: bool = False) -> Tensor:
    """x + conv(relu(norm(conv(relu(norm(x)))))) in every block; see He et al. 2016b, figure 4 (e)."""
    for place, (group, depth) in enumerate(groups.items()):
        for number in range(depth):
            key = f"{group}.{number}"
            stride = 2 if place > 0 and number == 0 else 1
            plain = first_is_active and place == 0 and number == 0
            active = x if plain else F.relu(norm(x, s, f"{key}.activate.0"))
            y = conv(F.relu(norm(conv(active, s, f"{key}.conv1", stride), s, f"{key}.bn2")), s, f"{key}.conv2")
            if f"{key}.shortcut.weight" in s:
                x = y + conv(active, s, f"{key}.shortcut", stride)
            else:
                x = y + (active if authors else x)
    return x


@pytest.mark.parametrize(
    ("name", "depths"),
    [("preact-resnet18", (2, 2, 2, 2)), pytest.param("preact-resnet34", (3, 4, 6, 3), marks=pytest.mark.exhaustive)],
)
def test_preact_resnet_is_that_of_the_paper(name: str, depths: tuple[int, ...]) -> None:
    """The first activation stands right behind the first convolution, an extra one behind the last sum."""
    torch.manual_seed(0)
    net = awake(create(name, 5, (3, 16, 16)), 0)
    s = state(net)
    x = torch.randn(2, 3, 16, 16, generator=rng(1))
    y = F.relu(norm(conv(x.double(), s, "features.conv1"), s, "features.bn1"))
    groups = {f"features.layer{k + 1}": depth for k, depth in enumerate(depths)}
    y = preact(y, s, groups, first_is_active=True)
    close(net, x, head(F.relu(norm(y, s, "features.norm")), s))


def test_the_authors_preact_resnet34_has_18_layers_and_activated_shortcuts() -> None:
    torch.manual_seed(0)
    net = awake(create("preact-resnet34-authors", 5, (3, 16, 16)), 0)
    s = state(net)
    x = torch.randn(2, 3, 16, 16, generator=rng(1))
    y = F.relu(norm(conv(x.double(), s, "features.conv1"), s, "features.bn1"))
    y = preact(y, s, {f"features.layer{k}": 2 for k in (1, 2, 3, 4)}, authors=True)
    close(net, x, head(y, s))
    layers = [m for m in net.modules() if isinstance(m, nn.Conv2d | nn.Linear) and m.weight.shape[-1] != 1]
    assert len(layers) == 18


def test_a_wide_resnet_is_that_of_the_paper() -> None:
    torch.manual_seed(0)
    net = awake(wide_resnet(5, (3, 16, 16), depth=16, widen=2), 0)
    s = state(net)
    x = torch.randn(2, 3, 16, 16, generator=rng(1))
    y = preact(conv(x.double(), s, "features.conv1"), s, {f"features.group{k}": 2 for k in (1, 2, 3)})
    close(net, x, head(F.relu(norm(y, s, "features.norm")), s))


@pytest.mark.parametrize(("name", "widen"), [("wrn-28-10", 10), ("wrn-28-2", 2)])
def test_a_wide_resnet_has_28_layers_and_its_width(name: str, widen: int) -> None:
    with torch.device("meta"):
        net = create(name, 10)
    layers = [m for m in net.modules() if isinstance(m, nn.Conv2d) and m.kernel_size == (3, 3)]
    assert len(layers) == 25  # and three shortcuts that change the width, by the paper's count
    assert [m.out_channels for m in layers] == [16] + 8 * [16 * widen] + 8 * [32 * widen] + 8 * [64 * widen]


def test_dropout_of_a_wide_resnet_stands_between_the_convolutions() -> None:
    torch.manual_seed(0)
    net = wide_resnet(5, (3, 8, 8), depth=10, widen=1, dropout=0.5)
    x = torch.randn(4, 3, 8, 8, generator=rng(1))
    assert not torch.equal(net(x), net(x))
    s = state(awake(net, 0))
    y = preact(conv(x.double(), s, "features.conv1"), s, {f"features.group{k}": 1 for k in (1, 2, 3)})
    close(net, x, head(F.relu(norm(y, s, "features.norm")), s))

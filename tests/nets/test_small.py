"""The small residual network of the benchmarks."""

from __future__ import annotations

import torch

from selc.nets import create
from tests.nets.test_networks import count


def test_the_tiny_resnet_has_a_basic_block_of_32_64_and_128_channels_behind_a_stem_of_stride_two() -> None:
    def conv(inputs: int, outputs: int, side: int) -> int:
        return inputs * outputs * side * side + 2 * outputs  # no bias; batch norm has two numbers per channel

    stem = conv(3, 32, 3)
    first = conv(32, 32, 3) + conv(32, 32, 3)  # the shape stays: an identity for a shortcut
    second = conv(32, 64, 3) + conv(64, 64, 3) + conv(32, 64, 1)
    third = conv(64, 128, 3) + conv(128, 128, 3) + conv(64, 128, 1)
    net = create("resnet-tiny", 10, (3, 32, 32))
    assert count(net) == stem + first + second + third + 128 * 10 + 10 == 308_650
    sides: dict[str, int] = {}
    for name, layer in net.get_submodule("features").named_children():
        layer.register_forward_hook(lambda _, __, out, name=name: sides.__setitem__(name, out.shape[-1]))
    net.eval()(torch.zeros(1, 3, 32, 32))
    assert [sides[name] for name in ("conv1", "layer1", "layer2", "layer3")] == [16, 16, 8, 4]

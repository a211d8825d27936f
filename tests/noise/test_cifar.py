from __future__ import annotations

from typing import Any

import pytest
import torch

from selc.errors import ConfigError
from selc.noise import asymmetric_cifar10, asymmetric_cifar100, draw_noise
from tests.helpers import random_labels, rng
from tests.noise.bounds import assert_binomial, assert_matrix

N = 50_000
TEN = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]

# The table of superclasses on CIFAR's page; both kinds of names are numbered alphabetically.
SUPERCLASSES = {
    "aquatic_mammals": "beaver dolphin otter seal whale",
    "fish": "aquarium_fish flatfish ray shark trout",
    "flowers": "orchid poppy rose sunflower tulip",
    "food_containers": "bottle bowl can cup plate",
    "fruit_and_vegetables": "apple mushroom orange pear sweet_pepper",
    "household_electrical_devices": "clock keyboard lamp telephone television",
    "household_furniture": "bed chair couch table wardrobe",
    "insects": "bee beetle butterfly caterpillar cockroach",
    "large_carnivores": "bear leopard lion tiger wolf",
    "large_man-made_outdoor_things": "bridge castle house road skyscraper",
    "large_natural_outdoor_scenes": "cloud forest mountain plain sea",
    "large_omnivores_and_herbivores": "camel cattle chimpanzee elephant kangaroo",
    "medium_mammals": "fox porcupine possum raccoon skunk",
    "non-insect_invertebrates": "crab lobster snail spider worm",
    "people": "baby boy girl man woman",
    "reptiles": "crocodile dinosaur lizard snake turtle",
    "small_mammals": "hamster mouse rabbit shrew squirrel",
    "trees": "maple_tree oak_tree palm_tree pine_tree willow_tree",
    "vehicles_1": "bicycle bus motorcycle pickup_truck train",
    "vehicles_2": "lawn_mower rocket streetcar tank tractor",
}
SUPERCLASS_OF = {fine: coarse for coarse, names in SUPERCLASSES.items() for fine in names.split()}
HUNDRED = sorted(SUPERCLASS_OF)


def flips_of_100(**options: Any) -> dict[str, str]:
    """Where every class goes at a rate of one."""
    labels = torch.arange(100)
    noise = asymmetric_cifar100(labels, 100, rng(0), rate=1.0, **options)
    return {HUNDRED[a]: HUNDRED[b] for a, b in zip(labels.tolist(), noise.labels.tolist(), strict=True)}


def test_cifar10_flips_the_five_classes_of_the_literature() -> None:
    labels = torch.arange(10)
    noise = asymmetric_cifar10(labels, 10, rng(0), rate=1.0)
    flips = {TEN[a]: TEN[b] for a, b in zip(range(10), noise.labels.tolist(), strict=True) if a != b}
    assert flips == {"truck": "automobile", "bird": "airplane", "deer": "horse", "cat": "dog", "dog": "cat"}


@pytest.mark.parametrize("exact", [True, False])
def test_cifar10_at_40_per_cent_has_40_in_five_classes_and_20_overall(exact: bool) -> None:
    labels = random_labels(N, 10, seed=1)
    noise = asymmetric_cifar10(labels, 10, rng(0), rate=0.4, exact=exact)
    expected = torch.eye(10)
    for true, given in [(9, 1), (2, 0), (4, 7), (3, 5), (5, 3)]:
        expected[true, true], expected[true, given] = 0.6, 0.4
    assert_matrix(noise.matrix, labels, expected)
    affected = sum(labels.tolist().count(c) for c in (2, 3, 4, 5, 9))
    assert_binomial(noise.rate * N, affected, 0.4)


def test_cifar100_by_index_goes_to_the_next_of_five_consecutive_numbers() -> None:
    flips = flips_of_100()
    for i in range(100):
        assert flips[HUNDRED[i]] == HUNDRED[5 * (i // 5) + ((i % 5) + 1) % 5]


def test_only_6_of_the_100_flips_of_the_literature_stay_in_a_superclass() -> None:
    assert sum(SUPERCLASS_OF[a] == SUPERCLASS_OF[b] for a, b in flips_of_100().items()) == 6


def test_cifar100_by_superclass_goes_round_each_of_the_20_superclasses() -> None:
    flips = flips_of_100(grouping="superclass")
    assert sorted(flips.values()) == HUNDRED, "each class is reached once"
    for names in SUPERCLASSES.values():
        five = sorted(names.split())
        assert [flips[name] for name in five] == [*five[1:], five[0]]


@pytest.mark.parametrize("grouping", ["index-block", "superclass"])
def test_cifar100_changes_exactly_the_chosen_share(grouping: str) -> None:
    labels = random_labels(N, 100, seed=1)
    noise = draw_noise("asymmetric-cifar100", labels, 100, 0, {"rate": 0.4, "grouping": grouping})
    assert noise.rate == int(0.4 * N) / N
    for c in range(100):
        assert_binomial(float(1 - noise.matrix[c, c]) * int((labels == c).sum()), int((labels == c).sum()), 0.4)


@pytest.mark.parametrize(
    ("name", "classes", "sentence"),
    [
        ("asymmetric-cifar10", 100, "needs the 10 classes of CIFAR-10; got 100.*noise 'map'"),
        ("asymmetric-cifar100", 10, "needs the 100 classes of CIFAR-100; got 10.*noise 'map'"),
    ],
)
def test_another_number_of_classes_is_refused(name: str, classes: int, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        draw_noise(name, torch.arange(10), classes, 0, {})


def test_an_unknown_grouping_is_refused() -> None:
    with pytest.raises(ConfigError, match="grouping of noise 'asymmetric-cifar100' is not valid; got 'coarse'"):
        draw_noise("asymmetric-cifar100", torch.arange(100), 100, 0, {"grouping": "coarse"})

from __future__ import annotations

import hashlib

import torch

from selc.seeding import generator, seed_of, seed_torch


def test_a_seed_is_the_first_63_bits_of_a_blake2b_hash() -> None:
    eight_bytes = hashlib.blake2b(b"('order', 3, 14)", digest_size=8).hexdigest()
    assert seed_of("order", 3, 14) == int(eight_bytes, 16) // 2


def test_every_seed_fits_a_signed_64_bit_integer_and_none_repeats() -> None:
    seeds = {seed_of(name, number) for name in ("a", "b") for number in range(500)}
    assert len(seeds) == 1000
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_parts_are_not_run_together() -> None:
    assert len({seed_of("a", 1), seed_of("a1"), seed_of("a", "1"), seed_of(1, "a"), seed_of("a", 1, "")}) == 5


def test_a_generator_depends_on_its_names_and_not_on_earlier_draws() -> None:
    torch.manual_seed(0)
    first = torch.rand(4, generator=generator("noise", 1))
    torch.rand(10)
    generator("noise", 2)
    assert torch.equal(torch.rand(4, generator=generator("noise", 1)), first)
    assert not torch.equal(torch.rand(4, generator=generator("noise", 2)), first)


def test_the_global_random_state_is_left_alone() -> None:
    torch.manual_seed(0)
    expected = torch.rand(4)
    torch.manual_seed(0)
    torch.rand(100, generator=generator("noise", 1))
    assert torch.equal(torch.rand(4), expected)


def test_torch_is_seeded_as_by_its_own_call_and_nothing_piles_up() -> None:
    before = len(torch.cuda._queued_calls)
    seed_torch(torch.device("cpu"), 3, "epoch", 7)
    ours = torch.rand(5)
    assert len(torch.cuda._queued_calls) == before
    torch.manual_seed(seed_of(3, "epoch", 7))
    assert torch.equal(torch.rand(5), ours)

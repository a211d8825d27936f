"""Random draws that depend on names, not on what was drawn before: a run can go on from anywhere."""

from __future__ import annotations

import hashlib

import torch


def seed_of(*parts: str | int) -> int:
    """A seed of 63 bits for a sequence of names and numbers, the same on every machine."""
    plain = tuple(part if isinstance(part, str) else int(part) for part in parts)  # numpy's numbers print otherwise
    digest = hashlib.blake2b(repr(plain).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def seed_torch(device: torch.device, *parts: str | int) -> None:
    """Seed what draws by itself on a device, such as dropout and the first weights of a network.

    On a CPU not by ``torch.manual_seed``: it keeps the call stack of every call for each kind of device that may be
    used later, which takes milliseconds an epoch and memory that is never freed.
    """
    seeded = torch.default_generator if device.type == "cpu" else torch
    seeded.manual_seed(seed_of(*parts))


def generator(*parts: str | int) -> torch.Generator:
    """A CPU generator keyed by a sequence of names and numbers."""
    return torch.Generator().manual_seed(seed_of(*parts))

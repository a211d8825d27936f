"""Noise models: pure functions of labels, a number of classes and a generator."""

from selc.noise.base import NOISES, Noise, draw_noise
from selc.noise.class_conditional import none, pair, symmetric

__all__ = ["NOISES", "Noise", "draw_noise", "none", "pair", "symmetric"]

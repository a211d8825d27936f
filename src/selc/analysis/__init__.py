"""What a training says about its labels: worked out once, written down, and read by all others."""

from selc.analysis.label_analysis import LabelAnalysis, Why, analyse
from selc.analysis.noise_rate import Noise, NoiseRate, explain
from selc.analysis.probabilities import analyse_probabilities

__all__ = ["LabelAnalysis", "Noise", "NoiseRate", "Why", "analyse", "analyse_probabilities", "explain"]

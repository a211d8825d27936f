"""Instance-dependent noise from averaged softmax.

Pengfei Chen, Junjie Ye, Guangyong Chen, Jingwei Zhao, Pheng-Ann Heng: Beyond Class-Conditional Assumption: A Primary
Attempt to Combat Instance-Dependent Label Noise (the paper of SEAL). AAAI 2021.
"""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from selc.noise.base import NOISES, Noise, check_rate, check_supplied, measured


@NOISES.register("seal")
def seal(labels: Tensor, num_classes: int, rng: Generator, mean_probs: Tensor, *, rate: float = 0.4) -> Noise:
    """The samples that a network found most like another class get that class (SEAL's noise).

    S is the network's softmax averaged over the epochs of a training on the true labels. The wrong label of sample i
    is c_i = argmax over k other than y_i of S_ik, its score S_i,c_i; exactly the int(rate N) samples with the largest
    score get it. Nothing is drawn: S decides, and the noise of a lower rate is part of that of a higher one.

    Deviations: rate 0 changes nothing, where the authors' code takes the last 0 of a list, which is all of it. Equal
    scores go by row.
    """
    labels = labels.long()
    S = check_supplied("mean_probs", mean_probs, len(labels), num_classes).clone()
    S.scatter_(1, labels[:, None], -torch.inf)  # the true class is no candidate
    score, candidate = S.max(dim=1)
    flipped = score.argsort(descending=True, stable=True)[: int(check_rate(rate) * len(labels))]
    given = labels.clone()
    given[flipped] = candidate[flipped]
    return measured(labels, given, num_classes)

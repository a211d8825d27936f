"""Soft cross entropy, what goes with it, and the checks that losses of labels share."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from selc.errors import ConfigError, InputError
from selc.world import ALONE, World

Option = Literal["I", "II"]
WIDE = 256  # classes from which on a pass over [B, C] costs more than what torch asks for a function of our own
SUM_ERROR = 0.01  # of probabilities that add up to one, which half precision rounds
CACHED = 2**17  # numbers that are worked on together on a CPU, 0.5 MB: they stay in its cache from step to step


def soft_cross_entropy(outputs: Tensor, target: Tensor) -> Tensor:
    """Cross entropy against targets that are probabilities; in fp32 whatever the outputs were computed in.

    Parameters
    ----------
    outputs : Tensor, shape [B, C]
        Logits of the network.
    target : Tensor, shape [B, C]
        A probability for every class.

    Returns
    -------
    Tensor, shape [B]
        ``-sum_c t_c log p_c`` of each sample.

    Examples
    --------
    >>> import torch
    >>> from selc import soft_cross_entropy
    >>> soft_cross_entropy(torch.zeros(1, 4), torch.tensor([[0.5, 0.5, 0.0, 0.0]]))  # log 4, whatever the target
    tensor([1.3863])
    """
    if outputs.shape[-2:] != target.shape[-2:]:
        raise InputError(
            f"target must hold a probability for every output; got {list(target.shape)} for outputs "
            f"{list(outputs.shape)}. Class numbers go to F.cross_entropy."
        )
    log_p = F.log_softmax(outputs if outputs.dtype == torch.float64 else outputs.float(), dim=-1)
    return -(target * log_p).sum(dim=-1)


def ensembled(outputs: Tensor, update: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
    """Cross entropy [B] against targets [B, C] that ``update`` makes of the outputs' own probabilities; and these.

    Of many classes the probabilities are worked out once: for the memory, for the loss, and for the gradient, which is
    p sum_c t_c - t. The loss is sum_c t_c (z_m - z_c - log p_m), where m is the most likely class: log p of every class
    would be a second softmax.
    """
    if outputs.shape[-1] < WIDE or outputs.dtype == torch.float64:
        with torch.no_grad():
            target = update(log_softmax(outputs).exp())
        return soft_cross_entropy(outputs, target), target
    with torch.no_grad():
        p = F.softmax(outputs.float(), dim=-1)
        target = update(p)
    if not (torch.is_grad_enabled() and outputs.requires_grad):
        return soft_cross_entropy(outputs, target), target
    loss: Tensor = _KnownGradient.apply(outputs, target, p)  # type: ignore[no-untyped-call]
    return loss, target


class _KnownGradient(torch.autograd.Function):
    """Soft cross entropy of outputs whose probabilities ``p`` are known; the gradient takes their place."""

    @staticmethod
    def forward(ctx: Any, outputs: Tensor, target: Tensor, p: Tensor) -> Tensor:
        rows = len(outputs) if outputs.device.type != "cpu" else max(1, CACHED // outputs.shape[-1])
        parts = zip(*(whole.split(rows) for whole in (outputs.float(), target, p)), strict=True)
        loss = torch.cat([_loss_and_slope(*part) for part in parts])
        ctx.save_for_backward(p)
        ctx.kind = outputs.dtype
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (slope,) = ctx.saved_tensors
        return slope.mul_(grad.unsqueeze(-1)).to(ctx.kind), None, None  # torch refuses a second pass after this


def _loss_and_slope(z: Tensor, target: Tensor, p: Tensor) -> Tensor:
    """The loss of each row; ``p`` becomes its derivative by the outputs ``z``."""
    total = target.sum(dim=-1, keepdim=True)
    below = (z - z.amax(dim=-1, keepdim=True)).mul_(target).sum(dim=-1)
    loss = total[:, 0].mul(p.amax(dim=-1).log_()).add_(below).neg_()
    p.mul_(total).sub_(target)
    return loss


def log_softmax(outputs: Tensor) -> Tensor:
    """Log probabilities over the last dimension, in fp32.

    Below the width of a vector register torch's kernel on a CPU is five times slower than the formula by parts.
    """
    if torch.is_grad_enabled() or outputs.shape[-1] >= 16:
        return F.log_softmax(outputs.float(), dim=-1)
    shifted = outputs.float() - outputs.float().amax(dim=-1, keepdim=True)
    return shifted - shifted.exp().sum(dim=-1, keepdim=True).log_()


def usual_alpha(start: float) -> float:
    """The momentum for a start that was given: a label loses half of its weight in a fifth of the time that plain
    cross entropy had, which is 0.9 at 33 epochs, the paper's own scale, and not less than 0.75."""
    return max(math.exp2(-5 / max(start, 1e-9)), 0.75)


def checked_labels(labels: Tensor, num_classes: int) -> Tensor:
    """``labels`` as int64 [N], or an error that says what is wrong with them."""
    try:
        by_place = not isinstance(labels, Tensor) and hasattr(labels, "__array__")  # a Series is indexed by its names
        labels = torch.tensor(labels.__array__()) if by_place else torch.as_tensor(labels)
    except (TypeError, ValueError, RuntimeError):
        raise InputError(
            f"labels must be class numbers [N]; got {_first(labels)}. Number them: "
            "names, labels = numpy.unique(labels, return_inverse=True)."
        ) from None
    if labels.numel() and (labels.dtype == torch.bool or labels.is_floating_point() or labels.is_complex()):
        raise InputError(f"labels must be integers; got {labels.dtype}. Convert them to class numbers first.")
    if labels.dim() != 1 or labels.numel() == 0:
        several = " Several labels of a sample (multi-label, tokens) are not supported." if labels.dim() > 1 else ""
        raise InputError(f"labels must be a non-empty vector [N]; got shape {tuple(labels.shape)}.{several}")
    labels = labels.long()
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= num_classes:
        raise InputError(
            f"labels must be in 0..{num_classes - 1} for {num_classes} classes; "
            f"got values from {low} to {high}. Number the classes from 0."
        )
    return labels


def _first(labels: Any) -> str:
    """What is no tensor, in short."""
    first = next(iter(labels), None) if isinstance(labels, Iterable) else labels
    return f"{type(labels).__name__} with {str(first)!r:.40}"


def are_probabilities(outputs: Tensor) -> Tensor:
    """Whether outputs [B, C] went through a softmax: none below zero and every row sums to one. A scalar tensor."""
    z = outputs.detach().float()
    return (z >= 0).all() & ((z.sum(dim=1) - 1).abs() < SUM_ERROR).all()


def check_alpha(alpha: float, name: str = "alpha") -> float:
    if not 0.0 <= alpha < 1.0:
        hint = " It is the weight of the old target; the paper uses 0.9." if name == "alpha" else ""
        raise ConfigError(f"{name} must be in [0, 1); got {alpha}.{hint}")
    return alpha


def check_start(start: float) -> float:
    if not start >= 0:
        raise ConfigError(f"start must be at least 0; got {start}. It is the number of epochs of plain CE.")
    return start


def check_option(option: Option) -> Option:
    if option not in ("I", "II"):
        raise ConfigError(f"option must be 'I' or 'II', as in the paper; got {option!r}.")
    return option


def handed_out(rows: Tensor, given: Tensor) -> Tensor:
    """Rows of an ensemble that started at zero, scaled to sum to one; a row without an update is ``given``.

    After k updates such a row sums to 1 - alpha^k (Eq. 3), so the division needs no count of updates.
    """
    total = rows.sum(dim=1, keepdim=True)
    return torch.where(total > 0, rows / total.clamp_min(torch.finfo(rows.dtype).tiny), given)


def confidence_weights(target: Tensor, world: World = ALONE) -> Tensor:
    """The weight max_c t_c of self-adaptive training (Huang et al. 2020), scaled to a mean of one over the batch.

    The rows of the batch may be spread over the processes of a ``world``: then each of them must call this.
    """
    weight = target.detach().max(dim=1).values
    if world.size == 1:
        mean = weight.mean()
    else:
        total, count = world.sum(torch.stack([weight.double().sum(), weight.new_tensor(len(weight)).double()]))
        mean = (total / count).to(weight.dtype)
    return weight / mean.clamp_min(torch.finfo(weight.dtype).tiny)  # zeros: Option I before any update

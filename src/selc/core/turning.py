"""The turning point: the epoch after which a network no longer learns the pattern but the wrong labels.

Clean samples are learnt first, so the training losses part into two groups and later merge again as the wrong labels
are memorised. The epoch at which the groups lie farthest apart is the turning point (section 4.4 of the paper).
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from selc.core.mixture import fit_mixture, normalise, two_means
from selc.errors import ConfigError, InputError

Metric = Literal["M1", "M2", "M3"]


def separation(losses: Tensor, metric: Metric = "M1", clip: float = 0.0) -> float:
    """How far apart the two groups of losses lie, after normalisation to [0, 1].

    M1 is the distance of the means of two Gaussians, M2 the Kullback-Leibler divergence of the first (the smaller
    mean) from the second, M3 the distance of the centroids of 2-means. The paper normalises by the smallest and the
    largest loss (``clip=0``); see `normalise` for ``clip``.
    """
    if metric not in ("M1", "M2", "M3"):
        raise ConfigError(f"metric must be 'M1', 'M2' or 'M3'; got {metric!r}.")
    scaled = normalise(losses, clip)
    if metric == "M3":
        low, high = two_means(scaled)
        return high - low
    mixture = fit_mixture(scaled)
    (m1, m2), (s1, s2) = mixture.mean, mixture.std
    if metric == "M1":
        return m2 - m1
    return math.log(s2 / s1) + (s1**2 + (m1 - m2) ** 2) / (2 * s2**2) - 0.5


def separations(losses: Tensor, metric: Metric = "M1", clip: float = 0.0) -> list[float]:
    """The separation of each epoch of recorded losses [E, N]; samples that were not seen (NaN) are left out."""
    if losses.dim() != 2:
        raise InputError(f"losses must be [epochs, samples]; got shape {tuple(losses.shape)}.")
    seen = ~torch.isnan(losses)
    return [separation(epoch[there], metric, clip) for epoch, there in zip(losses, seen, strict=True)]


def turning_point(losses: Tensor, metric: Metric = "M1", clip: float = 0.0) -> int:
    """The epoch (from 0) of recorded losses [E, N] with the largest separation, as in the paper."""
    values = separations(losses, metric, clip)
    return max(range(len(values)), key=values.__getitem__)


# The automatic rule. Each constant is a share or a number of updates, so that it scales with the run.
WORTH = 1 / 3  # least trust at which a label is changed; trust is on the low side, see `trust`
CONTEST = 0.35  # share, relative to the predicted class, from which on another given class contests it
TRIM = 0.01  # of the losses at either end that the mixture does not see: a few huge ones would decide everything
DROP = 0.1  # fall of the gap below its maximum that confirms the peak
PLATEAU = 0.05  # below its maximum the gap is as good as at it: the first epoch so near counts as the peak
PATIENCE = 0.15  # of all epochs: so long without a higher gap, and purity alone confirms it; it steps back no farther
LATEST = 0.75  # of all epochs: by then SELC starts, peak or no peak
LEAST_ALPHA = 0.7  # below, a network that is not mature is frozen
HALVINGS = 5  # the weight of a given label halves so often within the time that it took to reach the peak
SURE = 0.02  # dispute among the most confident fifth that cannot be told from none
HARD = 0.04  # of the dispute among all: the surest are contradicted so seldom where samples are hard, not labels wrong
ENOUGH = 5  # samples: if so many are expected and next to none is there, it is not by chance
FEW = 0.15  # dispute among all that a good network has with hard samples alone


class Window(NamedTuple):
    """What the training pass showed over the time of one epoch."""

    clock: float  # the middle of that time, in epochs
    gap: float  # distance of the two groups of losses, in nats
    dispute: float  # share of samples whose prediction differed from the given label
    dispute_half: float  # the same among the more confident half of the predictions
    dispute_fifth: float  # and among the most confident fifth
    samples: float = math.inf

    @property
    def purity(self) -> float:
        """How often the surer predictions contradict a label, in units of how often all do.

        It rises while a network learns: ever more of what is in dispute are wrong labels, and they fall on sure
        predictions as on others. It falls when labels are memorised, because the surest are memorised first.
        """
        return (self.dispute_half + self.dispute_fifth) / max(2 * self.dispute, 1e-9)

    @property
    def error(self) -> float:
        """The standard error of the purity."""
        spread = self.dispute_half * (1 - self.dispute_half) * 2 + self.dispute_fifth * (1 - self.dispute_fifth) * 5
        return math.sqrt(spread / self.samples) / max(2 * self.dispute, 1e-9)

    def hard(self) -> bool:
        """Whether it is hard samples that are in dispute: the surest are contradicted far less often than all.

        Of the surest of very few samples, none may be contradicted by chance: five would have to be expected.
        """
        return self.dispute_fifth < HARD * self.dispute and self.dispute * self.samples / 5 >= ENOUGH


class Turn(NamedTuple):
    """What was found out about a training: when to start SELC, or that there is nothing to correct."""

    peak: float  # clock (epochs) at which the gap was largest
    start: float | None  # clock at which SELC starts; None: nothing to correct
    alpha: float
    dispute: float  # as in the epoch after the best one
    dispute_half: float
    dispute_fifth: float
    reason: str

    @property
    def best(self) -> int:
        """The epoch in which the network knew most and had memorised least: that of the start, else of the peak."""
        return int(self.peak if self.start is None else self.start)

    def judged(self, epochs: int) -> int:
        """Which of the first ``epochs`` epochs labels are judged by: the one after the best."""
        return min(self.best + 1, epochs - 1)


def gap(losses: Tensor) -> float:
    """M1 in the unit of the losses (nats), on all but the smallest and largest of them.

    The paper scales each epoch to [0, 1] anew; as the range of the losses changes from epoch to epoch, so does the
    unit, and the maximum is often an artefact of an epoch with few large losses. In nats epochs can be compared.
    """
    ordered = losses.flatten().sort().values
    cut = int(TRIM * (len(ordered) - 1))
    kept = ordered[cut : len(ordered) - cut]
    scale = float(kept[-1] - kept[0])
    mixture = fit_mixture(normalise(kept), bins=512, steps=200, tolerance=1e-6)
    return scale * (mixture.mean[1] - mixture.mean[0])


def look(losses: Tensor, agrees: Tensor, confidences: Tensor, epoch: int) -> Window:
    """The window of a whole epoch: a part of one holds samples that were seen a shorter or longer time ago."""
    surest = (~agrees)[confidences.argsort(descending=True, stable=True)].double()
    every, half, fifth = (float(surest[: max(1, int(part * len(surest)))].mean()) for part in (1.0, 0.5, 0.2))
    return Window(epoch + 0.5, gap(losses), every, half, fifth, len(surest))


def alpha_for(time: float, dispute: float = 0.5, halving: float = math.inf, epochs_left: float = math.inf) -> float:
    """The momentum that suits a training which took ``time`` epochs to its turning point.

    A given label loses half of its weight in time / 5 epochs: 0.9 at 33 epochs, the paper's own scale. A fast training
    would freeze so (the gradient is alpha (p - t), and the network is young): there alpha is one less half of the share
    in ``dispute``, as labels that are seldom contradicted weigh more, but such that a label's weight halves twice in
    the time ``halving`` in which memorisation halves the dispute. With few epochs left it halves thrice in those.
    """
    in_time = min(1 - dispute / 2, math.exp2(-2 / max(halving, 1e-9)))
    at_leisure = max(math.exp2(-HALVINGS / max(time, 1e-9)), in_time, LEAST_ALPHA)
    return min(at_leisure, flips_within(epochs_left))


def flips_within(epochs: float) -> float:
    """The largest alpha with which a label loses seven eighths of its weight in so many epochs.

    With the eighth that is left it changes where another class has on average a seventh more probability than its own.
    """
    return math.exp2(-3 / max(epochs, 1e-9))


def halving_time(first: Window, last: Window) -> float:
    """Epochs in which the dispute halves, at the pace between two windows; infinite if it does not fall."""
    if not 0 < last.dispute < first.dispute:
        return math.inf
    return (last.clock - first.clock) * math.log(2) / math.log(first.dispute / last.dispute)


def purity_lost(since: list[Window]) -> tuple[float, float]:
    """By what share purity lies below its best, and what share chance would explain.

    Up to three epochs are taken together, as many as leave others to compare with, because one of few samples says
    little. Chance is 2.5 standard errors of the difference: more than two, as it is asked after every epoch.
    """
    together = max(1, min(3, len(since) // 2))
    purities = torch.tensor([window.purity for window in since], dtype=torch.float64)
    means = purities.unfold(0, together, 1).mean(dim=1)
    best = int(means.argmax())
    error = max(window.error for window in (*since[best : best + together], *since[-together:]))
    scale = max(float(means[best]), 1e-9)
    return 1 - float(means[-1]) / scale, 2.5 * error * math.sqrt(2 / together) / scale


def recognise(seen: list[Window], now: int, epochs: float) -> Turn | None:
    """Whether the turning point has passed after ``now`` of ``epochs`` epochs; it looks at the training pass alone.

    The first epoch does not count: its losses are those of a network that knew nothing. The clock of an epoch is its
    middle, so the start has a fraction.

    The gap falls when wrong labels are memorised, but also when hard samples are learnt. What tells these apart is how
    pure the dispute is, see `Window.purity`; so the peak is confirmed where both fall, purity by more than chance would
    have it. Purity alone, if it falls twice as far, confirms a gap that has long stopped growing. What is in dispute is
    read off the epoch after the start.

    There is nothing to correct if the network, where it is sure of itself, does not contradict the labels, and
    elsewhere contradicts few, or so many more that it must be the samples which are hard: wrong labels would be found
    among easy samples too.
    """
    late = now >= LATEST * epochs
    counted = seen[1:] or (seen if late else [])
    if not counted:
        return None
    last, back = seen[-1], PATIENCE * epochs
    largest = max(window.gap for window in counted)
    top = next(window for window in counted if window.gap >= (1 - PLATEAU) * largest)
    lost, chance = purity_lost(seen[seen.index(top) :])
    together = last.gap < (1 - DROP) * largest
    fallen = together and lost > max(PLATEAU, chance)
    memorised = now - top.clock > back and lost > max(DROP, chance)
    # Stepping back farther than that would cost too much; and a network that learnt so long is not sent to its youth.
    start = top.clock if now - top.clock <= back + 1 else max(top.clock, min(now - back, epochs - 1))
    if not (fallen or memorised) and late and now < epochs:  # in three epochs or fewer none is left
        start = float(now)
    best, after = (seen[min(epoch, len(seen) - 1)] for epoch in (int(start), int(start) + 1))
    shares = after.dispute, after.dispute_half, after.dispute_fifth
    clean = after.dispute_fifth < SURE and (last.dispute < FEW or after.hard())
    if clean and (together or memorised or late):
        return Turn(top.clock, None, 1.0, *shares, "there is nothing to correct")
    if not (fallen or memorised or late):
        return None
    reason = "nothing was memorised in three quarters of the epochs, so SELC starts where it is"
    if fallen or memorised:
        reason = "the losses drew together again" if fallen else "labels that were surely wrong are memorised"
    # The pace of memorisation; as far as the surest are not contradicted, the dispute falls because samples are learnt.
    halving = halving_time(best, last) / max(min(1.0, last.dispute_fifth / SURE), 1e-9)
    if after.dispute_fifth < SURE and now < epochs:
        start = float(now)  # no need to step back: nothing that is surely wrong is memorised
    return Turn(top.clock, start, alpha_for(start, after.dispute, halving, epochs - start), *shares, reason)


def noise_rate(turn: Turn, samples: int) -> tuple[float, float, float]:
    """An estimate of the share of wrong labels, with an interval.

    At the turning point a confident network disputes wrong labels, an unsure one also those of hard samples. So the
    truth lies between the dispute among the most confident fifth (which misses noise that falls on hard samples) and
    that among all (which counts what is merely hard), each widened by two standard errors. The estimate is halfway
    between the more confident half and all. The less the surest are contradicted, the more of the dispute elsewhere is
    hardness, and the nearer the estimate is to that of the half; it is that where there was nothing to correct.
    """

    def error(share: float, count: float) -> float:
        return 2 * math.sqrt(max(share * (1 - share), 1 / count) / count)

    low = 0.0 if turn.dispute_fifth < SURE else turn.dispute_fifth - error(turn.dispute_fifth, 0.2 * samples)
    high = turn.dispute + error(turn.dispute, samples)
    beyond = 0.0 if turn.start is None else min(1.0, turn.dispute_fifth / SURE) / 2
    rate = turn.dispute_half + beyond * (turn.dispute - turn.dispute_half)
    return rate, max(low, 0.0), min(high, 1.0)


def trust(agrees: Tensor, confidences: Tensor) -> Tensor:
    """For each sample the share of right ones among changes of labels like its own, [N].

    Wrong labels that have nothing to do with the sample fall on confident predictions as on others. So where samples
    of some confidence are disputed twice as often as the most confident fifth, about half of that dispute is the
    network's own doing. Samples are compared in ten groups by confidence; more confident ones are trusted no less.
    It is on the low side, because what is memorised first is what the network is most confident of.
    """
    N = len(agrees)
    order = confidences.argsort(descending=True, stable=True)
    disputed = (~agrees)[order].double()
    floor = float(disputed[: max(1, N // 5)].mean())
    if floor < SURE:
        return torch.zeros(N, dtype=torch.float64)
    groups = torch.tensor([float(part.mean()) for part in disputed.chunk(10)], dtype=torch.float64)
    share = (floor / groups.cummax(0).values.clamp_min(1e-12)).clamp(max=1.0)
    sizes = torch.tensor([len(part) for part in disputed.chunk(10)])
    return torch.empty(N, dtype=torch.float64).scatter_(0, order, share.repeat_interleave(sizes))


def contested(predictions: Tensor, given: Tensor, num_classes: int) -> Tensor:
    """Classes of which the data cannot say which labels are the true ones, [C] booleans.

    Of two labels that share the samples of a pattern, the true one is taken to be the more frequent. Where the other is
    more than a third as frequent, that becomes a guess, unless it is less than half as frequent beyond chance: noise
    that moves 40 % of a class to another and noise that moves 60 % of it look the same. Both classes of such a pair are
    contested; a handful of samples says nothing of the class that they were given.
    """
    pairs = predictions.long() * num_classes + given.long()
    counts = torch.bincount(pairs, minlength=num_classes**2).view(num_classes, num_classes)
    own = counts.diagonal()[:, None]
    at_most = counts + 2 * (counts + counts**2 / own.clamp_min(1)).sqrt()  # two standard errors of the ratio
    rivals = ((counts > CONTEST * own) & (at_most > own / 2)).fill_diagonal_(False)
    return rivals.any(dim=1) | (rivals & (counts >= ENOUGH)).any(dim=0)


def unknown(predictions: Tensor, given: Tensor, num_classes: int) -> Tensor:
    """Classes whose labels the network predicts no more often than by chance, [C] booleans.

    It has not learnt them, because they are rare or because next to all of their labels are wrong: it cannot judge.
    """
    agreed = torch.bincount(given[predictions == given].long(), minlength=num_classes)
    return agreed * num_classes <= torch.bincount(given.long(), minlength=num_classes)


class Watcher(nn.Module):
    """Watches a training whose loop is not ours: feed it every batch, ask it after every epoch.

    watcher = Watcher(len(labels), epochs=100)
    ...                                     # in the loop, with outputs and labels of a batch
    watcher.feed(index, outputs, labels)
    ...                                     # at the end of an epoch
    if turn := watcher.ask(): print(turn)
    """

    noted: Tensor

    def __init__(self, samples: int, epochs: float = math.inf) -> None:
        super().__init__()
        self.epochs = epochs
        self.windows: list[Window] = []
        self.register_buffer("noted", torch.full((3, samples), torch.nan))  # loss, agreement, confidence of each row

    @torch.no_grad()
    def feed(self, index: Tensor, outputs: Tensor, labels: Tensor) -> None:
        """Take down a batch of the training pass: rows, logits and given labels."""
        log_p = outputs.detach().float().log_softmax(dim=-1)
        largest, predicted = log_p.max(dim=1)
        loss = -log_p.gather(1, labels.unsqueeze(1)).squeeze(1)
        rows = torch.stack([loss, (predicted == labels).float(), largest.exp()])
        self.noted.index_copy_(1, index.to(self.noted.device), rows.to(self.noted.device))

    def ask(self) -> Turn | None:
        """Call it once at the end of each epoch: whether the turning point has passed."""
        loss, agreement, confidence = self.noted[:, ~torch.isnan(self.noted[0])].cpu()
        if len(loss) == 0:
            raise InputError("a watcher must be fed the batches of an epoch before it is asked; got none.")
        self.windows.append(look(loss, agreement.bool(), confidence, len(self.windows)))
        self.noted.fill_(torch.nan)
        return self.turn()

    def turn(self) -> Turn | None:
        """What the epochs so far show."""
        return recognise(self.windows, len(self.windows), self.epochs)

    def get_extra_state(self) -> Tensor:
        return torch.tensor(self.windows, dtype=torch.float64).reshape(-1, len(Window._fields))

    def set_extra_state(self, state: Tensor) -> None:
        self.windows = [Window(*row) for row in state.tolist()]

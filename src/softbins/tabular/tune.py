"""Choosing blur, dropout, weight decay, bins and sigma for a table: all candidates as one stack.

The paper leaves "meta-parameter optimization strategies" open (Section 6). Here every candidate
changes one setting of a regressor, on the same folds for all, so that their errors compare. The
histograms of different bins and sigmas are output layers for the best candidate's hidden units,
and cost next to nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from softbins import scores
from softbins.bins import Bins
from softbins.calibration import Temperature
from softbins.nn.adam import Adam
from softbins.nn.embedded import EmbeddedMLP
from softbins.nn.embedded_pass import Activation
from softbins.nn.head import fit_head
from softbins.nn.objectives import HistogramObjective
from softbins.nn.trainer import Progress, Settings, Trainer
from softbins.tabular.auto_bins import TableObjective, automatic_bins, histogram_objective

FOLDS = 2  # for each candidate
BLURS = (0.5, 2.0)  # times the automatic one
DROPOUTS = (0.0, 0.1, 0.25)
DECAYS = (0.0, 1e-2, 1e-1)
HEADS = ((64, 1.0), (128, 1.0), (128, 2.0), (256, 3.0))  # bins and sigma
FOR_TEMPERATURE = 2_000
WORTH = 0.005  # of the error, that another value must save


@dataclass(frozen=True)
class Candidate:
    """A blur as a share of the targets' range, a dropout rate and a weight decay."""

    blur: float
    dropout: float
    weight_decay: float


def candidates(first: Candidate) -> list[Candidate]:
    """The first, and those that differ from it in one setting."""
    blurs = [Candidate(first.blur * b, first.dropout, first.weight_decay) for b in BLURS]
    dropouts = [Candidate(first.blur, d, first.weight_decay) for d in DROPOUTS]
    decays = [Candidate(first.blur, first.dropout, w) for w in DECAYS]
    return list(dict.fromkeys([first, *blurs, *dropouts, *decays]))


class CandidateMLP(EmbeddedMLP):
    """Members with weight decays of their own."""

    decays: Tensor

    def __init__(
        self,
        tried: Sequence[Candidate],
        features: int,
        embedded: Sequence[int],
        hidden: Sequence[int],
        outputs: int,
        seeds: Sequence[int],
        activation: Activation = "relu",
    ) -> None:
        super().__init__(features, embedded, hidden, outputs, seeds, activation=activation)
        self.register_buffer("decays", torch.tensor([c.weight_decay for c in tried]))

    @torch.no_grad()
    def decay(self, optimiser: Adam) -> None:
        """After a step: AdamW's decay, with each member's own strength."""
        factor = 1 - optimiser.rate * self.decays
        for parameter in self.parameters():
            parameter.mul_(factor.view(-1, *(1,) * (parameter.ndim - 1)))


@dataclass(frozen=True)
class Problem:
    """A table as tensors, which of its inputs are embedded, and the folds that are left out.

    `bins` makes bins from their number and a sigma.
    """

    x: Tensor
    y: Tensor
    weight: Tensor | None
    embedded: Sequence[int]
    folds: Sequence[Tensor]
    kept: Sequence[Tensor]
    bins: Callable[[int, float], Bins]


@dataclass(frozen=True)
class Tuned:
    """The chosen parameters, and the held-out error of everything that was tried."""

    parameters: dict[str, Any]
    tried: list[dict[str, float]]


def tune(
    problem: Problem,
    first: Candidate,
    hidden: Sequence[int],
    activation: Activation,
    settings: Settings,
    blurred_bins: int,
    seed: int,
    progress: Progress | None,
) -> Tuned:
    """Train all candidates at once, and take the best value of each setting."""
    tried = candidates(first)
    members = [candidate for candidate in tried for _ in problem.folds]
    objective = _objective(problem, members, blurred_bins)
    seeds = [seed + fold for _ in tried for fold in range(len(problem.folds))]
    shape = (problem.x.shape[1], problem.embedded, hidden, objective.outputs, seeds)
    network = CandidateMLP(members, *shape, activation)
    rows, validation = list(problem.kept) * len(tried), list(problem.folds) * len(tried)
    data = (problem.x, problem.y, rows, seeds)
    trainer = Trainer(network, objective, *data, settings, validation, problem.weight)
    trainer.optimiser.after_step = network.decay
    trainer.run(progress)
    errors = trainer.best_score.view(len(tried), -1).mean(1).tolist()
    best = errors.index(min(errors)) * len(problem.folds)
    network.keep_members(torch.arange(best, best + len(problem.folds)))
    sharp = [histogram_objective(problem.bins(n, s), s) for n, s in HEADS]
    heads = _judged_heads(network, sharp, problem, seeds[: len(problem.folds)], settings)
    # A number of bins would mean equal ones, where heavy tails or errors ask for others.
    stretched = sharp[0].bins.step is None
    chosen = _chosen(tried, errors) | ({} if stretched else _best_head(heads))
    return Tuned(chosen, _report(tried, errors) + heads)


def _objective(problem: Problem, members: Sequence[Candidate], count: int) -> HistogramObjective:
    """The members' own blurs, on bins with room for the widest."""
    shares = torch.tensor([[member.blur] for member in members])
    widest = shares.max().item()
    sigma = widest * count / (1 + 6 * widest)
    bins = automatic_bins(problem.y.double().numpy(), count, sigma)
    blurred = histogram_objective(bins, sigma)
    if bins.step is not None and widest > shares.min():
        own = blurred.target.with_sigma(sigma * shares / widest)  # type: ignore[attr-defined]
        return HistogramObjective(bins.low, bins.high, bins, own)
    return blurred


@torch.no_grad()
def _judged_heads(
    network: CandidateMLP,
    sharp: Sequence[TableObjective],
    problem: Problem,
    seeds: Sequence[int],
    settings: Settings,
) -> list[dict[str, float]]:
    """CRPS of each sharp histogram, at its best temperature, on the folds that members left out."""
    data = (problem.x, problem.y, problem.kept, seeds, settings, problem.weight)
    layers = [fit_head(network, head, *data) for head in sharp]
    found: list[list[float]] = []
    for member, fold in enumerate(problem.folds):
        rows = fold[:FOR_TEMPERATURE]
        units = network.units(problem.x[rows].expand(network.members, -1, -1))[member].double()
        y = problem.y[rows].double()
        outputs = [units @ w[member].double() + b[member].double() for w, b in layers]
        found.append([_crps(head, part, y) for head, part in zip(sharp, outputs, strict=True)])
    means = np.mean(found, axis=0).tolist()
    heads = zip(HEADS, means, strict=True)
    return [{"bins": count, "sigma": sigma, "crps": crps} for (count, sigma), crps in heads]


def _crps(head: HistogramObjective, outputs: Tensor, y: Tensor) -> float:
    predicted = head.distribution(outputs)
    return scores.crps(Temperature.fit(predicted, y).apply(predicted), y)


def _chosen(tried: Sequence[Candidate], errors: Sequence[float]) -> dict[str, Any]:
    """For each setting its value in the best of those that differ from the first in it alone.

    What is no better than the first by more than chance leaves it.
    """
    first, parameters = tried[0], {}
    for name in ("blur", "dropout", "weight_decay"):
        own = [i for i, c in enumerate(tried) if _differs(c, first) == [name]]
        best = min(own, key=lambda i: errors[i])
        better = errors[best] < (1 - WORTH) * errors[0]
        parameters[name] = getattr(tried[best] if better else first, name)
    return parameters


def _differs(one: Candidate, other: Candidate) -> list[str]:
    names = ("blur", "dropout", "weight_decay")
    return [name for name in names if getattr(one, name) != getattr(other, name)]


def _best_head(heads: list[dict[str, float]]) -> dict[str, Any]:
    best = min(heads, key=lambda head: head["crps"])
    return {"bins": int(best["bins"]), "sigma": best["sigma"]}


def _report(tried: Sequence[Candidate], errors: Sequence[float]) -> list[dict[str, float]]:
    return [vars(c) | {"error": error} for c, error in zip(tried, errors, strict=True)]

"""The predicted distribution: a histogram density on the bins (Section 2.2)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor
from torch.distributions import Distribution, constraints, register_kl
from torch.distributions.utils import lazy_property

from softbins._core.histogram_numerics import (
    at_batch_index,
    batch_first,
    checked_last_dimension,
    crps_of_bins,
    exact_tensor,
    expected_value,
    inverse_cdf,
    mean_of_bins,
    normalized_logits,
    normalized_probs,
    on_common_bins,
    probabilities,
    shortest_interval,
)
from softbins._core.histogram_picture import picture
from softbins._core.move_to_mean import moved_to_mean
from softbins.bins import Bins


class Histogram(Distribution):
    """A batch of densities f_i / w_i on k bins, as a `torch.distributions.Distribution`.

    There is one histogram for each leading index of `logits` or `probs`, and values broadcast
    against that batch shape. It is indexed and iterated like a tensor: `d[3]`, `d[:10]`, `len(d)`.
    Values outside the bins have density zero; they are no error. A bin without width is an atom:
    `cdf` jumps there, quantiles return its value exactly, and for `log_prob`, `entropy` and `mode`,
    which compare densities elsewhere, its probability counts. All methods but those that sample or
    pool go through `torch.export` and ONNX; the values of tensors are not checked there.

    Parameters
    ----------
    bins : Bins
        The k bins.
    logits : Tensor of shape (..., k), optional
        Logarithms of the probabilities of the bins, up to a constant for each histogram.
    probs : Tensor of shape (..., k), optional
        Probabilities of the bins, normalized here; give either these or `logits`.
    validate_args : bool, optional
        False leaves out the search for NaN in the logits.

    Attributes
    ----------
    bins : Bins
        The bins, on the device of the probabilities.

    Examples
    --------
    >>> import torch
    >>> from softbins import Bins, Histogram
    >>> forecast = Histogram(Bins([0.0, 1.0, 3.0]), probs=torch.tensor([[0.25, 0.75]]))
    >>> forecast.mean
    tensor([1.6250])
    >>> forecast.interval(0.5)
    (tensor([1.]), tensor([2.3333]))
    """

    arg_constraints: ClassVar = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_rsample = True

    def __init__(
        self,
        bins: Bins,
        logits: Tensor | None = None,
        probs: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if (logits is None) == (probs is None):
            raise ValueError("logits, probs: give exactly one of them")
        if probs is not None:
            given = self.probs = normalized_probs(checked_last_dimension("probs", probs, bins))
        else:
            assert logits is not None
            logits = checked_last_dimension("logits", logits, bins)
            given = self.logits = normalized_logits(logits, validate_args is not False)
        self.bins = bins.to(given.device)
        super().__init__(given.shape[:-1], torch.Size(), validate_args=False)

    @lazy_property
    def logits(self) -> Tensor:
        """The logarithms of `probs`, of shape (..., k)."""
        return self.probs.log()

    @lazy_property
    def probs(self) -> Tensor:
        """The probability f_i of each bin, of shape (..., k)."""
        # Not exp, which takes up to twenty times as long where nothing is left.
        return torch.softmax(self.logits, -1)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> constraints.Constraint:
        """The bins' range [a, b]."""
        return constraints.interval(self.bins.low, self.bins.high)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Histogram:
        """The same histograms, repeated over a larger batch shape.

        Parameters
        ----------
        batch_shape : sequence of int
            The new batch shape, which the old one broadcasts to.
        _instance : None
            Part of torch's interface, not used.

        Returns
        -------
        Histogram
            One histogram for each index of the new batch shape.
        """
        return self._like(self.logits.expand(*batch_shape, self.bins.count))

    def _like(self, logits: Tensor) -> Histogram:
        return Histogram(self.bins, logits=logits, validate_args=False)

    # Like a sequence

    def __len__(self) -> int:
        if not self.batch_shape:
            raise TypeError("len() of a single histogram")
        return self.batch_shape[0]

    def __getitem__(self, index: Any) -> Histogram:
        return self._like(at_batch_index(self.logits, index))

    def __iter__(self) -> Iterator[Histogram]:
        return (self[row] for row in range(len(self)))

    def __bool__(self) -> bool:
        return True  # as of an object without a length: `if d` asks whether there is one

    # Summaries

    @property
    def mean(self) -> Tensor:
        """sum_i f_i c_i with the bins' centers c_i: the paper's prediction."""
        return mean_of_bins(self.probs, self.bins)

    @property
    def variance(self) -> Tensor:
        """Variance between the bins' centers plus that within the bins, w_i^2 / 12."""
        middle = self._middle
        deviation = self._cast(self.bins.centers - middle) - (self.mean - middle).unsqueeze(-1)
        return (self.probs * (deviation**2 + self._cast(self.bins.widths) ** 2 / 12)).sum(-1)

    @property
    def mode(self) -> Tensor:
        """The center of the bin with the highest density, or an atom with more probability."""
        densest = self._log_density.argmax(-1)
        if self.bins.atoms is not None:
            wide = self._log_density.masked_fill(self.bins.atoms, -torch.inf).argmax(-1)
            probs = self.probs.masked_fill(~self.bins.atoms, 0.0)
            atom, own = probs.max(-1).indices, self.probs.gather(-1, wide.unsqueeze(-1)).squeeze(-1)
            densest = torch.where(probs.amax(-1) >= own, atom, wide)
        return self._cast(self.bins.centers)[densest]

    @property
    def median(self) -> Tensor:
        """The point with half of the probability on either side."""
        return self.quantile(0.5)

    def entropy(self) -> Tensor:
        """Differential entropy -sum_i f_i log(f_i / w_i), with w_i = 1 for atoms.

        Returns
        -------
        Tensor
            In the batch shape.
        """
        return -expected_value(self.probs, self._log_density)

    # Density and cumulative distribution

    def log_prob(self, value: Tensor) -> Tensor:
        """Log density at each point; minus infinity outside the bins.

        At an atom it is the logarithm of the atom's probability.

        Parameters
        ----------
        value : Tensor
            Points in the target's unit, which broadcast against the batch shape.

        Returns
        -------
        Tensor
            In the broadcast shape.
        """
        y, restore = self._spread(value)
        density = self._log_density.gather(-1, self.bins.locate(y))
        inside = (y >= self.bins.low) & (y <= self.bins.high)
        return restore(torch.where(inside, density, -torch.inf))

    def prob(self, value: Tensor | float) -> Tensor:
        """Probability of exactly each value, which only atoms have.

        Parameters
        ----------
        value : Tensor or float
            Points in the target's unit, which broadcast against the batch shape.

        Returns
        -------
        Tensor
            In the broadcast shape; 0 but at atoms.
        """
        y, restore = self._spread(exact_tensor(value))
        if self.bins.atoms is None:
            return restore(torch.zeros_like(self._cast(y)))
        index = self.bins.locate(y)
        at_atom = self.bins.atoms[index] & (y == self.bins.edges[index])
        return restore(torch.where(at_atom, self.probs.gather(-1, index), 0.0))

    def cdf(self, value: Tensor) -> Tensor:
        """Probability of at most each point: linear within each bin, a jump at each atom.

        Parameters
        ----------
        value : Tensor
            Points in the target's unit, which broadcast against the batch shape.

        Returns
        -------
        Tensor
            From 0 to 1, in the broadcast shape.
        """
        y, restore = self._spread(value)
        index = self.bins.locate(y)
        away, width = y - self.bins.edges[index], self.bins.widths[index]
        share = torch.where(width > 0, (away / width).clamp(0, 1), (away >= 0).double())
        start, end = self._cumulative.gather(-1, index), self._cumulative.gather(-1, index + 1)
        return restore(torch.lerp(start, end, self._cast(share)))

    def icdf(self, value: Tensor) -> Tensor:
        """The smallest y with cdf(y) >= value.

        Parameters
        ----------
        value : Tensor
            Probabilities from 0 to 1, which broadcast against the batch shape.

        Returns
        -------
        Tensor
            Points in the target's unit, in the broadcast shape.
        """
        levels, restore = self._spread(probabilities("value", value))
        return restore(self._inverse(self._cast(levels)))

    def quantile(self, q: float | Sequence[float] | Tensor) -> Tensor:
        """Quantiles of every histogram.

        Parameters
        ----------
        q : float, sequence of float or Tensor
            Levels from 0 to 1, the same for all histograms.

        Returns
        -------
        Tensor
            Points in the target's unit: the batch shape, followed by the shape of `q`.
        """
        levels = probabilities("q", q).to(self.probs)
        spread = levels.reshape(-1).expand(*self.batch_shape, levels.numel())
        return self._inverse(spread).reshape(self.batch_shape + levels.shape)

    def interval(
        self, coverage: float, kind: Literal["central", "shortest"] = "central"
    ) -> tuple[Tensor, Tensor]:
        """An interval with probability `coverage` of every histogram.

        Parameters
        ----------
        coverage : float
            The probability, above 0 and at most 1.
        kind : {"central", "shortest"}
            Whether the same probability is left on either side, or the interval is the narrowest.

        Returns
        -------
        low : Tensor
            The low ends, in the batch shape.
        high : Tensor
            The high ends, in the batch shape.
        """
        if not 0 < coverage <= 1:
            raise ValueError(f"coverage: must lie in (0, 1], got {coverage}")
        if kind == "central":
            low, high = self.quantile([(1 - coverage) / 2, (1 + coverage) / 2]).unbind(-1)
            return low, high
        if kind == "shortest":
            edges, widths = self._cast(self.bins.edges), self._cast(self.bins.widths)
            return shortest_interval(self._cumulative, edges, widths, coverage)
        raise ValueError(f"kind: expected 'central' or 'shortest', got {kind!r}")

    def crps(self, value: Tensor) -> Tensor:
        """Continuous ranked probability score, the integral of (cdf(t) - 1[t >= value])^2.

        Parameters
        ----------
        value : Tensor
            Points in the target's unit, which broadcast against the batch shape.

        Returns
        -------
        Tensor
            In the target's unit and in the broadcast shape; smaller is better.
        """
        y, restore = self._spread(value)
        return restore(crps_of_bins(self.probs, self._cumulative, self.bins, y))

    # Sampling

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Samples by inversion, differentiable with respect to the probabilities.

        Parameters
        ----------
        sample_shape : sequence of int
            The shape of the samples of each histogram.

        Returns
        -------
        Tensor
            The sample shape, followed by the batch shape.
        """
        shape = torch.Size(sample_shape)
        uniform = self.probs.new_empty((*self.batch_shape, shape.numel())).uniform_()
        # In (0, 1]: level 0 would be the first edge, even where the first bin is empty.
        samples = self._inverse(1 - uniform)
        return samples.movedim(-1, 0).reshape(shape + self.batch_shape)

    # Mixtures

    @classmethod
    def pool(cls, members: Sequence[Histogram]) -> Histogram:
        """The mixture of the members with equal weights, such as a deep ensemble's prediction.

        Members with different bins meet on the union of their edges, where the mixture is exact.

        Parameters
        ----------
        members : sequence of Histogram
            At least one; their batch shapes broadcast.

        Returns
        -------
        Histogram
            The mixture, in the broadcast batch shape.
        """
        if len(members) == 0:
            raise ValueError("members: need at least one histogram, got none")
        bins, probs = on_common_bins([(member.bins, member.probs) for member in members])
        return cls(bins, probs=torch.stack(torch.broadcast_tensors(*probs)).mean(0))

    def with_mean(self, mean: Tensor) -> Histogram:
        """The distribution moved along the bins, until it has another mean.

        The odds of lying below a point are divided by one number, the same for all points, as far
        as no quantile then moves by much more or less than the mean does, counted in interquartile
        ranges; beyond, the distribution is shifted as a whole. Atoms stay where they are, and
        change in probability. The mean must lie between the first and the last center, and is
        moved there otherwise.

        Parameters
        ----------
        mean : Tensor
            The new means, which broadcast to the batch shape.

        Returns
        -------
        Histogram
            In the batch shape, without gradients.
        """
        probs = self.probs.detach().double().reshape(-1, self.bins.count)
        wanted = mean.double().expand(self.batch_shape).reshape(-1)
        moved = moved_to_mean(probs, self.bins, wanted).reshape(self.probs.shape)
        return Histogram(self.bins, probs=moved.to(self.probs.dtype), validate_args=False)

    # Parts

    @property
    def _middle(self) -> float:
        # Halved first: the sum of the ends may overflow.
        return self.bins.low / 2 + self.bins.high / 2

    @lazy_property
    def _log_density(self) -> Tensor:
        widths = self.bins.widths
        return self.logits - self._cast(torch.where(widths > 0, widths, 1.0).log())

    @lazy_property
    def _cumulative(self) -> Tensor:
        """The cdf at every edge, from exactly 0 to exactly 1."""
        sums = self.probs.cumsum(-1)
        sums = sums / sums[..., -1:]
        return torch.cat([torch.zeros_like(sums[..., :1]), sums], -1)

    def _inverse(self, levels: Tensor) -> Tensor:
        """The smallest y with cdf(y) = level, for levels (*batch, m)."""
        edges, widths = self._cast(self.bins.edges), self._cast(self.bins.widths)
        return inverse_cdf(self._cumulative, edges, widths, levels)

    def _spread(self, value: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        """Values (*sample, *batch) as float64 (*batch, m), and a function for the way back."""
        return batch_first(exact_tensor(value).to(self.probs.device), self.batch_shape)

    def _cast(self, values: Tensor) -> Tensor:
        return values.to(self.probs.dtype)

    def __repr__(self) -> str:
        return f"Histogram({self.bins}, batch_shape={tuple(self.batch_shape)})"

    def _repr_html_(self) -> str | None:
        return picture(self)


@register_kl(Histogram, Histogram)  # type: ignore[untyped-decorator]
def _kl_histogram_histogram(p: Histogram, q: Histogram) -> Tensor:
    """KL(p || q) = sum_i p_i log(p_i / q_i) on common bins; infinite where q lacks support."""
    if p.bins == q.bins:
        return expected_value(*torch.broadcast_tensors(p.probs, p.logits - q.logits))
    _, (ours, theirs) = on_common_bins([(p.bins, p.probs), (q.bins, q.probs)])
    return expected_value(*torch.broadcast_tensors(ours, ours.log() - theirs.log()))

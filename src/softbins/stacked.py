"""Outputs with a range each: equal bins that are stacked, and the histograms on them.

Equal bins of one number are all the same when targets are counted in bins from the first edge on,
as places (y - low) / step. One loss and one histogram on [0, k] then serve all outputs, exactly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor
from torch.distributions import Distribution, constraints

from softbins._core.target_base import Target
from softbins.bins import Bins
from softbins.histogram import Histogram


class StackedBins:
    """Equal bins with a range for each of several outputs, and as many bins for all of them.

    Parameters
    ----------
    bins : sequence of Bins
        The bins of each output: equal ones, of the same number.

    Attributes
    ----------
    edges : Tensor of shape (m, k + 1)
        The edges of the k bins of each of the m outputs, in float64.
    low : Tensor of shape (m,)
        The first edge of each output.
    step : Tensor of shape (m,)
        The width of the bins of each output.
    count : int
        The number of bins of an output, k. `len(bins)` is the number of outputs.
    places : Bins
        The bins that all outputs have in common when places are counted in bins: [0, k].

    Raises
    ------
    ValueError
        If there are none, or their numbers differ, or some are not equal bins.

    Examples
    --------
    >>> import torch
    >>> from softbins import Bins, HistogramLoss, StackedBins
    >>> bins = StackedBins([Bins.uniform(0.0, 1.0, 50), Bins.uniform(-1e3, 1e3, 50)])
    >>> loss = HistogramLoss(bins)
    >>> logits = torch.zeros(7, 2, 50)
    >>> round(loss(logits, torch.tensor([0.3, 800.0]).expand(7, 2)).item(), 4)  # log 50
    3.912
    >>> loss.distribution(logits).mean[0].tolist()
    [0.5, 0.0]
    """

    def __init__(self, bins: Sequence[Bins]) -> None:
        self._each = _checked(bins)
        self.edges = torch.stack([one.edges for one in self._each])
        self.count = self._each[0].count
        self.low = self.edges[:, 0].contiguous()
        self.step = (self.edges[:, -1] - self.low) / self.count
        self.places = Bins.uniform(0.0, self.count, self.count).to(self.edges.device)

    def to(self, device: torch.device | str) -> StackedBins:
        """The same bins on another device.

        Parameters
        ----------
        device : torch.device or str
            Where to put the edges.

        Returns
        -------
        StackedBins
            A copy, or these bins if they are there already.
        """
        if self.edges.device == torch.device(device):
            return self
        return StackedBins([one.to(device) for one in self._each])

    def place(self, y: Tensor, target: Target) -> Tensor:
        """Targets counted in bins from the first edge of their output on.

        Parameters
        ----------
        y : Tensor of shape (..., m)
            The targets of the m outputs.
        target : Target
            The distribution that they become, which says whether one outside is an error.

        Returns
        -------
        Tensor
            In the shape of `y` and in float64.
        """
        place = (y.double() - self.low) / self.step
        if target.outside != "error":
            return place
        for output, bins in enumerate(self._each):
            try:
                target.placed(y[..., output], bins)
            except ValueError as error:
                raise ValueError(f"output {output}: {error}") from error
        return place.clamp(0, self.count)  # an end may have been rounded outwards

    def __len__(self) -> int:
        return len(self._each)

    def __getitem__(self, output: int) -> Bins:
        return self._each[output]

    def __iter__(self) -> Iterator[Bins]:
        return iter(self._each)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StackedBins) and self._each == other._each

    def __hash__(self) -> int:
        return hash(self._each)

    def __deepcopy__(self, memo: dict[int, Any]) -> StackedBins:
        return self  # it never changes

    # A checkpoint holds what makes new bins, and reading it goes through their checks.
    def __reduce__(self) -> tuple[Any, ...]:
        return StackedBins, (list(self._each),)

    def __repr__(self) -> str:
        ranges = ", ".join(f"[{one.low:g}, {one.high:g}]" for one in self._each)
        return f"StackedBins({self.count} equal bins each on {ranges})"


def _checked(bins: Sequence[Bins]) -> tuple[Bins, ...]:
    each = tuple(bins)
    if not each:
        raise ValueError("bins: need those of at least one output, got none")
    for output, one in enumerate(each):
        if not isinstance(one, Bins):
            raise TypeError(f"bins: expected Bins for output {output}, got {type(one).__name__}")
        if one.step is None or one.transformed_step is not None:
            raise ValueError(
                f"bins: only equal bins can be stacked, output {output} has {one}; give it a loss "
                "or head of its own"
            )
        if one.count != each[0].count:
            raise ValueError(
                f"bins: all outputs need as many bins, output 0 has {each[0].count}, output "
                f"{output} has {one.count}"
            )
    return each


class StackedHistogram(Distribution):
    """The histograms of several outputs, each with a range of its own.

    All is as for `Histogram`, with the batch shape (..., m) for m outputs. `unbind` gives the
    histograms of each output for what a stack has not.

    Parameters
    ----------
    bins : StackedBins
        The bins of the m outputs.
    logits : Tensor of shape (..., m, k)
        Logarithms of the probabilities of the bins, up to a constant for each histogram.
    validate_args : bool, optional
        False leaves out the search for NaN in the logits.

    Attributes
    ----------
    bins : StackedBins
        The bins, on the device of the logits.
    places : Histogram
        The histograms of places, which are counted in bins from the first edge on.

    Examples
    --------
    >>> import torch
    >>> from softbins import Bins, StackedBins, StackedHistogram
    >>> bins = StackedBins([Bins.uniform(0.0, 1.0, 4), Bins.uniform(10.0, 50.0, 4)])
    >>> forecast = StackedHistogram(bins, torch.zeros(3, 2, 4))
    >>> forecast.mean[0].tolist()
    [0.5, 30.0]
    >>> forecast.quantile([0.25, 0.75])[0, 1].tolist()
    [20.0, 40.0]
    >>> first, second = forecast.unbind()
    """

    arg_constraints: ClassVar = {"logits": constraints.real_vector}
    has_rsample = True

    def __init__(
        self, bins: StackedBins, logits: Tensor, validate_args: bool | None = None
    ) -> None:
        self.bins = bins.to(logits.device)
        self.places = Histogram(self.bins.places, logits=logits, validate_args=validate_args)
        if self.places.batch_shape[-1:] != (len(bins),):
            raise ValueError(
                f"logits: need shape (..., {len(bins)}, {bins.count}) for {bins}, "
                f"got {tuple(logits.shape)}"
            )
        super().__init__(self.places.batch_shape, torch.Size(), validate_args=False)

    @property
    def logits(self) -> Tensor:
        """The logarithms of `probs`, of shape (..., m, k)."""
        return self.places.logits

    @property
    def probs(self) -> Tensor:
        """The probability of each bin, of shape (..., m, k)."""
        return self.places.probs

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> constraints.Constraint:
        """The range of each output."""
        return constraints.interval(self.bins.edges[:, 0], self.bins.edges[:, -1])

    def unbind(self) -> list[Histogram]:
        """The histograms of each output, on its own bins.

        Returns
        -------
        list of Histogram
            One in the batch shape (...) for each of the m outputs.
        """
        parts = zip(self.bins, self.logits.unbind(-2), strict=True)
        return [Histogram(bins, logits=part, validate_args=False) for bins, part in parts]

    @property
    def mean(self) -> Tensor:
        """The mean of each histogram."""
        return self._value(self.places.mean)

    @property
    def variance(self) -> Tensor:
        """The variance of each histogram."""
        return self.places.variance * self._step.square()

    @property
    def mode(self) -> Tensor:
        """The center of the bin with the highest density."""
        return self._value(self.places.mode)

    @property
    def median(self) -> Tensor:
        """The point with half of the probability on either side."""
        return self.quantile(0.5)

    def entropy(self) -> Tensor:
        """Differential entropy.

        Returns
        -------
        Tensor
            In the batch shape.
        """
        return self.places.entropy() + self._step.log()

    def log_prob(self, value: Tensor) -> Tensor:
        """Log density at each point; minus infinity outside the bins.

        Parameters
        ----------
        value : Tensor
            Points in the target's unit, which broadcast against the batch shape.

        Returns
        -------
        Tensor
            In the broadcast shape.
        """
        return self.places.log_prob(self._place(value)) - self._step.log()

    def cdf(self, value: Tensor) -> Tensor:
        """Probability of at most each point.

        Parameters
        ----------
        value : Tensor
            Points in the target's unit, which broadcast against the batch shape.

        Returns
        -------
        Tensor
            From 0 to 1, in the broadcast shape.
        """
        return self.places.cdf(self._place(value))

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
        return self._value(self.places.icdf(value))

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
        places = self.places.quantile(q)
        levels = places.ndim - len(self.batch_shape)
        return self._value(places.movedim(len(self.batch_shape) - 1, -1)).movedim(-1, -1 - levels)

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
        low, high = self.places.interval(coverage, kind)
        return self._value(low), self._value(high)

    def crps(self, value: Tensor) -> Tensor:
        """Continuous ranked probability score.

        Parameters
        ----------
        value : Tensor
            Points in the target's unit, which broadcast against the batch shape.

        Returns
        -------
        Tensor
            In the target's unit and in the broadcast shape; smaller is better.
        """
        return self.places.crps(self._place(value)) * self._step

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
        return self._value(self.places.rsample(sample_shape))

    @property
    def _step(self) -> Tensor:
        return self.bins.step.to(self.probs.dtype)

    def _place(self, value: Tensor) -> Tensor:
        return (value.to(self.bins.edges) - self.bins.low) / self.bins.step

    def _value(self, place: Tensor) -> Tensor:
        """Places (..., m) in the target's unit, with all digits that their precision has."""
        return (self.bins.low + place.double() * self.bins.step).to(place.dtype)

    def __repr__(self) -> str:
        return f"StackedHistogram({self.bins}, batch_shape={tuple(self.batch_shape)})"


# `torch.load(..., weights_only=True)` may make these: nothing runs but the checks above.
torch.serialization.add_safe_globals([StackedBins])

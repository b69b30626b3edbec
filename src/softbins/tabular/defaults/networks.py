"""Networks, their training, and the bins and targets that they learn."""

from __future__ import annotations

import math
from dataclasses import dataclass

from softbins.nn.settings import CycleRule, HeadSettings, MuonSettings, PruningRule
from softbins.tabular.defaults.by_size import BySize


@dataclass(frozen=True)
class NetworkDefaults:
    """The networks. Many narrow ones err less than a few wide ones that take as long."""

    layers: int = 3
    """Hidden layers."""
    width: BySize[int] = BySize(((25_000, 64), (math.inf, 96)))
    """Units of each hidden layer, by the number of rows."""
    group_size: BySize[int] = BySize(((3_000, 4), (25_000, 3), (math.inf, 2)))
    """Members that are trained as one stack, by the number of rows, about. Smaller stacks keep more
    cores busy, but take longer on one: half of the members 5%, a quarter 10 to 20%."""
    max_rows_in_turn: int = 1_000
    """Rows up to which groups are trained one after another, however many jobs there are, unless
    these are processes: on 500 rows two threads took 4.0 s, as one did, and a third more of the
    processor, because most of a step is Python, which is for one thread at a time."""
    max_embedded_inputs: int = 500
    """Numeric inputs up to which they get periodic embeddings: each makes the first layer wider."""
    important_inputs: BySize[int] = BySize(((25_000, 500), (math.inf, 64)))
    """Inputs that get embeddings where there are more, by the number of rows: those whose splits
    lower the error of trees most. The others enter as they are."""
    frequencies_per_input: int = 16
    """Cosines of each embedded input."""
    embedding_size: int = 8
    """Numbers that each embedded input becomes, beside itself."""
    initial_frequency_scale: float = 0.3
    """Standard deviation of the first frequencies, in periods per standard deviation of the
    input: networks begin with smooth functions and learn higher frequencies where they help."""


MUON = MuonSettings(momentum=0.95, rate_factor=2.0, max_inputs_per_unit=8)
HEAD = HeadSettings(
    steps=400,
    min_epochs=12,
    max_epochs=24,
    learning_rate=0.06,
    max_batch_size=256,
    max_units=2**25,
)
CYCLES = CycleRule(first=3, min_gain=0.005)
PRUNING = PruningRule(decide_after=0.25, max_gap=1.1, max_remaining=0.75, speedup=1.1)


@dataclass(frozen=True)
class TrainingDefaults:
    """How networks learn."""

    learning_rate: float = 0.02
    """Adam's largest learning rate, which Muon multiplies by its own factor."""
    batch_size: BySize[int] = BySize(((5_000, 128), (25_000, 256), (math.inf, 512)))
    """Rows of a mini-batch, by the number of rows: small tables need the steps."""
    rows_of_one_fall: int = 50_000
    """Rows up to which the learning rate falls once, over a number of epochs that is known before.
    Of more rows, cycles find out how many epochs are enough, and members are not pruned."""
    cycles: CycleRule = CYCLES
    """Cycles for large tables. With three epochs in the first instead of five, the fast preset
    takes two thirds of the time on 262 000 flights, with an RMSE of 7.03 instead of 6.95."""
    max_rows_per_epoch: int = 2**17
    """Rows of an epoch of large tables, at most."""
    rows_shuffled_on_disk: int = 2**20
    """Rows that are shuffled among each other, of a table on disk, which is in random order."""
    min_patience: int = 8
    """Epochs without improvement after which a member stops, at least."""
    patience_share: float = 0.25
    """The same as a share of all epochs."""
    muon: MuonSettings = MUON
    """Muon, for hidden layers. On tables without noise a third less error than with Adam; with
    more than eight inputs for a unit most directions of a gradient are noise."""
    head: HeadSettings = HEAD
    """The sharp histogram on top of trained networks; an eighth of a gigabyte of units."""
    pruning: PruningRule = PRUNING
    """When the fast preset goes on with two members: where the error on held-out rows is within a
    tenth of that on own rows, and fell by a quarter in the second half of the epochs so far."""


@dataclass(frozen=True)
class TargetDefaults:
    """The histograms that networks learn."""

    bins: int = 128
    """Bins of the sharp histogram, which is the predicted distribution."""
    blurred_bins: int = 64
    """Bins of the histogram of blurred targets, whose mean is the prediction."""
    blur_per_noise: float = 2.5
    """Standard deviation of a blurred target, as a multiple of the trees' error."""
    min_blur: float = 0.02
    """Least standard deviation of a blurred target, as a share of the targets' range."""
    max_blur: float = 0.2
    """Largest one, as a share of the range."""
    blur_without_noise_estimate: float = 0.05
    """The one that is taken where there are no trees to tell the noise."""


@dataclass(frozen=True)
class BinDefaults:
    """Where bins are, and how they follow heavy tails and uneven noise."""

    margin: float = 3.0
    """Sigmas between the outermost targets and the ends of the bins: room for their Gaussians."""
    heavy_tail_share: float = 0.05
    """Tails are heavy where the middle half of the targets takes up less of their range."""
    max_places: int = 20
    """Places along the target's range at which the error of forecasts is measured, at most."""
    min_rows_per_place: int = 50
    """Forecasts whose mean error is taken at a place, at least."""
    max_density: float = 16.0
    """Bins that a small error may ask for, for each bin that there was before, and as a multiple
    of the average."""
    min_density_ratio: float = 1.25
    """How much denser bins have to become somewhere for them to be moved at all."""


@dataclass(frozen=True)
class SupportDefaults:
    """When targets show that only certain values can be."""

    min_share: float = 0.05
    """Share of the rows that have to have a value for it to get a probability of its own."""
    min_end_share: float = 0.02
    """The same for the smallest and the largest value, which then is a bound as well."""
    min_rows: int = 5
    """Rows that have to have the value, at least."""
    max_values: int = 128
    """Values up to which targets at multiples of a step get a distribution over these alone."""
    margin: float = 0.1
    """Values beyond those that were seen, where there is no bound, as a share of their number."""

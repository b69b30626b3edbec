"""Every number of `HistogramRegressor` that was chosen by experiment, once, with its reason.

The numbers were chosen by errors on the development tables of benchmarks/accuracy. What each part
of the regressor brings is measured by benchmarks/ablation, on these tables and on others that no
choice was made on; `docs/decisions.md` has the result. Numbers that are parameters of the
regressor itself (`sigma`, `weight_decay`, `beta_2`) stand in its signature.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

from softbins.nn.settings import CycleRule, HeadSettings, MuonSettings, PruningRule

Preset = Literal["default", "fast"]
Optimizer = Literal["adam", "muon"]
ScalingKind = Literal["robust", "standard"]


@dataclass(frozen=True)
class BySize:
    """A value that depends on the number of rows: `steps` are (largest number of rows, value)."""

    steps: tuple[tuple[float, int], ...]

    def at(self, n_rows: int) -> int:
        """The value for a table of that many rows."""
        return next(value for most, value in self.steps if n_rows <= most)


@dataclass(frozen=True)
class ColumnDefaults:
    """What columns become before networks and trees see them."""

    max_one_hot_categories: int = 20
    """Categories up to which each has a feature of its own; of more, the most frequent 19 have."""
    max_known_categories: int = 10_000
    """Categories of a column that are remembered, so that a model file stays below a megabyte."""
    max_robust_value: float = 4.0
    """Distance from zero, in quartile distances, that no robustly scaled feature exceeds."""
    min_rows_of_names: int = 50
    """Rows with a text from which on it may be a name: of fewer, categories may come again."""
    min_share_of_names: float = 0.9
    """Different texts, as a share of the rows, above which they are names and are left out. At
    most a fifth of the rows shares its text with another one then."""
    min_share_of_free_texts: float = 0.5
    """The same for long texts."""
    min_length_of_free_text: int = 40
    """Characters that the different texts of a column of free text have on average."""


@dataclass(frozen=True)
class StatisticsDefaults:
    """What targets say of categories that are too many for a feature each.

    On 50 000 flights, fast, RMSE is 7.84 without, 7.73 with means alone, 7.67 with effects alone
    and 7.62 with both. On 1000 categories of 5 to 50 rows it is 1.39, 1.04, 1.03 and 1.03, and
    where another column goes with the categories 1.01, 0.96, 0.74 and 0.74. These are single fits
    of a first version, with the statistics beside the features that they have replaced since. On
    300 categories RMSE falls from 1.11 to 0.59 by slopes, where these differ along one column, and
    from 1.15 to 0.66 along three, and is the same to the last bit where they do not differ
    (results/many_categories.json).
    """

    is_used: bool = True
    """Whether there are such features at all."""
    folds: int = 8
    """Parts that rows outside of all folds are cut into; each knows the targets of the others."""
    rounds: int = 3
    """How often columns of many categories take turns, each with what the others leave."""
    trees: int = 60
    """Trees that predict from the other columns, so that effects are what these do not say."""
    learning_rate: float = 0.15
    """Of these trees."""
    max_rows_of_trees: int = 50_000
    """Rows that these trees learn from, at most."""
    min_rows_of_trees: int = 100
    """Rows of either half of the table, below which there are no such trees."""
    wide_columns: int = 200
    """Columns beyond which there are fewer of these trees, in proportion."""
    min_slope_evidence: float = 5.0
    """Standard deviations beyond chance by which slopes of categories have to differ."""
    min_slope_share: float = 0.05
    """Share of the variance that is left inside of categories which slopes along a column have to
    explain. On 12 000 flights, where it is at most 0.03, slopes made RMSE 1% larger."""
    max_slopes: int = 3
    """Columns along which the categories of a column have slopes, at most."""
    time_share: float = 0.1
    """What all this may take of the time, where that is limited; then effects do without trees."""


@dataclass(frozen=True)
class FoldDefaults:
    """Which rows members leave out."""

    count: int = 8
    """Folds that many rows are cut into. Each member learns from seven eighths of them."""
    min_count_of_few_rows: int = 4
    """Folds that few rows are cut into, at least, so that as many members leave out all of them.
    With four folds of all rows, in the place of four of eight, the fast preset has a CRPS 2% and
    an RMSE 1% lower on the small tables: more rows calibrate and share out the mean."""
    max_unpaired_rows: int = 1_000
    """Rows that are few: each member leaves out a fold of its own. Beyond, two share one. With few
    rows all of them are needed for calibration; with many, pairs are closer to the ensemble."""
    max_judges: int = 10_000
    """Held-out rows, of all folds together, that calibrate. More change nothing that is seen."""
    max_stopping_rows: int = 2**16
    """Held-out rows by which a member's training ends. Of very many, judging all would take longer
    than an epoch, which has a part of the rows only."""
    time_share: float = 0.25
    """Share of the rows, the latest, that all members leave out where rows have a time. With half
    of them in two blocks, 90% intervals hold 96% of the last fifth of bike and 92% of PM2.5, and
    with the later block alone 91% and 89%: what changed long ago says little of what is to come."""
    min_rows_without_duplicates: int = 30
    """Rows that have to be left of a fold after duplicates are taken out: fewer judge nothing."""


@dataclass(frozen=True)
class NetworkDefaults:
    """The networks. Many narrow ones err less than a few wide ones that take as long."""

    layers: int = 3
    """Hidden layers."""
    width: BySize = BySize(((25_000, 64), (math.inf, 96)))
    """Units of each hidden layer, by the number of rows."""
    group_size: BySize = BySize(((1_000, 4), (3_000, 8), (25_000, 3), (math.inf, 2)))
    """Members that are trained as one stack, by the number of rows, about. Smaller stacks keep more
    cores busy, but take longer on one: half of the members 5%, a quarter 10 to 20%."""
    max_embedded_inputs: int = 500
    """Numeric inputs up to which they get periodic embeddings: each makes the first layer wider."""
    important_inputs: BySize = BySize(((25_000, 500), (math.inf, 64)))
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
    max_units=2**26,
)
CYCLES = CycleRule(first=3, min_gain=0.005)
PRUNING = PruningRule(decide_after=0.25, max_gap=1.1, max_remaining=0.75, speedup=1.1)


@dataclass(frozen=True)
class TrainingDefaults:
    """How networks learn."""

    learning_rate: float = 0.02
    """Adam's largest learning rate, which Muon multiplies by its own factor."""
    batch_size: BySize = BySize(((5_000, 128), (25_000, 256), (math.inf, 512)))
    """Rows of a mini-batch, by the number of rows: small tables need the steps."""
    rows_of_one_fall: int = 50_000
    """Rows up to which the learning rate falls once, over a number of epochs that is known before.
    Of more rows, cycles find out how many epochs are enough, and members are not pruned."""
    cycles: CycleRule = CYCLES
    """Cycles for large tables."""
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
    """The sharp histogram on top of trained networks; a quarter of a gigabyte of units."""
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


@dataclass(frozen=True)
class TreeGrowth:
    """How boosted trees grow on tables of up to `max_rows` rows."""

    max_rows: float
    learning_rate: float
    rounds: int
    """Trees of each ensemble, of which those that lower the held-out error are kept."""
    max_leaf_nodes: int
    min_samples_leaf: int


@dataclass(frozen=True)
class TreeDefaults:
    """Boosted trees beside the networks."""

    growth: tuple[TreeGrowth, ...] = (
        TreeGrowth(500, 0.25, rounds=150, max_leaf_nodes=12, min_samples_leaf=1),
        TreeGrowth(1_000, 0.25, rounds=150, max_leaf_nodes=16, min_samples_leaf=1),
        TreeGrowth(2_000, 0.16, rounds=150, max_leaf_nodes=31, min_samples_leaf=1),
        TreeGrowth(5_000, 0.16, rounds=150, max_leaf_nodes=31, min_samples_leaf=2),
        TreeGrowth(20_000, 0.08, rounds=300, max_leaf_nodes=31, min_samples_leaf=5),
        TreeGrowth(math.inf, 0.08, rounds=300, max_leaf_nodes=31, min_samples_leaf=20),
    )
    """By the number of rows. On a few hundred rows small trees err less and grow faster."""
    wide_columns: int = 200
    """Columns beyond which there are fewer rounds, in proportion: each takes as much longer."""
    column_share: float = 0.5
    """Share of columns that every second ensemble sees at a split: together they err less."""
    max_rows_on_disk: int = 1_000_000
    """Rows that each ensemble grows on, at most, where the table does not fit into memory."""


@dataclass(frozen=True)
class GaussianProcessDefaults:
    """A Gaussian process beside the networks, on tables of few rows."""

    max_rows: int = 3_000
    """Rows up to which there is one: time grows with the cube, and networks catch up."""
    max_inputs: int = 200
    """Encoded features up to which there is one."""
    max_likelihood_rows: int = 800
    """Rows by which noise and length scales are chosen, at most."""
    max_rows_to_search_again: int = 300
    """Rows up to which each fold has length scales of its own. Those of all rows flatter: on a
    table of 74 rows and 22 columns by a quarter of the error."""
    max_steps: int = 60
    """Steps of the search."""
    straight_part: float = 0.5
    """Distance from the median, in those of the quartiles, within which targets are about as they
    are. On the small tables RMSE is 5% below the networks' with this, 4% with 1 or 2 instead."""
    margin: float = 0.1
    """How far predictions may go beyond the bent targets, as a share of their range."""
    cut_errors: float = 0.02
    """Share of the errors at each end that are cut, before their mean says how to bend back."""
    log_noise: float = -2.0
    """Logarithm of the usual noise, as a share of the variance of the smooth part."""
    log_linear: float = -1.0
    """Logarithm of the usual variance of the linear part, as a share of the same."""
    noise_deviation: float = 3.0
    """Standard deviation of both logarithms, which is wide."""
    length_deviation: float = 0.7
    """Standard deviation of the logarithms of length scales about their mean. Hardly different
    from 0.5 and 1."""
    mean_length_deviation: float = 1.5
    """Standard deviation of that mean about the half logarithm of the number of columns."""


@dataclass(frozen=True)
class BlendDefaults:
    """How held-out rows share the mean out among networks, trees and a Gaussian process."""

    min_gain: float = 0.005
    """Share of the squared error on held-out rows that a partner has to save to be kept."""
    flattering_rows: float = 7.0
    """Squared errors of networks count 1 + this / (rows of a fold) times, because the same rows
    have stopped their training. On tables of 44 to 130 rows they were 1.1 to 1.5 times as large
    for new rows, beside those of a Gaussian process; from 60 rows in a fold on, no larger."""
    max_error: float = 5.0
    """Median errors beyond which the error of a row counts as it is and not as its square. With
    simulated outliers MAE is a quarter lower with it, and RMSE a twentieth."""


@dataclass(frozen=True)
class CalibrationDefaults:
    """How held-out rows turn raw histograms into distributions and intervals."""

    max_bin_splits: int = 16
    """Parts that a bin is cut into at most, where more is known than its width can say."""
    max_numbers: int = 2**22
    """Probabilities of held-out rows, of all bins together, that calibration works with."""
    max_tilt: float = 0.5
    """How far histograms may be tilted to their mean, away from the longer tail, in log odds of a
    quartile beside the other one, if held-out rows find that better than a move alone. On a table
    of strikes the CRPS is 147 with it and 255 without; where noise is small, a move alone is
    chosen."""
    rounds: int = 3
    """Rounds in which the map and what restores the mean after it agree. Other numbers were not
    tried since the mean is restored after the map."""
    chosen_numbers: float = 4.0
    """Numbers that the same rows have chosen (epochs, trees, shares), for which their errors are
    too small, as Akaike's final prediction error has it."""
    min_offset_deviations: float = 4.0
    """Standard errors that the mean error of held-out rows has to have for it to be undone."""
    max_error_after_offset: float = 0.9
    """Root mean squared error that may be left then, as a share. Networks of five epochs, on 100
    rows of skewed noise, cover 82% at 90% without this and 89% with it."""
    gain_of_all_rows: float = 0.3
    """Share of what members do not have in common, squared, that goes once they have seen all rows
    and not seven eighths. With 0, 0.3 and 0.6, 50% intervals of the fast preset hold 56, 54, 52% of
    kegg, 53, 52, 51% of sml, and 53, 48, 43% of kin40k."""
    max_saved: float = 0.75
    """Share of squared errors that more members and rows may save, at most."""
    tuning_rows: int = 2_000
    """Held-out rows by which `tune` judges histograms."""


@dataclass(frozen=True)
class TuningDefaults:
    """What `HistogramRegressor.tune` tries."""

    folds: int = 2
    """Folds that judge each candidate."""
    blur_factors: tuple[float, ...] = (0.5, 2.0)
    """Blurs, as multiples of the one that it starts from."""
    weight_decays: tuple[float, ...] = (0.0, 1e-2, 1e-1)
    histograms: tuple[tuple[int, float], ...] = ((64, 1.0), (128, 1.0), (128, 2.0), (256, 3.0))
    """Numbers of bins, each with a sigma in bin widths."""
    epochs_share: float = 0.5
    """Epochs of a candidate, as a share of those of `fit`."""
    min_gain: float = 0.005
    """Share of the error that another value has to save: less may be chance."""


@dataclass(frozen=True)
class TimeDefaults:
    """What each part of a fit may take of the time that is left for it, where that is limited."""

    cells_per_second: float = 200_000.0
    """Cells of a table to learn from, for each second. To encode five times as many, of which a
    quarter are text, takes about all of the time."""
    min_rows: int = 10_000
    """Rows up to which all are taken, however little time there is."""
    trees: float = 0.25
    """Trees that have not half of their rounds then are given up."""
    gaussian_process: float = 0.15
    """A Gaussian process that is not ready then is given up."""
    networks: float = 0.85
    """Networks and their heads. What is left is for calibration and the last pass over all rows."""

    def max_rows(self, seconds: float | None, columns: int) -> float:
        """Rows of a table of so many columns to learn from in that time."""
        if seconds is None:
            return math.inf
        return max(self.min_rows, self.cells_per_second * seconds / columns)


@dataclass(frozen=True)
class PresetBudget:
    """What a preset spends on a table."""

    members: BySize
    """Networks, by the number of rows."""
    epochs: BySize
    """Epochs, by the number of rows, at least."""
    max_epochs_of_cycles: int
    """Epochs of large tables, at most: whole cycles."""
    min_steps: int
    """Steps of the training, at least: small tables get more epochs."""
    prune_members: bool
    """Whether two members go on with the time of all, where there is no noise."""
    refit_epochs: float
    """Final pass over all rows, as a share of the mean best epoch."""
    refit_rate: float
    """Learning rate of that pass, as a share of the usual one."""
    tree_ensembles: int
    """Ensembles of boosted trees, at least, and one for each fold."""
    tree_speedup: BySize
    """How many times as fast trees learn, from as many times fewer rounds."""


def _default_preset() -> PresetBudget:
    # With a member or a pair for each fold, all rows of small tables calibrate: pruning, after
    # which only one fold does, is not for this preset. Numbers of epochs that differed between
    # smaller tables brought nothing; beyond 25 000 rows more of them were not tried again.
    return PresetBudget(
        members=BySize(((1_000, 8), (3_000, 16), (25_000, 12), (math.inf, 8))),
        epochs=BySize(((25_000, 76), (math.inf, 100))),
        max_epochs_of_cycles=45,
        min_steps=700,
        prune_members=False,
        refit_epochs=0.1,
        refit_rate=0.1,
        tree_ensembles=4,
        tree_speedup=BySize(((math.inf, 1),)),
    )


def _fast_preset() -> PresetBudget:
    # About a quarter of the default's time. Up to 5000 rows trees learn as slowly as by default:
    # small tables need them, and their error decides how far targets are blurred.
    return PresetBudget(
        members=BySize(((math.inf, 4),)),
        epochs=BySize(((math.inf, 38),)),
        max_epochs_of_cycles=21,
        min_steps=310,
        prune_members=True,
        refit_epochs=0.2,
        refit_rate=0.2,
        tree_ensembles=1,
        tree_speedup=BySize(((5_000, 1), (math.inf, 2))),
    )


@dataclass(frozen=True)
class Defaults:
    """All of them together."""

    columns: ColumnDefaults = ColumnDefaults()
    statistics: StatisticsDefaults = StatisticsDefaults()
    folds: FoldDefaults = FoldDefaults()
    network: NetworkDefaults = NetworkDefaults()
    training: TrainingDefaults = TrainingDefaults()
    targets: TargetDefaults = TargetDefaults()
    bins: BinDefaults = BinDefaults()
    support: SupportDefaults = SupportDefaults()
    trees: TreeDefaults = TreeDefaults()
    gaussian_process: GaussianProcessDefaults = GaussianProcessDefaults()
    blend: BlendDefaults = BlendDefaults()
    calibration: CalibrationDefaults = CalibrationDefaults()
    tuning: TuningDefaults = TuningDefaults()
    times: TimeDefaults = TimeDefaults()
    presets: dict[str, PresetBudget] = field(
        default_factory=lambda: {"default": _default_preset(), "fast": _fast_preset()}
    )


DEFAULTS = Defaults()

# The setting of the paper (Section 4), as parameters of a HistogramRegressor.
PAPER_PARAMETERS: dict[str, Any] = {
    "hidden": (64, 64, 64, 64),
    "bins": 100,
    "sigma": 1.0,
    "blur": None,
    "members": 1,
    "embeddings": False,
    "trees": False,
    "gaussian_process": False,
    "scaling": "standard",
    "activation": "relu",
    "optimizer": "adam",
    "learning_rate": 1e-3,
    "beta_2": 0.999,
    "weight_decay": 0.0,
    "schedule": "constant",
    "batch_size": 256,
    "max_epochs": 100,
    "early_stopping": False,
}

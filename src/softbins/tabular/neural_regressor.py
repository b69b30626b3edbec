"""`NeuralRegressor`: the paper's network with any of its objectives, for scikit-learn."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

import torch
from sklearn.utils import check_random_state
from torch import Tensor

from softbins.bins import Bins
from softbins.nn.groups import GroupTask, SharedTable, TrainedEnsemble, joined
from softbins.nn.objectives import HistogramObjective, Objective, make_objective
from softbins.nn.progress import progress_bar
from softbins.nn.settings import Monitor, Progress, Settings
from softbins.nn.stack import StackedMLP
from softbins.nn.stopping import Stop
from softbins.nn.trainer import HistoryRow
from softbins.tabular.base import StackedRegressor
from softbins.tabular.data import TrainingData
from softbins.tabular.defaults import DEFAULTS, ScalingKind
from softbins.tabular.device import chosen_device
from softbins.tabular.ensemble import Workshop, group_tasks, member_groups, warn_of_cut
from softbins.tabular.interrupts import OnInterrupt
from softbins.tabular.jobs import scattered, useful_jobs
from softbins.tabular.memory import NetworkSize, check_size
from softbins.tabular.summary import history_summary
from softbins.tabular.targets import float_targets, predict_constant, range_of
from softbins.tabular.watch import Callback, Watch


class NeuralRegressor(StackedRegressor):
    """A neural network with any of the paper's objectives.

    Several `members` make a deep ensemble, trained as one stack. `HistogramRegressor` is the
    estimator with defaults for tables; this one does what the paper does, and nothing more.

    Parameters
    ----------
    objective : str, default="hl-gaussian"
        What the last layer predicts and learns from: "l2", "l1", "l2-noise", "l2-clipping",
        "l2-softmax", "hl-onebin", "hl-uniform", "hl-gaussian", "mdn" or "l2-many".
    hidden : sequence of int, default=(64, 64, 64, 64)
        Units of each hidden layer.
    bins : int or Bins, default=100
        Bins of the objectives that have some. A number means equal bins on the target's range.
    sigma : float, default=1.0
        Standard deviation of the Gaussians of "hl-gaussian", in bin widths.
    epsilon : float, default=1e-3
        Probability that "hl-uniform" gives to each other bin.
    noise : float, default=1e-2
        Standard deviation of the noise of "l2-noise", as a share of the target's range.
    clip : float, default=1.0
        Largest norm of the gradient of "l2-clipping".
    components : int, default=8
        Gaussians of the mixture density network "mdn".
    target_range : tuple of float, optional
        The target's range (low, high). That of the training targets by default.
    members : int, default=1
        Networks whose predictions are averaged.
    dropout : float, default=0.0
        Share of inputs that are dropped in training, from 0 to less than 1.
    learning_rate : float, default=1e-3
        Adam's learning rate.
    weight_decay : float, default=0.0
        AdamW's decay of the weights.
    schedule : {"constant", "cosine"}, default="constant"
        Whether the learning rate stays as it is or falls to nothing along half a cosine.
    batch_size : int, default=256
        Rows of a mini-batch.
    max_epochs : int, default=100
        Passes over the data, at most.
    max_seconds : float, optional
        Time for the whole of `fit`, about. A warning says what was cut.
    early_stopping : bool, default=False
        Whether each member leaves out some rows, stops when it no longer improves on them, and
        goes back to its best epoch.
    validation_fraction : float, default=0.1
        Share of rows that each member leaves out then.
    patience : int, default=20
        Epochs without improvement after which a member stops.
    monitor : {"objective", "mae", "rmse"}, default="objective"
        Which error on the rows left out has to improve.
    categorical_features : "from_dtype", None, or list, default="from_dtype"
        "from_dtype" takes text, booleans and categories of a data frame for categories. A list
        has indices or names of columns, or is a mask.
    device : str, default="auto"
        Where to train. "auto" is the processor, "cpu"; other names of torch's, such as "cuda",
        have to be asked for. Predictions are made on the processor.
    n_jobs : int, optional
        Cores to use, in `fit` and for predictions: None is one, unless a `joblib.parallel_config`
        says otherwise, and -1 is all. The model is the same for any number.
    random_state : int, RandomState instance or None, default=None
        A number gives the same model again.
    progress : bool or callable, default=False
        True shows a bar in a terminal or notebook. A function is called after every epoch with
        the epoch, the number of epochs, the seconds so far, and a dict of errors.
    callbacks : sequence of callables, default=()
        Each is called after every epoch with a list of dicts: for every epoch so far its number
        and the members' mean errors. If one returns True, the training ends. Like `progress`,
        they hear nothing of a training in other processes.
    on_interrupt : {"raise", "keep"}, default="raise"
        What the first Ctrl-C does: "keep" ends the training, and makes a model of what was
        reached; "raise" leaves the estimator as it was.

    Attributes
    ----------
    network_ : StackedMLP
        The trained networks.
    objective_ : Objective
        What their outputs mean.
    bins_ : Bins
        The bins of a histogram objective; other objectives have none.
    scaling_ : Scaling
        How features are scaled.
    columns_ : Columns
        What each column of X became.
    history_ : list of dict
        Errors of each member after each epoch.
    n_epochs_ : int
        Epochs that were trained.
    provenance_ : Provenance or None
        Where the model comes from: version, time, seed, the rows and their columns, and scores
        on validation rows. None for a file of an older version.
    n_features_in_ : int
        Columns of X.
    feature_names_in_ : array of shape (n_features_in_,)
        Their names, if all are text.

    See Also
    --------
    HistogramRegressor : The Histogram Loss for tables, with defaults that need no tuning.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from softbins import NeuralRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = NeuralRegressor("hl-gaussian", (32, 32), max_epochs=20, random_state=0)
    >>> model.fit(X, y).predict_interval(X[:3], coverage=0.9).shape
    (3, 2)
    """

    scaling: ScalingKind = "standard"
    trees = False

    def __init__(
        self,
        objective: str = "hl-gaussian",
        hidden: Sequence[int] = (64, 64, 64, 64),
        *,
        bins: int | Bins = 100,
        sigma: float = 1.0,
        epsilon: float = 1e-3,
        noise: float = 1e-2,
        clip: float = 1.0,
        components: int = 8,
        target_range: tuple[float, float] | None = None,
        members: int = 1,
        dropout: float = 0.0,
        learning_rate: float = 1e-3,
        weight_decay: float = 0.0,
        schedule: Literal["constant", "cosine"] = "constant",
        batch_size: int = 256,
        max_epochs: int = 100,
        max_seconds: float | None = None,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        patience: int = 20,
        monitor: Monitor = "objective",
        categorical_features: Any = "from_dtype",
        device: str = "auto",
        n_jobs: int | None = None,
        random_state: Any = None,
        progress: bool | Progress = False,
        callbacks: Sequence[Callback] = (),
        on_interrupt: OnInterrupt = "raise",
    ) -> None:
        self.objective = objective
        self.hidden = hidden
        self.bins = bins
        self.sigma = sigma
        self.epsilon = epsilon
        self.noise = noise
        self.clip = clip
        self.components = components
        self.target_range = target_range
        self.members = members
        self.dropout = dropout
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.schedule = schedule
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.max_seconds = max_seconds
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.monitor = monitor
        self.categorical_features = categorical_features
        self.device = device
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.progress = progress
        self.callbacks = callbacks
        self.on_interrupt = on_interrupt

    def _fit(self, data: TrainingData, stop: Stop) -> tuple[dict[str, Any], dict[str, float]]:
        settings = self._settings()
        check_size(self._network_size(data), self.max_seconds)
        low, high = range_of(data.target, self.target_range, self.bins)
        objective = self._objective_on(low, high, self.bins)
        task = self._task(data, objective, settings)
        if data.is_constant:
            network, history, epochs = task.make_network(task.seeds), list[HistoryRow](), 0
            predict_constant(network, objective, float_targets(data.target[:1]))
        else:
            ensemble = self._trained(data, task, stop)
            network, history, epochs = ensemble.network, ensemble.history, ensemble.epoch
        fitted: dict[str, Any] = {
            # In float64, so that a prediction does not depend on the rest of its batch.
            "network_": network.double().eval(),
            "objective_": objective,
            "scaling_": data.scaling,
            "history_": history,
            "n_epochs_": epochs,
        }
        if isinstance(objective, HistogramObjective):
            fitted["bins_"] = objective.bins
        return fitted, self._held_out_scores(history)

    def _trained(self, data: TrainingData, task: GroupTask, stop: Stop) -> TrainedEnsemble:
        """All members, in groups of a size that the table decides."""
        y = float_targets(data.target)
        table = SharedTable.of(data.features, y, data.weight, task.objective, task.settings)
        defaults = DEFAULTS.network
        size = defaults.group_size.at(data.n_rows)
        tasks = group_tasks(task, member_groups(self.members, size, None))
        jobs = useful_jobs(self.n_jobs, data.n_rows, defaults.max_rows_in_turn)
        with progress_bar(self.progress) as show, scattered(table):
            workshop = Workshop(table, jobs, Watch(show, stop, self.callbacks))
            ensemble = joined(workshop.run(tasks))
        warn_of_cut(ensemble, task.settings.epochs, stop)
        return ensemble

    def _held_out_scores(self, history: list[HistoryRow]) -> dict[str, float]:
        """Errors on validation rows in the epoch that was kept, averaged over the members."""
        if not self.early_stopping:
            return {}
        errors = history_summary(history, self.monitor)
        known = {name: errors.get(f"validation_{name}") for name in ("mae", "rmse")}
        return {name: error for name, error in known.items() if error is not None}

    def _settings(self) -> Settings:
        if not (isinstance(self.members, int) and self.members >= 1):
            raise ValueError(f"members: need a whole number of at least 1, got {self.members!r}")
        if not 0 < self.validation_fraction < 1:
            raise ValueError(
                f"validation_fraction: must lie in (0, 1), got {self.validation_fraction}"
            )
        return Settings(
            epochs=self.max_epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            schedule=self.schedule,
            patience=self.patience if self.early_stopping else None,
            monitor=self.monitor,
            evaluate=("train", "validation"),
        )

    def _task(self, data: TrainingData, objective: Objective, settings: Settings) -> GroupTask:
        """What all members have to do."""
        first = int(check_random_state(self.random_state).randint(2**31 - 1))
        seeds = [first + member for member in range(self.members)]
        rows, validation = self._split(data.n_rows, seeds)
        inputs, outputs = data.features.shape[1], objective.outputs
        return GroupTask(
            members=range(self.members),
            seeds=seeds,
            rows=rows,
            validation=validation,
            objective=objective,
            settings=settings,
            make_network=partial(_network, inputs, self.hidden, outputs, self.dropout),
            device=str(chosen_device(self.device)),
        )

    def _network_size(self, data: TrainingData) -> NetworkSize:
        # What is no number is refused later, with the words for it.
        bins = self.bins if isinstance(self.bins, int) else getattr(self.bins, "count", 1)
        outputs = {"l2-softmax": bins, "mdn": 3 * self.components}.get(self.objective, 1)
        return NetworkSize(
            members=self.members,
            inputs=len(data.columns.encoded_features),
            hidden=self.hidden,
            outputs=bins if self.objective.startswith("hl-") else outputs,
            rows=data.n_rows,
            batch_size=self.batch_size,
        )

    def _split(self, n_rows: int, seeds: Sequence[int]) -> tuple[list[Tensor], list[Tensor] | None]:
        """Each member's training rows, and those it is stopped by."""
        if not self.early_stopping:
            return [torch.arange(n_rows)] * len(seeds), None
        held_out = max(1, round(self.validation_fraction * n_rows))
        if held_out >= n_rows:
            raise ValueError(
                f"validation_fraction: {self.validation_fraction} of n_samples={n_rows} leaves no "
                "row to train on; give more rows or turn early_stopping off"
            )
        orders = [
            torch.randperm(n_rows, generator=torch.Generator().manual_seed(seed)) for seed in seeds
        ]
        return [order[held_out:] for order in orders], [order[:held_out] for order in orders]

    def _objective_on(self, low: float, high: float, bins: int | Bins) -> Objective:
        return make_objective(
            self.objective,
            low,
            high,
            bins=bins,
            sigma=self.sigma,
            epsilon=self.epsilon,
            noise=self.noise,
            clip=self.clip,
            components=self.components,
        )

    def _state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        return {}, {"edges": self.bins_.edges} if hasattr(self, "bins_") else {}

    def _set_state(self, header: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        bins = self.bins
        if "edges" in tensors:
            bins = self.bins_ = Bins(tensors.pop("edges"))
        low, high = header["range"]
        self.objective_ = self._objective_on(low, high, bins)
        inputs, outputs = len(self.columns_.encoded_features), self.objective_.outputs
        self.network_ = StackedMLP(inputs, self.hidden, outputs, [0], self.dropout)


def _network(
    inputs: int, hidden: Sequence[int], outputs: int, dropout: float, seeds: Sequence[int]
) -> StackedMLP:
    return StackedMLP(inputs, hidden, outputs, seeds, dropout)

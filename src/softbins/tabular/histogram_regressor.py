"""`HistogramRegressor`: the Histogram Loss for a table, with defaults that need no tuning.

Members are networks with embedded inputs, each of which leaves out a fold of the rows. The folds
stop the training, decide how much boosted trees and a Gaussian process take part in the mean, and
calibrate.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state
from torch import Tensor

from softbins._core.checks import require_number
from softbins.bins import Bins
from softbins.nn.embedded import EmbeddedMLP
from softbins.nn.progress import progress_bar
from softbins.nn.settings import Activation, Monitor, Progress
from softbins.nn.stopping import Stop
from softbins.tabular import histogram_state
from softbins.tabular.base import EncodedTable, StackedRegressor
from softbins.tabular.calibrated_predictions import PredictsCalibrated
from softbins.tabular.data import TrainingData
from softbins.tabular.defaults import DEFAULTS, PAPER_PARAMETERS, Optimizer, Preset, ScalingKind
from softbins.tabular.device import one_thread
from softbins.tabular.disk_table import DEFAULT_MEMORY, disk_training_data
from softbins.tabular.fit import fit_table
from softbins.tabular.hyperparameters import Hyperparameters, resolve
from softbins.tabular.interrupts import OnInterrupt
from softbins.tabular.jobs import check_jobs, refuse_other_processes
from softbins.tabular.objectives import distribution_part
from softbins.tabular.parquet_table import ParquetTable, is_dataset
from softbins.tabular.provenance import time_of_fit
from softbins.tabular.tune import tune_table
from softbins.tabular.watch import Callback, Watch

Auto = Literal["auto"]


class HistogramRegressor(PredictsCalibrated, StackedRegressor):
    """A regressor for tables that predicts a calibrated distribution for every row.

    Each of several networks leaves out a part of the rows and stops where it errs least on
    them. The same rows decide how much boosted trees and, for few rows, a Gaussian process take
    part in the mean, and calibrate the predicted distribution, from which everything else comes:
    mean, quantiles, intervals, samples.
    At last all networks learn from all rows, a little. Where a parameter is "auto", the number of
    rows and the noise decide.

    Parameters
    ----------
    hidden : sequence of int or "auto", default="auto"
        Units of each hidden layer.
    preset : {"default", "fast"}, default="default"
        "fast" takes about a quarter of the time, or half for few rows, and errs a little more.
    bins : int, Bins or "auto", default="auto"
        Bins of the predicted histogram. "auto" follows heavy tails and uneven noise, a number
        means equal bins. Predicted distributions have finer bins where more is known than these
        can say, unless they are given as `Bins`. With "auto", values that many rows share get a
        probability of their own, and so do whole numbers, if there are few.
    lower, upper : float, optional
        Bounds of the target that are known: nothing is predicted beyond. Those that targets show
        by themselves, such as 0 for counts, need not be given with bins="auto".
    sigma : float, default=2.0
        Standard deviation of a target's Gaussian, in bin widths.
    blur : float, None or "auto", default="auto"
        Standard deviation of the blurred targets that the mean is learnt from, as a share of the
        targets' range. None learns the mean from the predicted distribution itself.
    members : int or "auto", default="auto"
        Networks whose predictions are averaged.
    embeddings : bool, default=True
        Whether numbers enter the networks as learnt waves, beside themselves.
    trees : bool, default=True
        Whether boosted trees may take part in the mean. They need `early_stopping`.
    gaussian_process : bool, default=True
        Whether a Gaussian process may take part in the mean, for up to 3000 rows. It needs
        `early_stopping`.
    scaling : {"robust", "standard"}, default="robust"
        "robust" bends features that are far out; "standard" only centers them.
    activation : {"silu", "relu"}, default="silu"
        The function between the layers.
    optimizer : {"muon", "adam"}, default="muon"
        "muon" is for hidden layers, with Adam for the rest.
    learning_rate : float or "auto", default="auto"
        Adam's learning rate, of which Muon takes a multiple.
    beta_2 : float, default=0.95
        Adam's decay of the mean of squared gradients.
    weight_decay : float, default=1e-2
        Decay of the weights, in proportion to the learning rate.
    schedule : {"cosine", "constant"}, default="cosine"
        Whether the learning rate falls to nothing along half a cosine or stays as it is.
    batch_size : int or "auto", default="auto"
        Rows of a mini-batch.
    max_epochs : int or "auto", default="auto"
        Passes over the data, at most. With "auto" the learning rate of more than 50 000 rows falls
        again and again, each time for twice as long, while that lowers the error on the rows left
        out; an epoch then has 131 072 random rows at most.
    max_seconds : float, optional
        Time for the whole of `fit`, about: what has been learnt by then is calibrated and kept,
        and a warning says what was cut. Where it is short, some of the rows are learnt from.
    folds : splitter or sequence of pairs, optional
        Which rows are held out, where `groups` and `time` of `fit` do not say it: a splitter of
        scikit-learn, or pairs of indices of rows to learn from and rows to hold out.
    early_stopping : bool, default=True
        Whether members leave out rows. If not, all rows train all members, there are no trees,
        and nothing is calibrated.
    patience : int or "auto", default="auto"
        Epochs without improvement on the rows left out after which a member stops.
    monitor : {"rmse", "mae", "objective"}, default="rmse"
        Which error on these rows has to improve.
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
    network_ : EmbeddedMLP
        The trained networks.
    objective_ : Objective
        What their outputs mean.
    bins_ : Bins
        The bins that networks have learnt; `bins_.bias` is what they cost.
    aggregator_ : Aggregator or None
        What rows that were left out have decided. None without early stopping.
    forest_ : Forest or None
        The boosted trees, if they take part.
    gaussian_process_ : GaussianProcess or None
        The Gaussian process, if it takes part.
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
        on the rows that were left out. None for a file of an older version.
    tuning_ : list of dict
        What `tune` has tried, if it was called.
    n_features_in_ : int
        Columns of X.
    feature_names_in_ : array of shape (n_features_in_,)
        Their names, if all are text.

    See Also
    --------
    NeuralRegressor : The paper's network with any of its objectives.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from softbins import HistogramRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = HistogramRegressor(preset="fast", max_epochs=20, random_state=0).fit(X, y)
    >>> mean = model.predict(X[:3])
    >>> low, high = model.predict_interval(X[:3], coverage=0.9).T
    >>> bool((low < mean).all() and (mean < high).all())
    True
    """

    objective = "hl-gaussian"
    _defaults = DEFAULTS
    network_: EmbeddedMLP

    def __init__(
        self,
        hidden: Sequence[int] | Auto = "auto",
        *,
        preset: Preset = "default",
        bins: int | Bins | Auto = "auto",
        lower: float | None = None,
        upper: float | None = None,
        sigma: float = 2.0,
        blur: float | Auto | None = "auto",
        members: int | Auto = "auto",
        embeddings: bool = True,
        trees: bool = True,
        gaussian_process: bool = True,
        scaling: ScalingKind = "robust",
        activation: Activation = "silu",
        optimizer: Optimizer = "muon",
        learning_rate: float | Auto = "auto",
        beta_2: float = 0.95,
        weight_decay: float = 1e-2,
        schedule: Literal["constant", "cosine"] = "cosine",
        batch_size: int | Auto = "auto",
        max_epochs: int | Auto = "auto",
        max_seconds: float | None = None,
        folds: Any = None,
        early_stopping: bool = True,
        patience: int | Auto = "auto",
        monitor: Monitor = "rmse",
        categorical_features: Any = "from_dtype",
        device: str = "auto",
        n_jobs: int | None = None,
        random_state: Any = None,
        progress: bool | Progress = False,
        callbacks: Sequence[Callback] = (),
        on_interrupt: OnInterrupt = "raise",
    ) -> None:
        self.hidden = hidden
        self.preset = preset
        self.bins = bins
        self.lower = lower
        self.upper = upper
        self.sigma = sigma
        self.blur = blur
        self.members = members
        self.embeddings = embeddings
        self.trees = trees
        self.gaussian_process = gaussian_process
        self.scaling = scaling
        self.activation = activation
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.beta_2 = beta_2
        self.weight_decay = weight_decay
        self.schedule = schedule
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.max_seconds = max_seconds
        self.folds = folds
        self.early_stopping = early_stopping
        self.patience = patience
        self.monitor = monitor
        self.categorical_features = categorical_features
        self.device = device
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.progress = progress
        self.callbacks = callbacks
        self.on_interrupt = on_interrupt

    @classmethod
    def as_in_paper(cls, **changes: Any) -> Self:
        """Make a regressor with the paper's setting (Section 4) and nothing more.

        That is four layers of 64 units, 100 bins, Adam, one network; no embeddings, trees, weight
        decay or early stopping.

        Parameters
        ----------
        **changes : dict
            Parameters of the regressor that shall differ.

        Returns
        -------
        HistogramRegressor
            Not yet fitted.

        Examples
        --------
        >>> from softbins import HistogramRegressor
        >>> HistogramRegressor.as_in_paper(bins=50).hidden
        (64, 64, 64, 64)
        """
        return cls(**(PAPER_PARAMETERS | changes))

    # Fitting

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
        groups: Any = None,
        time: Any = None,
        *,
        target: str | None = None,
        memory: float = DEFAULT_MEMORY,
    ) -> Self:
        """Train on a table.

        Parameters
        ----------
        X : array, data frame, path or dataset of shape (n_samples, n_features)
            Features. Gaps (NaN) are allowed. In a data frame of pandas or polars, text,
            categories and booleans are taken as well, so that no encoder is needed. A sparse
            matrix is made dense, up to 1 GB. A Parquet file, a folder of such files, or a
            `pyarrow.dataset.Dataset` need not fit into memory: rows are read in batches and
            encoded in a temporary file (in TMPDIR), and columns are learnt from 200 000 rows.
        y : array of shape (n_samples,)
            Targets, finite numbers. None for Parquet, where `target` names them.
        sample_weight : array of shape (n_samples,), optional
            How much each row counts, relative to the others. A row of weight 0 is no row.
        groups : array of shape (n_samples,) or str, optional
            A label for each row, or the name of a column of X. Rows of one group, such as those
            of one patient, are held out together, so that intervals hold for new groups.
        time : array of shape (n_samples,) or str, optional
            When each row was, as dates or numbers, or the name of a column of X. Rows that are
            held out are later than those that the members learnt from which they judge.
        target : str, optional
            The column of a Parquet table to predict. Rows that have none are left out.
        memory : float, default=1e9
            About how many bytes a fit of a Parquet table may take, beside the program itself.

        Returns
        -------
        Self
            The fitted estimator. If fitting fails, the estimator stays as it was.
        """
        if not is_dataset(X):
            if target is not None:
                raise ValueError("target: is the column of a Parquet table; give y for an array")
            return self._fit_encoded(self._encoded(X, y, sample_weight, groups=groups, time=time))
        given = {"y": y, "sample_weight": sample_weight, "groups": groups, "time": time}
        given |= {"folds": self.folds}
        unknown = [name for name, value in given.items() if value is not None]
        if unknown:
            raise ValueError(f"{unknown[0]}: is not taken with a Parquet table; leave it out")
        table = X if isinstance(X, ParquetTable) else ParquetTable.open(X, target)
        return self._fit_parquet(table, memory)

    def _fit_parquet(self, table: ParquetTable, memory: float) -> Self:
        """Train on a table that need not fit into memory."""
        check_jobs(self.n_jobs)
        if table.target is None:
            raise ValueError("target: name the column of the Parquet table that is to be predicted")
        refuse_other_processes()
        fitted_at, stop = time_of_fit(), Stop(self.max_seconds)
        data = disk_training_data(
            table,
            memory=require_number("memory", memory),
            categorical_features=self.categorical_features,
            scaling=self.scaling,
            trees=bool(self.trees and self.early_stopping),
            seed=self._seed(),
        )
        columns = np.array(table.features, dtype=object)
        names = {"n_features_in_": len(columns), "feature_names_in_": columns}
        return self._fit_encoded(EncodedTable(data, names, table.target, fitted_at, stop))

    def _encoded(
        self, X: Any, y: Any, sample_weight: ArrayLike | None = None, **order: Any
    ) -> EncodedTable:
        return super()._encoded(X, y, sample_weight, **self._order(**order))

    def _order(self, groups: Any = None, time: Any = None) -> dict[str, Any]:
        """What says which rows are held out together."""
        order = {"groups": groups, "time": time, "folds": self.folds}
        given = [name for name, value in order.items() if value is not None]
        if given and not self.early_stopping:
            raise ValueError(f"{given[0]}: no rows are held out without early_stopping")
        return order

    def _fit(self, data: TrainingData, stop: Stop) -> tuple[dict[str, Any], dict[str, float]]:
        with progress_bar(self.progress) as show:
            watch = Watch(show, stop, self.callbacks)
            fitted = fit_table(data, self._resolved(data), self._seed(), watch)
        attributes = {
            "network_": fitted.network,
            "objective_": fitted.objective,
            "bins_": distribution_part(fitted.objective).bins,
            "columns_": fitted.columns,
            "scaling_": fitted.scaling,
            "aggregator_": fitted.aggregator,
            "forest_": fitted.forest,
            "gaussian_process_": fitted.gaussian_process,
            "history_": fitted.history,
            "n_epochs_": fitted.n_epochs,
        }
        return attributes, fitted.scores

    def _max_rows(self, columns: int) -> float:
        return self._defaults.times.max_rows(self.max_seconds, columns)

    def _resolved(self, data: TrainingData) -> Hyperparameters:
        chosen = resolve(self.get_params(deep=False), data.n_rows, self._defaults)
        return chosen if data.memory is None else chosen.within(data.memory)

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def tune(
        self,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None = None,
        groups: Any = None,
        time: Any = None,
    ) -> Self:
        """Choose blur, weight decay, bins and sigma for this table, then fit with them.

        Candidates are trained side by side on two folds, for half as long as `fit` would. A blur
        that was given is where it starts, `blur=None` and bins given as `Bins` stay as they are.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
            Features, as for `fit`.
        y : array of shape (n_samples,)
            Targets, finite numbers.
        sample_weight : array of shape (n_samples,), optional
            How much each row counts, relative to the others.
        groups, time : array of shape (n_samples,) or str, optional
            What rows have to do with each other, as for `fit`.

        Returns
        -------
        HistogramRegressor
            The fitted regressor, with the chosen parameters set; `tuning_` has all that was
            tried. If tuning or fitting fails, the regressor stays as it was.
        """
        check_jobs(self.n_jobs)
        data, _ = self._training_data(X, y, sample_weight, **self._order(groups, time))
        with one_thread(), progress_bar(self.progress) as show:
            watch = Watch(show, Stop(self.max_seconds), self.callbacks)
            tuned = tune_table(data, self._resolved(data), self._seed(), watch)
        before = {name: getattr(self, name) for name in tuned.parameters}
        try:
            self.set_params(**tuned.parameters).fit(X, y, sample_weight, groups, time)
        except BaseException:
            self.set_params(**before)
            raise
        self.tuning_ = tuned.tried
        return self

    # Files

    def _state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        return histogram_state.state_of(self)

    def _set_state(self, header: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        histogram_state.set_state(self, header, tensors)

"""What the paper's experiments claim, and whether our runs support it.

The sentences and the rules that judge them are in claims.toml. Errors are test MAEs, as means over
all runs. One error is smaller than another if they differ by more than two combined standard
errors. A claim is judged only when all runs that it rests on are finished.
"""

from __future__ import annotations

import math
import statistics
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any, Literal

import numpy as np

from softbins.paper.data.splits import SplitKind
from softbins.paper.run import plan
from softbins.paper.run.methods import METHOD_TITLES
from softbins.paper.run.plan import BIN_COUNTS, SIGMAS, Artefact, Run, Scale
from softbins.paper.run.store import Store
from softbins.paper.show.cell_text import our_text
from softbins.paper.show.experiment import Experiment, History
from softbins.paper.show.paper_tables import BEST_OUTPUT_METRIC, main_table
from softbins.paper.show.tables import Cell, standard_error

Verdict = Literal["supported", "not supported", "mixed", "not run"]
# How one error compares with another.
Order = Literal["better", "level", "worse", "unclear"]
# A function that reads the finished runs and returns a verdict with the numbers it rests on.
Judge = Callable[[], tuple[Verdict, str]]
# A method is fast if its test MAE soon falls to this multiple of l2's lowest one.
SPEED_TARGET_FACTOR = 1.1


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, and what our runs say about it.

    `artefact` is the table or figure that tests it, `rule` says in words how it is judged, and
    `evidence` has the numbers that the verdict rests on.
    """

    artefact: Artefact
    sentence: str
    rule: str
    verdict: Verdict
    evidence: str


def judge_claims(dataset: str, scale: Scale, store: Store) -> list[Claim]:
    """Judge every claim of the paper on one dataset."""
    experiment = Experiment(dataset, scale, store)
    return [
        *_judge_table_claims(experiment),
        *_judge_range_claims(experiment),
        *_judge_representation_claims(experiment),
        _judge_gradients(experiment),
        _judge_speed(experiment),
        _judge_many_outputs(experiment),
        _judge_wide_network(experiment),
    ]


def compare_errors(ours: Cell, other: Cell) -> Order:
    """Whether an error is smaller than another by more than two combined standard errors.

    A diverged error is worse than any other. The errors of single runs have no standard error, so
    that their order is unclear.
    """
    mean, other_mean = _mean_or_nan(ours), _mean_or_nan(other)
    if math.isnan(mean) or math.isnan(other_mean):
        return _compare_diverged(math.isnan(mean), math.isnan(other_mean))
    if ours.stderr is None or other.stderr is None:
        return "unclear"
    if abs(mean - other_mean) <= 2 * math.hypot(ours.stderr, other.stderr):
        return "level"
    return "better" if mean < other_mean else "worse"


def _compare_diverged(is_diverged: bool, other_is_diverged: bool) -> Order:
    if is_diverged and other_is_diverged:
        return "level"
    return "worse" if is_diverged else "better"


def gradient_spread(history: History) -> float:
    """The width of the middle 90 % of a run's gradient norms, in units of their median.

    It is NaN if the run diverged.
    """
    norms = np.array(history["gradient_norm"], dtype=np.float64)
    if not np.isfinite(norms).all():
        return math.nan
    low, median, high = np.quantile(norms, (0.05, 0.5, 0.95))
    return float((high - low) / median) if median > 0 else math.nan


def epochs_until(history: History, target: float) -> float:
    """The first epoch with at most this test MAE, or the last one if there is none."""
    reached = (
        epoch
        for epoch, error in zip(history["epoch"], history["test_mae"], strict=True)
        if error is not None and error <= target
    )
    return float(next(reached, history["epoch"][-1]))


@cache
def _texts() -> dict[str, Any]:
    return tomllib.loads(files("softbins.paper.show").joinpath("claims.toml").read_text("utf-8"))


def _named_claim(name: str, runs: Sequence[Run], judge: Judge, store: Store) -> Claim:
    """Judge the claim of that name in claims.toml if its runs are finished."""
    text = _texts()["claim"][name]
    claim = _open_claim(text["artefact"], text["sentence"], text["rule"])
    return _judge_if_finished(claim, runs, judge, store)


def _open_claim(artefact: Artefact, sentence: str, rule: str) -> Claim:
    return Claim(artefact, sentence, rule, verdict="not run", evidence="")


def _judge_if_finished(claim: Claim, runs: Sequence[Run], judge: Judge, store: Store) -> Claim:
    needed = list(dict.fromkeys(runs))
    finished = sum(map(store.has, needed))
    if finished < len(needed):
        return replace(claim, evidence=f"{finished} of {len(needed)} runs are finished.")
    verdict, evidence = judge()
    return replace(claim, verdict=verdict, evidence=evidence)


# Table 1, and Tables 4 to 6 of the appendix


ErrorsBySplit = Callable[[SplitKind], Mapping[str, Cell]]


def _judge_table_claims(experiment: Experiment) -> list[Claim]:
    @cache  # Making a table reads many records, and several claims need the same one.
    def errors(split: SplitKind) -> Mapping[str, Cell]:
        dataset, scale, store = experiment.dataset, experiment.scale, experiment.store
        table = main_table(dataset, scale, store, selection="paper", split=split)
        return {row.method: row.cells["test_mae"] for row in table.rows}

    texts = _texts()
    claims = [
        _judge_ahead(experiment, errors, text["sentence"], text["ahead_of"])
        for text in texts["ahead"].values()
    ]
    for split in plan.split_kinds(experiment.dataset)[1:]:
        sentence = texts["split"][split]["sentence"]
        claims.append(_judge_ahead(experiment, errors, sentence, ["l2"], split))
    return claims


def _judge_ahead(
    experiment: Experiment,
    errors: ErrorsBySplit,
    sentence: str,
    others: Sequence[str],
    split: SplitKind = "random",
) -> Claim:
    """Judge whether HL-Gaussian's error is smaller than that of each of the other methods."""

    def judge() -> tuple[Verdict, str]:
        found = errors(split)
        ours = found["hl-gaussian"]
        # The orders are those of the other methods, because that is how the evidence reads.
        orders = {method: compare_errors(found[method], ours) for method in others}
        listed = [
            f"{METHOD_TITLES[method]} {our_text(found[method])} ({order})"
            for method, order in orders.items()
        ]
        evidence = f"Test MAE: HL-Gaussian {our_text(ours)}; {', '.join(listed)}."
        return _verdict(list(orders.values()), good=("worse",)), evidence

    dataset, scale = experiment.dataset, experiment.scale
    runs = [
        run
        for method in ("hl-gaussian", *others)
        for candidate in plan.candidate_settings(dataset, method, scale, split)
        for run in candidate.reported
    ]
    claim = _open_claim("table", sentence, _texts()["ahead_rule"])
    return _judge_if_finished(claim, runs, judge, experiment.store)


def _verdict(orders: Sequence[Order], good: Sequence[Order]) -> Verdict:
    """Supported if all orders are good, not supported if one is the contrary, mixed otherwise."""
    if all(order in good for order in orders):
        return "supported"
    contrary = "worse" if "better" in good else "better"
    return "not supported" if contrary in orders else "mixed"


# Figure 1


def _judge_range_claims(experiment: Experiment) -> list[Claim]:
    dataset, scale = experiment.dataset, experiment.scale
    bins = {f"{count} bins": plan.bin_count_runs(dataset, count, scale) for count in BIN_COUNTS}
    sigmas = {f"σ = {sigma:g}": plan.sigma_runs(dataset, sigma, scale) for sigma in SIGMAS}
    return [_judge_range(experiment, "bins", bins), _judge_range(experiment, "sigma", sigmas)]


def _judge_range(experiment: Experiment, name: str, settings: Mapping[str, list[Run]]) -> Claim:
    """Judge whether most settings of HL-Gaussian have a smaller error than l2."""
    l2 = experiment.method_runs("l2")

    def judge() -> tuple[Verdict, str]:
        baseline = experiment.mean_error(l2)
        errors = {setting: experiment.mean_error(runs) for setting, runs in settings.items()}
        orders = {setting: compare_errors(error, baseline) for setting, error in errors.items()}
        listed = [f"{s}: {our_text(errors[s])} ({order})" for s, order in orders.items()]
        evidence = f"Test MAE: l2 {our_text(baseline)}; {', '.join(listed)}."
        return _verdict_by_share(list(orders.values())), evidence

    runs = [*l2, *(run for runs in settings.values() for run in runs)]
    return _named_claim(name, runs, judge, experiment.store)


def _verdict_by_share(orders: Sequence[Order]) -> Verdict:
    share = orders.count("better") / len(orders)
    if share >= 2 / 3:
        return "supported"
    return "not supported" if share < 1 / 3 and "unclear" not in orders else "mixed"


# Table 2, and other claims about two groups of runs


@dataclass(frozen=True)
class _Pair:
    """Two groups of runs to compare, and what to call them."""

    name: str
    other_name: str
    runs: list[Run]
    others: list[Run]


def _judge_representation_claims(experiment: Experiment) -> list[Claim]:
    def variant(method: str, name: str) -> list[Run]:
        return plan.representation_runs(experiment.dataset, method, name, experiment.scale)

    def swapped(method: str, layers: str) -> _Pair:
        return _Pair(
            name=f"{METHOD_TITLES[method]} on {layers} layers",
            other_name="on its own",
            runs=variant(method, "fixed"),
            others=variant(method, "default"),
        )

    started = _Pair(
        name="l2 from HL-Gaussian's layers",
        other_name="from the usual start",
        runs=variant("l2", "initialized"),
        others=variant("l2", "default"),
    )
    random = _Pair("HL-Gaussian", "l2", variant("hl-gaussian", "random"), variant("l2", "random"))
    both = [swapped("l2", "HL-Gaussian's"), swapped("hl-gaussian", "l2's")]
    return [
        _judge_pairs(experiment, "swapped", both, good=("worse",)),
        _judge_pairs(experiment, "started", [started], good=("worse", "level")),
        _judge_pairs(experiment, "random", [random], good=("better",)),
    ]


def _judge_wide_network(experiment: Experiment) -> Claim:
    pair = _Pair(
        name="l2 with the wide network",
        other_name="with the usual one",
        runs=plan.wide_network_runs(experiment.dataset, experiment.scale),
        others=experiment.method_runs("l2"),
    )
    return _judge_pairs(experiment, "wide", [pair], good=("better",))


def _judge_pairs(
    experiment: Experiment, name: str, pairs: Sequence[_Pair], good: Sequence[Order]
) -> Claim:
    """Judge whether the first group of each pair compares well with the second."""

    def judge() -> tuple[Verdict, str]:
        orders, listed = [], []
        for pair in pairs:
            error, other = experiment.mean_error(pair.runs), experiment.mean_error(pair.others)
            order = compare_errors(error, other)
            orders.append(order)
            ours, theirs = our_text(error), our_text(other)
            listed.append(f"{pair.name} {ours} ({order}), {pair.other_name} {theirs}")
        return _verdict(orders, good), f"Test MAE: {'; '.join(listed)}."

    runs = [run for pair in pairs for run in (*pair.runs, *pair.others)]
    return _named_claim(name, runs, judge, experiment.store)


# Figure 2


def _compared_curve_runs(experiment: Experiment) -> list[Run]:
    return [
        run
        for method in ("l2", "hl-gaussian")
        for run in plan.curve_runs(experiment.dataset, method, experiment.scale)
    ]


def _judge_gradients(experiment: Experiment) -> Claim:
    """Judge whether the gradient norms of HL-Gaussian vary less than those of l2."""

    def judge() -> tuple[Verdict, str]:
        l2, ours = (
            _summarize([gradient_spread(history) for history in experiment.histories(method)])
            for method in ("l2", "hl-gaussian")
        )
        evidence = f"Spread of the gradient norm: HL-Gaussian {our_text(ours)}, l2 {our_text(l2)}."
        return _verdict([compare_errors(ours, l2)], good=("better",)), evidence

    runs = _compared_curve_runs(experiment)
    return _named_claim("gradients", runs, judge, experiment.store)


def _judge_speed(experiment: Experiment) -> Claim:
    """Judge whether HL-Gaussian needs fewer epochs than l2 to come near l2's lowest error."""

    def judge() -> tuple[Verdict, str]:
        histories = experiment.histories("l2")
        targets = [SPEED_TARGET_FACTOR * _lowest_error(history) for history in histories]
        l2 = _summarize_epochs(histories, targets)
        ours = _summarize_epochs(experiment.histories("hl-gaussian"), targets)
        evidence = f"Epochs needed: HL-Gaussian {our_text(ours)}, l2 {our_text(l2)}."
        return _verdict([compare_errors(ours, l2)], good=("better",)), evidence

    return _named_claim("speed", _compared_curve_runs(experiment), judge, experiment.store)


def _summarize_epochs(histories: Sequence[History], targets: Sequence[float]) -> Cell:
    pairs = zip(histories, targets, strict=True)
    return _summarize([epochs_until(history, target) for history, target in pairs])


def _lowest_error(history: History) -> float:
    return min((error for error in history["test_mae"] if error is not None), default=math.nan)


# The footnote of Section 4


def _judge_many_outputs(experiment: Experiment) -> Claim:
    """Judge whether 100 outputs for l2 bring less than half of what HL-Gaussian brings."""
    many = plan.many_output_runs(experiment.dataset, experiment.scale)
    l2, gaussian = experiment.method_runs("l2"), experiment.method_runs("hl-gaussian")

    def judge() -> tuple[Verdict, str]:
        best = experiment.mean_error(many, BEST_OUTPUT_METRIC)
        single, ours = experiment.mean_error(l2), experiment.mean_error(gaussian)
        evidence = (
            f"Test MAE: l2 {our_text(single)}, the best of 100 outputs {our_text(best)}, "
            f"HL-Gaussian {our_text(ours)}."
        )
        return _verdict_on_gain(best, single, ours), evidence

    return _named_claim("many", [*many, *l2, *gaussian], judge, experiment.store)


def _verdict_on_gain(best: Cell, l2: Cell, gaussian: Cell) -> Verdict:
    if compare_errors(gaussian, l2) != "better":
        return "mixed"
    l2_mean = _mean_or_nan(l2)
    if l2_mean - _mean_or_nan(best) < (l2_mean - _mean_or_nan(gaussian)) / 2:
        return "supported"
    return "not supported" if compare_errors(best, l2) == "better" else "mixed"


# Numbers


def _summarize(values: Sequence[float]) -> Cell:
    return Cell(statistics.fmean(values), standard_error(values), len(values), len(values))


def _mean_or_nan(error: Cell) -> float:
    return math.nan if error.mean is None else error.mean

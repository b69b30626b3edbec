"""What the paper's experiments claim, and whether our runs agree.

The sentences and the rules that judge them are in claims.toml. Errors are test MAEs over all runs.
One is smaller than another if they differ by more than two combined standard errors. A claim is
judged once all runs that it rests on are finished.
"""

from __future__ import annotations

import math
import statistics
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

import numpy as np

from softbins.paper.data.splits import SplitKind
from softbins.paper.run import plan
from softbins.paper.run.methods import METHOD_TITLES
from softbins.paper.run.plan import BIN_COUNTS, SIGMAS, Artefact, Run, Scale
from softbins.paper.run.store import Store
from softbins.paper.show.formats import our_text as shown
from softbins.paper.show.paper_tables import main_table
from softbins.paper.show.tables import Cell, mean_cell

Verdict = Literal["supported", "not supported", "mixed", "not run"]
Order = Literal["better", "level", "worse", "unclear"]
Judge = Callable[[], tuple[Verdict, str]]


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, the artefact that tests it, and what our runs say by which rule."""

    artefact: Artefact
    sentence: str
    rule: str
    verdict: Verdict
    evidence: str


def judge_claims(dataset: str, scale: Scale, store: Store) -> list[Claim]:
    """Every claim of the paper, judged on one dataset."""
    case = _Case(dataset, scale, store)
    return [
        *_table_claims(case),
        *_range_claims(case),
        *_representation_claims(case),
        _gradients(case),
        _speed(case),
        _many(case),
        _wide(case),
    ]


def compare_errors(ours: Cell, other: Cell) -> Order:
    """Whether an error is beyond two combined standard errors of another.

    A diverged error is worse than any other. Single runs have no standard error: unclear.
    """
    mean, other_mean = _mean(ours), _mean(other)
    diverged = math.isnan(mean), math.isnan(other_mean)
    if any(diverged):
        return "level" if all(diverged) else ("worse" if diverged[0] else "better")
    if ours.stderr is None or other.stderr is None:
        return "unclear"
    if abs(mean - other_mean) <= 2 * math.hypot(ours.stderr, other.stderr):
        return "level"
    return "better" if mean < other_mean else "worse"


def gradient_spread(history: Mapping[str, Any]) -> float:
    """How wide the middle 90 % of a run's gradient norms are, in units of their median.

    NaN if the run diverged.
    """
    norms = np.array(history["gradient_norm"], dtype=np.float64)
    if not np.isfinite(norms).all():
        return math.nan
    low, median, high = np.quantile(norms, (0.05, 0.5, 0.95))
    return float((high - low) / median) if median > 0 else math.nan


def epochs_until(history: Mapping[str, Any], target: float) -> float:
    """The first epoch with at most this test MAE; the last one if there is none."""
    reached = (
        epoch
        for epoch, error in zip(history["epoch"], history["test_mae"], strict=True)
        if error is not None and error <= target
    )
    return float(next(reached, history["epoch"][-1]))


@dataclass(frozen=True)
class _Case:
    """What is judged."""

    dataset: str
    scale: Scale
    store: Store

    def claim(self, name: str, runs: Sequence[Run], judge: Judge) -> Claim:
        """A claim by its name, judged if its runs are finished."""
        text = _texts()["claim"][name]
        return self.judged(text["artefact"], text["sentence"], text["rule"], runs, judge)

    def judged(
        self, artefact: Artefact, sentence: str, rule: str, runs: Sequence[Run], judge: Judge
    ) -> Claim:
        needed = list(dict.fromkeys(runs))
        done = sum(map(self.store.has, needed))
        if done < len(needed):
            evidence = f"{done} of {len(needed)} runs are finished."
            return Claim(artefact, sentence, rule, "not run", evidence)
        return Claim(artefact, sentence, rule, *judge())

    def runs(self, method: str) -> list[Run]:
        return plan.method_runs(self.dataset, method, self.scale)

    def error(self, runs: Sequence[Run], metric: str = "test_mae") -> Cell:
        return mean_cell(runs, metric, self.store)

    def histories(self, method: str) -> list[Mapping[str, Any]]:
        records = map(self.store.read, plan.curve_runs(self.dataset, method, self.scale))
        return [record["history"] for record in records if record is not None]


@cache
def _texts() -> dict[str, Any]:
    return tomllib.loads(files("softbins.paper.show").joinpath("claims.toml").read_text("utf-8"))


# Table 1 and its kin


Errors = Callable[[SplitKind], Mapping[str, Cell]]


def _table_claims(case: _Case) -> list[Claim]:
    @cache  # a table reads many records, and several claims look at it
    def errors(split: SplitKind) -> Mapping[str, Cell]:
        table = main_table(case.dataset, case.scale, case.store, selection="paper", split=split)
        return {row.method: row.cells["test_mae"] for row in table.rows}

    texts = _texts()
    claims = [
        _ahead(case, errors, text["sentence"], text["ahead_of"]) for text in texts["ahead"].values()
    ]
    for split in plan.split_kinds(case.dataset)[1:]:
        claims.append(_ahead(case, errors, texts["split"][split]["sentence"], ["l2"], split))
    return claims


def _ahead(
    case: _Case, errors: Errors, sentence: str, others: Sequence[str], split: SplitKind = "random"
) -> Claim:
    def judge() -> tuple[Verdict, str]:
        found = errors(split)
        ours = found["hl-gaussian"]
        # Seen from the others, because that is how the evidence reads.
        orders = {method: compare_errors(found[method], ours) for method in others}
        listed = [f"{METHOD_TITLES[m]} {shown(found[m])} ({order})" for m, order in orders.items()]
        evidence = f"Test MAE: HL-Gaussian {shown(ours)}; {', '.join(listed)}."
        return _verdict(list(orders.values()), good=("worse",)), evidence

    runs = [
        run
        for method in ("hl-gaussian", *others)
        for _, chosen, _ in plan.candidate_settings(case.dataset, method, case.scale, split)
        for run in chosen
    ]
    return case.judged("table", sentence, _texts()["ahead_rule"], runs, judge)


def _verdict(orders: Sequence[Order], good: Sequence[Order]) -> Verdict:
    """All of them good, or one of them the contrary, or neither."""
    if all(order in good for order in orders):
        return "supported"
    contrary = "worse" if "better" in good else "better"
    return "not supported" if contrary in orders else "mixed"


# Figure 1


def _range_claims(case: _Case) -> list[Claim]:
    bins = {f"{n} bins": plan.bin_count_runs(case.dataset, n, case.scale) for n in BIN_COUNTS}
    sigmas = {f"σ = {s:g}": plan.sigma_runs(case.dataset, s, case.scale) for s in SIGMAS}
    return [_over_range(case, "bins", bins), _over_range(case, "sigma", sigmas)]


def _over_range(case: _Case, name: str, settings: Mapping[str, list[Run]]) -> Claim:
    l2 = case.runs("l2")

    def judge() -> tuple[Verdict, str]:
        baseline = case.error(l2)
        errors = {setting: case.error(runs) for setting, runs in settings.items()}
        orders = {setting: compare_errors(error, baseline) for setting, error in errors.items()}
        listed = [f"{s}: {shown(errors[s])} ({order})" for s, order in orders.items()]
        evidence = f"Test MAE: l2 {shown(baseline)}; {', '.join(listed)}."
        return _by_share(list(orders.values())), evidence

    return case.claim(name, [*l2, *(run for runs in settings.values() for run in runs)], judge)


def _by_share(orders: Sequence[Order]) -> Verdict:
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


def _representation_claims(case: _Case) -> list[Claim]:
    def variant(method: str, name: str) -> list[Run]:
        return plan.representation_runs(case.dataset, method, name, case.scale)

    def swapped(method: str, layers: str) -> _Pair:
        words = f"{METHOD_TITLES[method]} on {layers} layers", "on its own"
        return _Pair(*words, variant(method, "fixed"), variant(method, "default"))

    names = "l2 from HL-Gaussian's layers", "from the usual start"
    started = _Pair(*names, variant("l2", "initialized"), variant("l2", "default"))
    random = _Pair("HL-Gaussian", "l2", variant("hl-gaussian", "random"), variant("l2", "random"))
    both = [swapped("l2", "HL-Gaussian's"), swapped("hl-gaussian", "l2's")]
    return [
        _pairs_claim(case, "swapped", both, good=("worse",)),
        _pairs_claim(case, "started", [started], good=("worse", "level")),
        _pairs_claim(case, "random", [random], good=("better",)),
    ]


def _wide(case: _Case) -> Claim:
    broad = plan.wide_network_runs(case.dataset, case.scale)
    pair = _Pair("l2 with the wide network", "with the usual one", broad, case.runs("l2"))
    return _pairs_claim(case, "wide", [pair], good=("better",))


def _pairs_claim(case: _Case, name: str, pairs: Sequence[_Pair], good: Sequence[Order]) -> Claim:
    def judge() -> tuple[Verdict, str]:
        orders, words = [], []
        for pair in pairs:
            error, other = case.error(pair.runs), case.error(pair.others)
            order = compare_errors(error, other)
            orders.append(order)
            words.append(f"{pair.name} {shown(error)} ({order}), {pair.other_name} {shown(other)}")
        return _verdict(orders, good), f"Test MAE: {'; '.join(words)}."

    return case.claim(name, [run for pair in pairs for run in (*pair.runs, *pair.others)], judge)


# Figure 2


def _curve_runs(case: _Case) -> list[Run]:
    methods = ("l2", "hl-gaussian")
    return [run for m in methods for run in plan.curve_runs(case.dataset, m, case.scale)]


def _gradients(case: _Case) -> Claim:
    def judge() -> tuple[Verdict, str]:
        l2, ours = (
            _summary([gradient_spread(history) for history in case.histories(method)])
            for method in ("l2", "hl-gaussian")
        )
        evidence = f"Spread of the gradient norm: HL-Gaussian {shown(ours)}, l2 {shown(l2)}."
        return _verdict([compare_errors(ours, l2)], good=("better",)), evidence

    return case.claim("gradients", _curve_runs(case), judge)


def _speed(case: _Case) -> Claim:
    def judge() -> tuple[Verdict, str]:
        l2, ours = case.histories("l2"), case.histories("hl-gaussian")
        targets = [1.1 * _lowest(history) for history in l2]
        mine = _summary([epochs_until(h, t) for h, t in zip(ours, targets, strict=True)])
        theirs = _summary([epochs_until(h, t) for h, t in zip(l2, targets, strict=True)])
        evidence = f"Epochs needed: HL-Gaussian {shown(mine)}, l2 {shown(theirs)}."
        return _verdict([compare_errors(mine, theirs)], good=("better",)), evidence

    return case.claim("speed", _curve_runs(case), judge)


def _lowest(history: Mapping[str, Any]) -> float:
    return min((error for error in history["test_mae"] if error is not None), default=math.nan)


# The footnote


def _many(case: _Case) -> Claim:
    many, l2 = plan.many_output_runs(case.dataset, case.scale), case.runs("l2")
    gaussian = case.runs("hl-gaussian")

    def judge() -> tuple[Verdict, str]:
        best = case.error(many, "test_mae_of_best_output")
        single, ours = case.error(l2), case.error(gaussian)
        evidence = (
            f"Test MAE: l2 {shown(single)}, the best of 100 outputs {shown(best)}, "
            f"HL-Gaussian {shown(ours)}."
        )
        return _small_gain(best, single, ours), evidence

    return case.claim("many", [*many, *l2, *gaussian], judge)


def _small_gain(best: Cell, l2: Cell, gaussian: Cell) -> Verdict:
    if compare_errors(gaussian, l2) != "better":
        return "mixed"
    if _mean(l2) - _mean(best) < (_mean(l2) - _mean(gaussian)) / 2:
        return "supported"
    return "not supported" if compare_errors(best, l2) == "better" else "mixed"


# Numbers


def _summary(values: Sequence[float]) -> Cell:
    several = len(values) > 1 and all(map(math.isfinite, values))
    stderr = statistics.stdev(values) / math.sqrt(len(values)) if several else None
    return Cell(statistics.fmean(values), stderr, len(values), len(values))


def _mean(error: Cell) -> float:
    return math.nan if error.mean is None else error.mean

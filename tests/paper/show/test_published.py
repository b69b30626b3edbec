"""Every number that the paper prints: against its LaTeX source, and against each other."""

import math
import re
from collections import Counter
from pathlib import Path

import pytest
import torch

from softbins import Bins, Gaussian
from softbins.paper.run.methods import METHODS
from softbins.paper.run.plan import REPRESENTATIONS
from softbins.paper.show.published import (
    METRICS,
    Overview,
    PrintedNumber,
    _content,
    agrees,
    printed_overview,
    printed_representation,
    printed_result,
    printed_setup,
    quoted_result,
)

SOURCE = Path(__file__).parents[4] / "shared/paper/improving_regression_distributional_losses.tex"

# What the tables call the methods and datasets.
NAMES = {
    "Linear Reg.": "linear",
    "Regression": "l2",
    r"$\ell_2$": "l2",
    r"$\ell_1$": "l1",
    r"$\ell_2$+Noise": "l2-noise",
    r"$\ell_2$+Clipping": "l2-clipping",
    r"$\ell_2$+Softmax": "l2-softmax",
    "HL-OneBin": "hl-onebin",
    "HL-Uniform": "hl-uniform",
    "HL-Gaussian": "hl-gaussian",
    "MDN": "mdn",
    "Bike Sharing": "bike",
    "CT Position": "ct",
    "Song Year": "song",
}
CELL = re.compile(
    r"\$ ?(?:\\mathbf\{)?(-?\d+\.\d+)\}?\$(?: \{\\scriptsize \$\(\\pm (\d+\.\d+)\)\$\})?"
)
RESULTS = [("ct", "random"), ("song", "random"), ("song", "fixed"), ("bike", "random")]
OVERVIEW = ["train", "test", "features", "low", "high"]
RANGES = {"ct": 100, "song": 89}


# The LaTeX source


@pytest.fixture(scope="module")
def paper():
    if not SOURCE.exists():
        pytest.skip("needs the paper's LaTeX source in a folder 'shared' beside the checkout")
    text = SOURCE.read_text(encoding="utf-8").partition(r"\begin{document}")[2]
    return re.sub(r"(?<!\\)%.*", "", text)


def tables(paper):
    """The tables' text by their label, in the paper's order."""
    found = re.findall(r"\\begin\{table\*?\}.*?\\end\{table\*?\}", paper, re.S)
    return {re.search(r"\\label\{(.*?)\}", table)[1]: table for table in found}


def rows(table):
    """The rows as lists of cells, the header first, without lines and colours."""
    body = re.search(r"\\begin\{tabular\}\{.*?\}\n(.*?)\\end\{tabular\}", table, re.S)[1]
    body = re.sub(r"\\hline|\\rowcolor\{\w+\}|\[[\d.]+ex\]", "", body)
    lines = [line for line in body.split(r"\\") if line.strip()]
    return [[cell.strip() for cell in line.split("&")] for line in lines]


def printed(cell):
    """A cell as published.toml writes it; a cell with anything else in it fails."""
    match = CELL.fullmatch(cell)
    assert match, cell
    return " ± ".join(number for number in match.groups() if number)


def key(heading):
    return heading.lower().replace(" ", "_")


@pytest.mark.parametrize(("dataset", "split"), RESULTS)
def test_results_are_the_papers_digit_for_digit(paper, dataset, split):
    stored = _content()["results"][dataset][split]
    (_, *metrics), *lines = rows(tables(paper)[stored["label"]])
    read = {
        NAMES[name]: dict(zip(map(key, metrics), map(printed, cells), strict=True))
        for name, *cells in lines
    }
    assert read == stored["figures"]


def test_representation_is_the_papers_digit_for_digit(paper):
    stored = _content()["representation"]["ct"]
    table = tables(paper)[stored["label"]]
    (_, _, *variants), *lines = rows(table)
    # A metric spans two rows and is named in the first or, where coloured, in the second.
    metrics = [key(name) for name in re.findall(r"\\multirow\{-?2\}\{\*\}\{(.*?)\}", table)]
    read = {}
    for number, (_, name, *cells) in enumerate(lines):
        for variant, cell in zip(map(key, variants), cells, strict=True):
            figures = read.setdefault(NAMES[name], {}).setdefault(variant, {})
            figures[metrics[number // 2]] = printed(cell)
    assert read == stored["figures"]


def test_overview_is_the_papers(paper):
    stored = _content()["overview"]
    _, *lines = rows(tables(paper)[stored["label"]])
    read = {NAMES[name]: [int(n) for n in re.findall(r"\d+", str(cells))] for name, *cells in lines}
    for name, counts in stored["datasets"].items():
        assert counts == dict(zip(OVERVIEW, read.pop(name), strict=True))
    assert not read


def test_all_tables_are_stored_with_their_number_and_scale(paper):
    stored = [split for splits in _content()["results"].values() for split in splits.values()]
    stored += [*_content()["representation"].values(), _content()["overview"]]
    numbered = {label: f"Table {n}" for n, label in enumerate(tables(paper), 1)}
    assert {table["label"]: table["place"] for table in stored} == numbered
    assert len(stored) == len(numbered) == 6
    scaled = ["All the numbers are multiplied by $10^2$." in t for t in tables(paper).values()]
    assert scaled == [True, True, False, True, True, True]  # Table 3 counts rows
    assert _content()["scale"] == 10**2


QUOTED = [
    ("ct", "l2_many_test_mae", r"to have 100 outputs.*test MAE of ([\d.]+)\.\}"),
    ("ct", "l2_gradient_norm", r"median norms are ([\d.]+) for Regression"),
    ("ct", "hl_onebin_gradient_norm", r"median norms are .* ([\d.]+) for HL-OneBin"),
    ("ct", "hl_gaussian_gradient_norm", r"median norms are .* ([\d.]+) for HL-Gaussian"),
    ("bike", "l2_wide_test_mae", r"of width 512.*TEST MAE and Test RMSE .* of  \$([\d.]+)\$  and"),
    (
        "bike",
        "l2_wide_test_rmse",
        r"of width 512.*TEST MAE and .*\$  and \$([\d.]+)\$ respectively",
    ),
]


@pytest.mark.parametrize(("dataset", "name", "pattern"), QUOTED, ids=[q[1] for q in QUOTED])
def test_quoted_results_stand_in_the_text(paper, dataset, name, pattern):
    assert re.findall(pattern, paper) == [quoted_result(dataset, name).printed]


def test_no_other_result_is_stored_as_quoted():
    stored = _content()["quoted"]
    assert {(d, name) for d in stored for name in stored[d]} == {q[:2] for q in QUOTED}


SETTINGS = [
    ("ct", "epochs", r"(\d+) epochs on CT Position"),
    ("song", "epochs", r"(\d+) epochs on Song Year"),
    ("bike", "epochs", r"(\d+) epochs on Bike Sharing"),
    ("ct", "hidden", r"for CT Position is 385-([\d-]+)-1\."),
    ("song", "hidden", r"for Song Year is 90-([\d-]+)-1 "),
    ("bike", "hidden", r"for Bike Sharing is 16-([\d-]+) "),
    ("ct", "runs", r"\(MAE\) are reported over (\d+) runs"),
    ("ct", "batch_size", r"mini-batch size (\d+)"),
    ("ct", "learning_rate", r"learning rate (\S+) "),
    ("ct", "dropout", r"with rate \$([\d.]+)\$ is added to the input layer"),
    ("ct", "bins", r"all networks using HL have (\d+) bins"),
    ("ct", "mdn_deviation_floor", r"softplus activation plus a small constant \(\$(.*?)\$\)"),
    ("ct", "noise", r"deviation of the noise is selected from \$\\\{(.*?)\\\}\$"),
    ("ct", "clip", r"threshold for clipping is selected from \$\\\{(.*?)\\\}\$"),
    ("ct", "epsilon", r"\$\\epsilon \\in \\\{(.*?)\\\}\$"),
    ("ct", "components", r"number of components from \$\\\{(.*?)\\\}\$"),
]


def numbers(text):
    """Numbers between commas or hyphens, of which some are written as powers of ten."""
    plain = re.sub(r"10\^\{(-\d+)\}", r"1e\1", text)
    return tuple(float(part) for part in re.split(r",|(?<=\d)-", plain))


@pytest.mark.parametrize(
    ("dataset", "name", "pattern"), SETTINGS, ids=[f"{s[0]}-{s[1]}" for s in SETTINGS]
)
def test_settings_stand_in_the_text(paper, dataset, name, pattern):
    (found,) = re.findall(pattern, paper)
    value = getattr(printed_setup(dataset), name)
    assert numbers(found) == (value if isinstance(value, tuple) else (value,))


def test_bikes_own_settings_stand_in_the_text(paper):
    assert "four hidden layers of width 64," in paper
    assert "four hidden layers of width 512." in paper
    assert "early stopping to avoid overfitting, because on this dataset, dropout was" in paper
    assert printed_setup("bike").wide_hidden == (512,) * 4
    assert (printed_setup("bike").early_stopping, printed_setup("bike").dropout) == (True, 0.0)
    assert not printed_setup("ct").early_stopping
    assert printed_setup("ct").wide_hidden is None


def test_every_decimal_of_the_text_is_known(paper):
    """Outside of tables, citations and lengths there is no decimal that nobody has stored."""
    text = re.sub(r"\\begin\{tabular\}.*?\\end\{tabular\}", "", paper, flags=re.S)
    text = re.sub(r"\\cite\w*(\[.*?\])?\{.*?\}|[\d.]+(cm|in|pt|\\textwidth)", "", text)
    restated = [printed_result("ct", m, "test_mae").printed for m in ("l2-softmax", "hl-gaussian")]
    known = [quoted_result(dataset, name).printed for dataset, name, _ in QUOTED]
    known += [figure.partition(" ")[0] for figure in restated]
    known += ["0.05", "0.01", "0.1"]  # the settings that are not powers of ten or integers
    assert Counter(re.findall(r"\d+\.\d+", text)) == Counter(known)


# What can be asked


@pytest.mark.parametrize(
    ("dataset", "split", "count"),
    [(*table, count) for table, count in zip(RESULTS, (60, 30, 24, 24), strict=True)]
    + [(dataset, "fixed", 0) for dataset in ("ct", "bike")],
)
def test_all_results_can_be_asked_for(dataset, split, count):
    figures = [printed_result(dataset, m, metric, split) for m in METHODS for metric in METRICS]
    assert sum(figure is not None for figure in figures) == count
    errors = [figure.stderr is not None for figure in figures if figure]
    assert errors == [split == "random"] * count


@pytest.mark.parametrize(("dataset", "count"), [("ct", 32), ("song", 0), ("bike", 0)])
def test_all_representations_can_be_asked_for(dataset, count):
    names = [(m, v, metric) for m in METHODS for v in REPRESENTATIONS for metric in METRICS]
    assert sum(printed_representation(dataset, *name) is not None for name in names) == count


GOLDEN = [
    (printed_result("bike", "hl-gaussian", "test_mae"), 24.9521, 0.1328, "2495.21 ± 13.28"),
    (printed_result("bike", "l2", "train_objective"), 0.0004, 0.0, "0.04 ± 0.00"),
    (printed_result("ct", "hl-gaussian", "test_rmse"), 0.1998, 0.02169, "19.980 ± 2.169"),
    (printed_result("ct", "mdn", "train_objective"), -3.66062, 0.00225, "-366.062 ± 0.225"),
    (printed_result("ct", "linear", "test_objective"), 69.57086, 0.41419, "6957.086 ± 41.419"),
    (printed_result("song", "l2", "test_mae"), 6.02393, 0.02026, "602.393 ± 2.026"),
    (printed_result("song", "l2", "test_mae", "fixed"), 6.10344, None, "610.344"),
    (
        printed_representation("ct", "l2", "random", "test_rmse"),
        12.31502,
        0.21574,
        "1231.502 ± 21.574",
    ),
    (quoted_result("ct", "l2_many_test_mae"), 0.18421, None, "18.421"),
    (quoted_result("ct", "hl_onebin_gradient_norm"), 0.064, None, "0.0640"),
    (quoted_result("bike", "l2_wide_test_rmse"), 40.1431, None, "4014.31"),
]


@pytest.mark.parametrize(("figure", "mean", "stderr", "text"), GOLDEN, ids=[g[3] for g in GOLDEN])
def test_figures_are_in_their_own_unit(figure, mean, stderr, text):
    assert figure == PrintedNumber(mean, stderr, text)


@pytest.mark.parametrize(("dataset", "rows"), [("ct", 53500), ("song", 515345), ("bike", 17389)])
def test_overview_counts_all_rows(dataset, rows):
    assert printed_overview(dataset).train + printed_overview(dataset).test == rows
    assert printed_overview("ct") == Overview(
        train=42800, test=10700, features=385, low=0, high=100
    )


WRONG = [
    (
        lambda: printed_result("mnist", "l2", "test_mae"),
        "dataset: expected one of bike, ct, song, got",
    ),
    (
        lambda: printed_result("ct", "l3", "test_mae"),
        "method: expected one of linear, l2, .* got 'l3'",
    ),
    (
        lambda: printed_result("ct", "l2", "mae"),
        "metric: expected one of train_objective, .* got 'mae'",
    ),
    (
        lambda: printed_result("ct", "l2", "test_mae", "odd"),
        "split: expected one of random, fixed, got",
    ),
    (lambda: printed_representation("mnist", "l2", "fixed", "test_mae"), "dataset: .* got 'mnist'"),
    (lambda: printed_representation("ct", "l3", "fixed", "test_mae"), "method: .* got 'l3'"),
    (
        lambda: printed_representation("ct", "l2", "odd", "test_mae"),
        "variant: expected one of default, ",
    ),
    (lambda: printed_representation("ct", "l2", "fixed", "mae"), "metric: .* got 'mae'"),
    (lambda: printed_overview("mnist"), "dataset: expected one of bike, ct, song, got 'mnist'"),
    (lambda: printed_setup("common"), "dataset: expected one of bike, ct, song, got 'common'"),
    (lambda: quoted_result("mnist", "l2_gradient_norm"), "dataset: .* got 'mnist'"),
    (
        lambda: quoted_result("ct", "median"),
        "name: expected one of hl_gaussian_gradient_norm, .*'median'",
    ),
    (lambda: agrees(1.0, -0.1, None), "stderr: need a number that is not negative, got -0.1; "),
    (lambda: agrees(1.0, math.nan, None), "got nan; a single run has none, give None"),
]


@pytest.mark.parametrize(("call", "message"), WRONG, ids=[w[1] for w in WRONG])
def test_what_is_not_known_is_refused_with_what_is(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# Binary fractions, so that the ends of the interval are met exactly.
@pytest.mark.parametrize(
    ("mean", "stderr", "printed_stderr", "verdict"),
    [
        (2.0, None, None, True),
        (2.125, None, None, False),
        (3.0, None, 0.5, True),
        (3.0625, None, 0.5, False),
        (3.0, 0.5, None, True),
        (4.5, 0.75, 1.0, True),  # 2 x 1.25, a triangle with sides 3, 4, 5
        (4.5625, 0.75, 1.0, False),
        (math.nan, 0.5, 0.5, False),
    ],
)
def test_two_combined_standard_errors_agree(mean, stderr, printed_stderr, verdict):
    assert agrees(mean, stderr, PrintedNumber(2.0, printed_stderr, "200")) is verdict


def test_what_is_not_printed_is_none_and_agrees_with_nothing():
    for figure in (
        printed_result("bike", "mdn", "test_mae"),
        quoted_result("ct", "l2_wide_test_mae"),
    ):
        assert figure is None
        assert agrees(1.0, 0.1, figure) is None


# What the numbers say about each other


def mean_square(figure, weight=4):
    """The mean of the squared RMSE over 5 runs: the squared mean plus the runs' variance.

    The variance is 4/5 of the sample variance, which is 5 squared standard errors.
    """
    return figure.mean**2 + weight * (figure.stderr or 0.0) ** 2


@pytest.mark.parametrize("part", ["train", "test"])
@pytest.mark.parametrize(("dataset", "split"), RESULTS[:3])
def test_linear_regressions_objective_is_the_squared_error_in_raw_units(dataset, split, part):
    objective = printed_result(dataset, "linear", f"{part}_objective", split)
    rmse = printed_result(dataset, "linear", f"{part}_rmse", split)
    rounding = 5e-6 * (1 + 2 * rmse.mean + 8 * (rmse.stderr or 0.0))
    assert mean_square(rmse) == pytest.approx(objective.mean, rel=0, abs=rounding)
    if (split, part) == ("random", "test"):
        # With the population's deviation, a weight of 5, the numbers would not add up.
        assert abs(mean_square(rmse, 5) - objective.mean) > rounding


@pytest.mark.parametrize(
    ("dataset", "method", "split"),
    [("ct", m, "random") for m in ("l2", "l2-noise", "l2-clipping", "l2-softmax")]
    + [("song", "l2", "random"), ("song", "l2-softmax", "random"), ("song", "l2", "fixed")],
)
def test_test_objectives_fit_targets_scaled_by_the_printed_range(dataset, method, split):
    objective = printed_result(dataset, method, "test_objective", split)
    derived = (
        mean_square(printed_result(dataset, method, "test_rmse", split)) / RANGES[dataset] ** 2
    )
    assert f"{100 * derived:.3f}" == objective.printed.partition(" ")[0]


@pytest.mark.parametrize("method", ["l2", "l2-softmax"])
def test_bikes_test_objectives_fit_the_largest_count_instead(method):
    """They print as 0.22. The printed range of 1000 would give 0.21, the largest count 977 fits."""
    square = mean_square(printed_result("bike", method, "test_rmse"))
    assert printed_result("bike", method, "test_objective").printed == "0.22 ± 0.00"
    assert f"{100 * square / 1000**2:.2f}" == "0.21"
    assert f"{100 * square / 977**2:.2f}" == "0.22"


@pytest.mark.parametrize(
    ("method", "split"), [("l2", "random"), ("l2", "fixed"), ("l2-softmax", "random")]
)
def test_songs_train_objectives_are_averages_with_dropout(method, split):
    objective = printed_result("song", method, "train_objective", split)
    evaluated = (
        mean_square(printed_result("song", method, "train_rmse", split)) / RANGES["song"] ** 2
    )
    assert 1.05 < objective.mean / evaluated < 1.10


def test_l1s_test_objective_is_the_scaled_mae():
    objective, mae = (printed_result("ct", "l1", f"test_{name}") for name in ("objective", "mae"))
    assert abs(objective.mean - mae.mean / 100) < objective.stderr / 5


def test_hl_gaussians_objective_is_just_above_the_targets_entropy():
    y = torch.linspace(20, 21, 1001, dtype=torch.float64)
    weights = Gaussian.of_bins(1.0).weights(y, Bins.uniform(0.0, 100.0, 100))
    floor = -torch.xlogy(weights, weights).sum(-1).mean().item()
    for part in ("train", "test"):
        assert 0 < printed_result("ct", "hl-gaussian", f"{part}_objective").mean - floor < 0.02


def test_mdns_objective_is_just_above_that_of_the_narrowest_gaussian():
    floor = math.log(printed_setup("ct").mdn_deviation_floor * math.sqrt(2 * math.pi))
    for part in ("train", "test"):
        assert 0 < printed_result("ct", "mdn", f"{part}_objective").mean - floor < 0.05


def test_hl_onebins_train_error_is_a_quarter_of_a_bin():
    width = 100 / printed_setup("ct").bins
    assert printed_result("ct", "hl-onebin", "train_mae").mean == pytest.approx(width / 4, rel=0.02)


@pytest.mark.parametrize("part", ["train", "test"])
@pytest.mark.parametrize("method", METHODS)
def test_no_rmse_is_below_its_mae(method, part):
    for dataset, split in RESULTS:
        mae = printed_result(dataset, method, f"{part}_mae", split)
        rmse = printed_result(dataset, method, f"{part}_rmse", split)
        assert (mae is None) == (rmse is None)
        assert mae is None or mae.mean < rmse.mean


@pytest.mark.parametrize("metric", [name for name in METRICS if "objective" not in name])
@pytest.mark.parametrize("method", ["l2", "hl-gaussian"])
def test_the_default_representation_is_the_result(method, metric):
    assert printed_representation("ct", method, "default", metric) == printed_result(
        "ct", method, metric
    )

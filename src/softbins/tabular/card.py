"""A page about a model, in Markdown: where it comes from, how it errs, and what it cannot do."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from softbins._core.text import printable, shown
from softbins.tabular.model_contents import ModelContents
from softbins.tabular.model_facts import model_facts, shown_parameter, shown_range

MEANINGS = {
    "mae": "mean absolute error of the predicted mean",
    "rmse": "root of the mean squared error of the predicted mean",
    "crps": "continuous ranked probability score of the predicted distribution; for a forecast "
    "that is one number it is the MAE",
}
HOW_SCORED = {
    "HistogramRegressor": "The rows by which it was calibrated were each held out from some of the "
    "networks and partners, and predicted by those alone. The epoch to stop at, the shares of the "
    "partners and the calibration were chosen by the same rows, which flatters scores a little. "
    "On the other hand fewer networks predicted a row than predict new ones, and these have learnt "
    "from all rows in the end. The coverage of intervals is not listed: on these rows it is right "
    "by construction.",
    "NeuralRegressor": "Each network was scored by rows that it had not seen, and the scores "
    "averaged over the networks. The epoch that was kept was chosen by the same rows, which "
    "flatters the scores a little.",
}
PARTS = (
    *("objective", "bins", "bias_of_bins", "hidden", "members", "epochs"),
    *("share_of_trees", "share_of_gaussian_process", "calibration_rows"),
)
OLDER_FILE = "The model comes from a file of an older version of softbins, which does not say it."
NO_SCORES = (
    "No rows were held out, so that nothing is known of errors on new rows. `softbins evaluate` "
    "measures them."
)


def model_card(contents: ModelContents, file: str = "the.model") -> str:
    """The page, for a model in the file of that name."""
    facts = model_facts(contents)
    older = facts["version"] is None
    sections = [
        ("What it learnt from", OLDER_FILE if older else _rows(facts)),
        ("Columns", _columns(facts)),
        ("Scores on held-out rows", OLDER_FILE if older else _scores(facts)),
        ("What it is made of", _parts(facts)),
        ("Known limits", _limits(facts)),
        ("Parameters", _parameters(facts)),
        ("How to load it", _loading(file)),
    ]
    text = [_title(facts), *(f"## {title}\n\n{body}" for title, body in sections)]
    return "\n\n".join(text) + "\n"


def escaped(value: Any) -> str:
    """Text that Markdown shows as it is, in one line, also in a cell of a table."""
    text = re.sub(r"([\\`*_\[\]])", r"\\\1", printable(str(value)))
    return re.sub(r"[<>&|~$]", lambda found: f"&#{ord(found[0])};", text)


def _table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    lines = [head, ["---"] * len(head), *([escaped(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _title(facts: dict[str, Any]) -> str:
    target = facts["target"]
    title = "A model of softbins" if target is None else f"A model of {escaped(target)}"
    fitted = "" if facts["version"] is None else f" {escaped(facts['version'])}"
    when = "" if facts["fitted_at"] is None else f", fitted at {facts['fitted_at']}"
    return f"# {title}\n\nA {facts['class']} of softbins{fitted}{when}."


def _rows(facts: dict[str, Any]) -> str:
    target = "without a name" if facts["target"] is None else escaped(facts["target"])
    seed = "none that is known" if facts["seed"] is None else facts["seed"]
    return "\n".join(
        [
            f"- Rows: {facts['rows']}",
            f"- Target: {target}",
            f"- Seed: {seed}",
            f"- Fingerprint of the rows (SHA-256): `{facts['fingerprint']}`",
        ]
    )


def _columns(facts: dict[str, Any]) -> str:
    rows = [
        [
            index if column["name"] is None else column["name"],
            column["kind"],
            "not known" if column["missing"] is None else column["missing"],
            shown_range(column),
        ]
        for index, column in enumerate(facts["columns"])
    ]
    return _table(["column", "kind", "rows without a value", "seen"], rows)


def _scores(facts: dict[str, Any]) -> str:
    scores = facts["scores"]
    if not scores:
        return NO_SCORES
    known = [name for name in MEANINGS if name in scores]
    rows = [[name.upper(), shown(scores[name]), MEANINGS[name]] for name in known]
    table = _table(["score", "value", "meaning"], rows)
    return f"{table}\n\nIn the target's unit; smaller is better. {HOW_SCORED[facts['class']]}"


def _parts(facts: dict[str, Any]) -> str:
    known = [name for name in PARTS if facts[name] is not None]
    rows = [[name.replace("_", " "), shown(facts[name])] for name in known]
    return _table(["part", "value"], rows)


def _limits(facts: dict[str, Any]) -> str:
    kinds, limits = facts["kinds"], []
    if facts["bins"] is not None:
        low, high = shown(facts["bins"]["low"]), shown(facts["bins"]["high"])
        limits.append(f"No target below {low} or above {high} is ever given a probability.")
    if "number" in kinds:
        limits.append(
            "Rows with numbers beyond those that were seen are predicted without a warning, and "
            "no score speaks for them."
        )
        limits.append(
            "A missing number is taken for the median of its column. Where no training row missed "
            "one, the model has not learnt what a gap means."
        )
    if "category" in kinds:
        limits.append("A category that was not seen counts as a missing value.")
    if facts["calibration_rows"] is not None:
        limits.append(
            "Intervals cover as often as they promise on average over rows like those it learnt "
            "from, not for each group of rows."
        )
    limits.append(
        "Where the world changes, scores and intervals no longer hold. `softbins evaluate` shows "
        "it as soon as new targets are known."
    )
    return "\n".join(f"- {limit}" for limit in limits)


def _parameters(facts: dict[str, Any]) -> str:
    pairs = sorted(facts["parameters"].items())
    return _table(["parameter", "value"], [[name, shown_parameter(value)] for name, value in pairs])


def _loading(file: str) -> str:
    name = json.dumps(printable(file), ensure_ascii=False)
    return f"```python\nimport softbins\n\nmodel = softbins.load({name})\n```"

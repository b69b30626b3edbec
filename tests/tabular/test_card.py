"""A page about a model shows what the model knows, whatever columns are called."""

import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from markdown_it import MarkdownIt

from softbins import Bins, HistogramRegressor, NeuralRegressor, load
from softbins.tabular.card import escaped

OLD_FILES = Path(__file__).parent / "model_files"
NASTY = ["a|b", "`code`", "**bold**", "new\nline", "<b>&amp;", "[x](y)", "\\|", "~~no~~", "_it_"]
NASTY += [
    "$x$",
    "# no title",
    "![p](q)",
    "\x1b[31mred",
    "end\\",
    "&#124;",
    "www.x.org",
    " ",
    "1. a",
]


def rendered(text):
    """All tables of a page as rows of text, and its titles, as a reader of Markdown sees them."""
    tokens = MarkdownIt("gfm-like", {"linkify": False}).parse(text)
    rows, titles = [], []
    for before, token in pairwise(tokens):
        if before.type == "tr_open":
            rows.append([])
        if token.type == "inline" and before.type in ("td_open", "th_open"):
            rows[-1].append(plain(token))
        if token.type == "inline" and before.type == "heading_open":
            titles.append(plain(token))
    return rows, titles


def plain(token):
    kinds = {child.type for child in token.children}
    assert kinds <= {"text", "text_special"}, f"{token.content} became {kinds}"
    return "".join(child.content for child in token.children)


@pytest.fixture(scope="module")
def frame():
    random = np.random.default_rng(0)
    return pd.DataFrame(random.normal(size=(20, len(NASTY))), columns=NASTY)


@pytest.mark.parametrize("target", NASTY)
def test_names_full_of_markdown_are_shown_as_they_are(frame, target):
    model = NeuralRegressor("l2", (2,), max_epochs=1)
    text = model.fit(frame, pd.Series(np.arange(20.0), name=target)).card()
    rows, titles = rendered(text)
    seen = {"new\nline": "new\\nline", "\x1b[31mred": "\\x1b[31mred", " ": ""}
    start = rows.index(["column", "kind", "rows without a value", "seen"])
    found = rows[start + 1 : start + 1 + len(NASTY)]
    assert [row[0] for row in found] == [seen.get(name, name) for name in NASTY]
    assert all(len(row) == 4 for row in found)
    assert titles[0] == f"A model of {seen.get(target, target)}".rstrip()
    assert len(titles) == text.count("\n## ") + 1


def test_a_card_has_what_the_model_knows(frame, tmp_path):
    y = pd.Series(np.arange(20.0), name="price")
    model = HistogramRegressor(
        (4,), bins=Bins.uniform(-10, 30, 40), members=2, max_epochs=2, trees=False, random_state=3
    )
    text = model.fit(frame, y).card(tmp_path / "card.md")
    assert (tmp_path / "card.md").read_text() == text
    about = model.provenance_
    assert f"softbins {about.version}, fitted at {about.fitted_at}." in text
    for line in ("- Rows: 20", "- Target: price", "- Seed: 3", f"`{about.fingerprint}`"):
        assert line in text
    rows, titles = rendered(text)
    cells = {row[0]: row[1] for row in rows}
    for name in ("mae", "rmse", "crps"):
        assert float(cells[name.upper()]) == pytest.approx(about.scores[name], rel=1e-3)
    assert cells["bins"] == "40 bins from -10 to 30"
    assert (cells["hidden"], cells["members"], cells["random_state"]) == ("4", "2", "3")
    assert titles[1:] == [
        *("What it learnt from", "Columns", "Scores on held-out rows", "What it is made of"),
        *("Known limits", "Parameters", "How to load it"),
    ]
    assert "No target below -10 or above 30" in text


def test_a_card_says_what_is_not_known(frame):
    network = NeuralRegressor("l2", (2,), max_epochs=1).fit(frame, np.arange(20.0)).card()
    assert "No rows were held out" in network
    assert "- Target: without a name" in network
    assert "- Seed: none that is known" in network
    assert "is ever given a probability" not in network
    old = load(OLD_FILES / "neural_regressor.model").card()
    assert old.count("older version of softbins") == 2
    assert "A category that was not seen" in old
    assert not re.search(r"\bNone\b", old.partition("## Parameters")[0])


def test_a_card_that_cannot_be_written_leaves_the_old_one(frame, tmp_path):
    model = NeuralRegressor("l2", (2,), max_epochs=1).fit(frame, np.arange(20.0))
    with pytest.raises(OSError, match="create the folder"):
        model.card(tmp_path / "none" / "card.md")


def test_escaped_text_stays_in_one_line():
    assert "\n" not in escaped("a\r\n\u2028b")

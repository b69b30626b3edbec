import re
from dataclasses import replace

import numpy as np
import pytest

from softbins.paper.data import datasets
from softbins.paper.run.plan import ARTEFACTS, plan_runs
from softbins.paper.run.store import Store
from softbins.paper.show import figures, paper_tables, report
from softbins.paper.show.tables import Cell, Row
from tests.paper.synthetic import FULL, fill, mae, record
from tests.parsed_page import Page

pytest.importorskip("matplotlib", reason="the page has figures, which need matplotlib")
pytest.importorskip("jinja2", reason="the page is made with Jinja2")
SHORT = replace(FULL, name="short", epoch_share=0.01, n_seeds=2, full_grids=False)


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    return fill(Store(tmp_path_factory.mktemp("store")), FULL)


@pytest.fixture(scope="module")
def text(full):
    return report.report_page("bike", FULL, full)


@pytest.fixture(scope="module")
def page(text):
    return Page(text)


@pytest.fixture
def small_data(monkeypatch):
    """A few rows in place of the simulated ones, which take long to make."""

    def load(name, folder=None):
        X, y = np.zeros((50, 3)), np.linspace(5, 95, 50)
        return datasets.Dataset(name, X, y, ("a", "b", "c"), 0.0, 100.0, "nowhere")

    for module in (paper_tables, figures, report):
        monkeypatch.setattr(module, "load_dataset", load)


def test_elements_are_closed_and_names_are_unique(page):
    assert (page.badly_nested, page.open) == ([], [])
    assert len(set(page.ids)) == len(page.ids)


def test_nothing_comes_from_elsewhere(page, text):
    assert page.sources == []
    assert {link for link in page.links if not link.startswith("#")} == {"data:,"}
    addresses = set(re.findall(r"https?://[\w./-]+", text))
    # The names of SVG's vocabularies, which nobody fetches.
    assert addresses == {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert "@import" not in text
    assert re.findall(r"url\((?!#)", text) == []


def test_every_link_inside_has_its_target(page, text):
    targets = {link[1:] for link in page.links if link.startswith("#")}
    targets |= set(re.findall(r"url\(#([^)]+)\)", text))
    targets |= set(re.findall(r'aria-labelledby="([^"]+)"', text))
    assert targets <= set(page.ids)
    assert {*ARTEFACTS, "summary", "deviations", "made"} <= set(page.ids)


def test_all_parts_are_there(page):
    words = page.words
    assert page.tags.count("figure") == sum(map(len, figures.PANELS.values()))
    # Two selections, representations, claims, overview, deviations.
    assert page.tags.count("table") == 6
    for expected in (
        "135 of 135 runs finished",
        "Test MAE: HL-Gaussian 20.20\u00a0±\u00a00.12; l2 30.30\u00a0±\u00a00.17 (worse).",
        "(24.95 ± 0.13)",
        "agrees with the paper",
        "honest selection",
        "abacus, 2 cores",
        "1 h 8 min",
        "CC BY 4.0",
    ):
        assert expected in words


def test_real_data_have_no_badge(text):
    assert 'class="badge simulated"' not in text


def test_simulated_data_have_a_badge(store, small_data):
    text = report.report_page("ct-simulated", SHORT, store)
    assert '<span class="badge simulated">simulated data</span>' in text
    assert "CT Position (simulated)" in text


def test_nothing_finished_is_a_page_as_well(store):
    page = Page(report.report_page("bike", FULL, store))
    words = page.words
    assert (page.badly_nested, page.open) == ([], [])
    assert "0 of 135 runs finished" in words
    assert words.count("No figure: no run is finished yet.") == 3
    assert page.tags.count("figure") == 1  # the targets need no run


def test_data_that_are_not_here_leave_a_note(store, monkeypatch):
    def load(name, folder=None):
        raise ValueError("song.parquet: no such file")

    for module in (paper_tables, figures, report):
        monkeypatch.setattr(module, "load_dataset", load)
    words = Page(report.report_page("song", SHORT, store)).words
    assert "No figure: song.parquet: no such file" in words


def test_without_grids_there_is_one_selection(store):
    text = report.report_page("bike", SHORT, store)
    assert "honest selection" not in text
    assert "At this scale each method has one setting" in text


def test_what_records_say_is_text(store):
    run = plan_runs(["table"], "bike", SHORT)[0]
    made_with = {"machine": "<script>alert(1)</script>"}
    store.write(run, record(run, mae(run)) | {"made_with": made_with})
    text = report.report_page("bike", SHORT, store)
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert text.count("<script>") == 1


def test_the_same_records_give_the_same_page(store):
    fill(store, SHORT, artefacts=["sigma"])
    assert report.report_page("bike", SHORT, store) == report.report_page("bike", SHORT, store)


def test_a_page_is_written_whole_or_not_at_all(store, tmp_path):
    report.write_report(tmp_path / "page.html", "bike", SHORT, store)
    assert (tmp_path / "page.html").read_text().rstrip().endswith("</html>")
    with pytest.raises(OSError, match="create the folder first"):
        report.write_report(tmp_path / "none" / "page.html", "bike", SHORT, store)


def test_two_pictures_share_no_names():
    svg = (
        '<?xml version="1.0"?><svg width="9pt" height="9pt" viewBox="0 0 9 9"><defs>'
        '<style type="text/css">*{stroke: red}</style><path id="p"/></defs>'
        '<use xlink:href="#p" clip-path="url(#p)"/></svg>'
    )
    assert report.inline_svg(svg, "a") == (
        '<svg id="a" role="img" aria-labelledby="a-caption" viewBox="0 0 9 9"><defs>'
        '<style type="text/css">#a *{stroke: red}</style><path id="a-p"/></defs>'
        '<use xlink:href="#a-p" clip-path="url(#a-p)"/></svg>'
    )


@pytest.mark.parametrize(
    ("dataset", "points"),
    [
        ("bike", {"Features", "Rows", "Early stopping"}),
        ("ct-simulated", {"Features", "Patients on both sides"}),
        ("song", set()),
    ],
)
def test_deviations_are_those_of_the_dataset(dataset, points):
    entries = report.deviations(dataset)
    assert {entry["point"] for entry in entries if "dataset" in entry} == points
    assert len(entries) == 10 + len(points)
    assert all(entry["here"] and entry["reason"] for entry in entries)


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ([(5, 5), (5, 5)], ""),
        ([(0, 5), (3, 5)], "0–3 of 5 runs"),
        ([(2, 3), (0, 0)], "2 of 3 runs"),
        ([(0, 0)], ""),
    ],
    ids=["all", "some", "one-column", "none planned"],
)
def test_runs_of_a_row(counts, words):
    cells = {str(i): Cell(1.0, 0.1, runs, planned) for i, (runs, planned) in enumerate(counts)}
    assert report.runs_text(Row(("l2",), cells)) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (29.6, "30 s"), (90, "2 min"), (3599, "1 h 0 min"), (7384, "2 h 3 min")],
)
def test_durations(seconds, words):
    assert report.duration_text(seconds) == words

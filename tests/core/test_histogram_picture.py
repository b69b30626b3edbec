"""The picture of histograms in a notebook, read as the SVG that it is."""

import re
import xml.etree.ElementTree as ElementTree

import pytest
import torch

from softbins import Bins, Histogram
from softbins._core.histogram_picture import outlines
from tests.instances import BINS

SVG = "{http://www.w3.org/2000/svg}"


def drawn(histogram):
    """The texts and the outlines of a picture, and what stands below it."""
    element = ElementTree.fromstring(histogram._repr_html_())
    svg, below = element
    texts = [text.text for text in svg.iter(f"{SVG}text") if text.get("text-anchor") is None]
    return texts, [path.get("d") for path in svg.iter(f"{SVG}path")], below.text


@pytest.mark.parametrize("bins", BINS.values(), ids=BINS)
@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 2)])
def test_every_row_says_its_mean_median_and_interval(bins, shape):
    histogram = Histogram(bins, logits=torch.randn(*shape, bins.count))
    texts, _, below = drawn(histogram)
    numbers = torch.stack([histogram.mean, histogram.median, *histogram.interval(0.9)], -1)
    assert below is None
    for text, expected in zip(texts, numbers.reshape(-1, 4).tolist(), strict=True):
        found = re.search(r"mean (\S+), median (\S+) \(dashed\), 90% from (\S+) to (\S+)", text)
        # Four digits of numbers that are near each other, for bins from 1922 to 2011.
        assert [float(value) for value in found.groups()] == pytest.approx(expected, 1e-3, 1e-4)


def test_names_are_what_reaches_a_row():
    wide = Histogram(Bins.uniform(0, 1, 4), logits=torch.zeros(2, 2, 4))
    texts, _, _ = drawn(wide)
    assert [text.split(" mean")[0] for text in texts] == ["[0, 0]", "[0, 1]", "[1, 0]", "[1, 1]"]


def test_of_many_rows_a_few_are_drawn_and_the_others_counted():
    texts, _, below = drawn(Histogram(Bins.uniform(0, 1, 4), logits=torch.zeros(102, 4)))
    assert len(texts) == 5
    assert below == "... and 97 more"


def test_the_outline_has_the_heights_of_the_density():
    # Densities 1/4 and 3/8 on bins of width 1 and 2, in 464 pixels from 8 on; 42 pixels high.
    histogram = Histogram(Bins([0.0, 1.0, 3.0]), probs=torch.tensor([0.25, 0.75]))
    _, paths, _ = drawn(histogram)
    assert paths[0] == "M8.0 60V32.0H162.7V18.0H472.0V60Z"
    # From the 5% quantile at 0.2 to the 95% quantile at 3 - 0.05 * 8 / 3.
    assert paths[1] == "M38.9 60V32.0H162.7V18.0H451.4V60Z"
    mean, median = paths[3:5]
    assert (mean, median) == ("M259.3 60V18", "M265.8 60V18")


def test_a_picture_stays_small_and_needs_nothing_from_elsewhere():
    many = Histogram(Bins.uniform(0, 1, 5000), logits=torch.randn(9, 5000, requires_grad=True))
    html = many._repr_html_()
    assert len(html) < 40_000
    assert re.findall(r"https?://[^\"]+", html) == ["http://www.w3.org/2000/svg"]
    assert "id=" not in html  # of which two pictures on a page would have the same


def test_all_in_one_bin_is_drawn():
    probs = torch.zeros(1, 10)
    probs[0, 3] = 1
    texts, paths, _ = drawn(Histogram(Bins.uniform(0, 1, 10), probs=probs))
    assert texts[0].startswith("[0] mean 0.35, median 0.35")
    assert paths[0] == "M8.0 60V18.0H472.0V60Z"


@pytest.mark.parametrize("logits", [torch.zeros(0, 4), torch.full((2, 4), torch.nan)])
def test_what_cannot_be_drawn_is_left_to_the_plain_text(logits):
    assert (
        Histogram(Bins.uniform(0, 1, 4), logits=logits, validate_args=False)._repr_html_() is None
    )


# Atoms


def test_an_atom_is_a_bar_as_high_as_its_probability():
    bins = Bins([0.0, 0.0, 1.0, 2.0])
    edges, heights = outlines(Histogram(bins, probs=torch.tensor([[0.6, 0.1, 0.3]]).double()))
    middles = (edges[:-1] + edges[1:]) / 2
    assert heights[0][abs(middles) < 0.01] == pytest.approx(0.6)
    # The peak beside it is as high as the probability of all that is in no atom.
    assert heights[0][middles > 1] == pytest.approx(0.4)
    assert heights[0][(middles > 0.1) & (middles < 1)] == pytest.approx(0.4 / 3)


def test_whole_numbers_are_bars_with_room_between_them():
    bins = Bins(torch.arange(5.0).repeat_interleave(2))
    probs = torch.zeros(1, bins.count).double()
    probs[0, bins.atoms] = torch.tensor([0.1, 0.2, 0.4, 0.2, 0.1]).double()
    edges, heights = outlines(Histogram(bins, probs=probs))
    middles = (edges[:-1] + edges[1:]) / 2
    for value, expected in enumerate([0.1, 0.2, 0.4, 0.2, 0.1]):
        assert heights[0][abs(middles - value) < 0.3] == pytest.approx(expected)
        assert heights[0][abs(middles - value - 0.5) < 0.1] == pytest.approx(0.0)


@pytest.mark.parametrize("atom", [0, 2, 4])
def test_an_atom_alone_is_drawn(atom):
    bins = Bins([0.0, 0.0, 1.0, 1.0, 2.0, 2.0])
    probs = torch.zeros(1, bins.count)
    probs[0, atom] = 1
    texts, paths, _ = drawn(Histogram(bins, probs=probs))
    assert texts[0].startswith(f"[0] mean {atom // 2}, median {atom // 2}")
    assert "nan" not in "".join(paths)
    assert "inf" not in "".join(paths)

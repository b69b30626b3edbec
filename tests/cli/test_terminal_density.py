"""Densities drawn with characters."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from softbins.cli.terminal_density import ASCII_BLOCKS, BLOCKS, HEIGHT, density_lines


@pytest.mark.parametrize(("encoding", "blocks"), [("utf-8", BLOCKS), ("ascii", ASCII_BLOCKS)])
@given(
    probs=st.lists(st.floats(0.001, 1), min_size=1, max_size=50),
    low=st.floats(-1e6, 1e6),
    width=st.floats(1e-3, 1e6),
)
def test_columns_are_as_high_as_the_density(encoding, blocks, probs, low, width):
    edges = np.linspace(low, low + width, len(probs) + 1)
    *bars, axis, labels = density_lines(edges, np.array(probs) / sum(probs), encoding)
    assert len(bars) == HEIGHT
    assert max(map(len, [*bars, axis, labels])) <= 80
    "\n".join([*bars, axis, labels]).encode(encoding)
    padded = [line.ljust(len(axis)) for line in bars]
    heights = [sum(blocks.index(line[i]) for line in padded) for i in range(len(axis))]
    assert max(heights) == HEIGHT * (len(blocks) - 1)
    assert min(heights) > 0


def test_a_peak_stands_where_it_is():
    probs = np.r_[np.full(20, 0.01), 0.6, np.full(20, 0.01)]
    top, *_ = density_lines(np.linspace(0, 41, 42), probs, "utf-8", width=41)
    assert top == " " * 20 + "█"


def test_a_value_with_a_probability_of_its_own_is_a_column():
    edges, probs = [0.0, 0.0, 4.0, 8.0], [0.6, 0.2, 0.2]
    lines = density_lines(edges, probs, "utf-8", width=8)
    heights = [sum(line.ljust(8)[column] == "█" for line in lines[:HEIGHT]) for column in range(8)]
    assert heights[0] == HEIGHT
    # As high as the probability that is not in the column: 0.4 of 0.6.
    assert heights[1:] == [int(HEIGHT * 0.4 / 0.6)] * 7


@pytest.mark.parametrize("place", [0, 2, 4])
def test_one_value_alone_is_a_column(place):
    probs = np.zeros(5)
    probs[place] = 1.0
    lines = density_lines([0.0, 0.0, 1.0, 1.0, 2.0, 2.0], probs, "utf-8")
    columns = {column for line in lines[:HEIGHT] for column, c in enumerate(line) if c != " "}
    assert len(columns) == 1

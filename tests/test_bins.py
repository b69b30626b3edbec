import copy
import pickle

import numpy as np
import pytest
import torch

from softbins import Bins


def test_edges_give_widths_centers_and_count():
    bins = Bins([0.0, 1.0, 3.0, 3.5])
    assert bins.count == len(bins) == 3
    assert bins.widths.tolist() == [1.0, 2.0, 0.5]
    assert bins.centers.tolist() == [0.5, 2.0, 3.25]
    assert (bins.low, bins.high) == (0.0, 3.5)


@pytest.mark.parametrize("make", [list, np.array, torch.tensor, lambda e: torch.tensor(e).float()])
def test_edges_may_come_as_any_array_and_are_kept_in_float64(make):
    bins = Bins(make([0.0, 0.5, 2.0]))
    assert bins.edges.dtype == torch.float64
    assert bins.edges.tolist() == [0.0, 0.5, 2.0]


def test_later_changes_to_the_given_array_do_not_reach_the_bins():
    edges = torch.tensor([0.0, 1.0, 2.0], dtype=torch.float64)
    bins = Bins(edges)
    edges[1] = 1.5
    assert bins.edges[1] == 1.0


def test_index_is_half_open_with_a_closed_end_and_clamps_outside():
    bins = Bins([0.0, 1.0, 3.0, 3.5])
    y = torch.tensor([-9.0, 0.0, 0.999, 1.0, 2.9, 3.0, 3.5, 99.0])
    assert bins.index(y).tolist() == [0, 0, 0, 1, 1, 2, 2, 2]


def test_index_takes_integers_and_any_shape():
    assert Bins.uniform(0, 4, 4).index(torch.tensor([[0, 1], [3, 9]])).tolist() == [[0, 1], [3, 3]]


def test_every_edge_is_in_the_bin_that_it_starts():
    bins = Bins.uniform(0.1, 0.7, 97)
    assert bins.index(bins.edges[:-1]).tolist() == list(range(97))


def test_uniform_has_equal_widths():
    bins = Bins.uniform(-1, 3, 8)
    assert bins.widths.tolist() == [0.5] * 8
    assert bins.step == 0.5
    assert Bins([0, 1, 3]).step is None


@pytest.mark.parametrize("ratio", [0.0, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("padding", [0.0, 1.0, 3.0])
def test_covering_leaves_exactly_the_room_it_promises(ratio, padding):
    y = torch.tensor([4.0, -1.0, 2.5])
    bins = Bins.covering(y, 50, sigma_ratio=ratio, padding=padding)
    room = padding * ratio * bins.step
    assert bins.count == 50
    assert bins.low == pytest.approx(-1.0 - room, abs=1e-12)
    assert bins.high == pytest.approx(4.0 + room, abs=1e-12)


@pytest.mark.parametrize("value", [0.0, 7.5, -1e9, 1e-12])
@pytest.mark.parametrize("make", [Bins.covering, Bins.quantile])
def test_a_constant_target_sits_in_the_middle(make, value):
    bins = make(np.full(5, value), 20)
    assert bins.count == 20
    assert (bins.low + bins.high) / 2 == pytest.approx(value, rel=1e-12, abs=1e-12)


def test_covering_ends_at_bounds_that_are_known():
    assert Bins.covering([0.0, 94.0], 100, lower=0.0).edges[[0, -1]].tolist() == [0.0, 97.0]
    assert Bins.covering([0.0, 94.0], 100, upper=94.0).edges[[0, -1]].tolist() == [-3.0, 94.0]
    assert Bins.covering([0.0, 94.0], 100, lower=-9.0, upper=99.0) == Bins.covering([0, 94], 100)
    for bounds, message in (({"lower": 1.0}, "lower: 1 is above"), ({"upper": 9.0}, "upper: 9 is")):
        with pytest.raises(ValueError, match=message):
            Bins.covering([0.0, 94.0], 100, **bounds)


def test_covering_survives_targets_that_float64_can_hardly_tell_apart():
    bins = Bins.covering([1e16, 1e16 + 2], 100)
    assert bins.count == 100
    assert bins.low < 1e16 < 1e16 + 2 < bins.high


def test_quantile_bins_hold_equal_shares():
    y = torch.randn(10000, dtype=torch.float64).exp()
    shares = torch.bincount(Bins.quantile(y, 20).index(y), minlength=20)
    assert shares.min() >= 495
    assert shares.max() <= 505


@pytest.mark.parametrize(
    "y",
    {
        "heavy tails": torch.distributions.Cauchy(0.0, 1.0).sample((3000,)),
        "half zeros": torch.cat([torch.zeros(1000), torch.rand(1000)]),
        "counts": torch.poisson(torch.full((2000,), 3.0)),
        "two values": torch.tensor([0.0, 1.0, 1.0]),
        "neighbours": torch.tensor([1.0, 1.0 + 2**-52], dtype=torch.float64),
        "twelve orders": torch.logspace(-6, 6, 500, dtype=torch.float64),
    }.values(),
)
def test_quantile_always_gives_the_bins_asked_for_and_covers_every_target(y):
    bins = Bins.quantile(y, 64)
    assert bins.count == 64
    assert bins.low <= y.min()
    assert y.max() <= bins.high


def test_a_repeated_value_does_not_take_the_other_values_bins():
    y = torch.cat([torch.zeros(5000), 1 + torch.rand(5000)])
    assert (Bins.quantile(y, 100).centers > 1).sum() >= 90


@pytest.mark.parametrize("parts", [1, 2, 5, 16])
def test_finer_bins_are_equal_parts_of_each(parts):
    bins = Bins([0.0, 1.0, 3.0, 7.0])
    finer = bins.finer(parts)
    assert finer.count == 3 * parts
    assert torch.equal(finer.edges[::parts], bins.edges)
    torch.testing.assert_close(finer.widths, (bins.widths / parts).repeat_interleave(parts))


def test_equality_hash_and_repr():
    assert Bins([0, 1, 2]) == Bins.uniform(0, 2, 2)
    assert hash(Bins([0, 1, 2])) == hash(Bins.uniform(0, 2, 2))
    assert Bins([0, 1, 2]) != Bins([0, 1, 3])
    assert Bins([0, 1, 2]) != "bins"
    assert repr(Bins.uniform(0, 1, 4)) == "Bins(4 equal bins on [0, 1])"
    assert repr(Bins([0, 1, 3])) == "Bins(2 unequal bins on [0, 3])"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Bins([0.0, 1.0, 0.5]), r"edges: must increase, but edges\[1\]=1.0 and"),
        (lambda: Bins([0.0, 1.0, 1.0, 1.0]), "edges: three from index 1 on are 1.0; an atom has"),
        (lambda: Bins([0.0, 1.0, 2.0]).with_atoms([3.0]), "values: .*atoms lie between the first"),
        (lambda: Bins([0.0, 2.0, 1.0]), r"edges: must increase"),
        (lambda: Bins([0.0, 1.0]), "at least two bins .* got 2 edges"),
        (lambda: Bins(3.0), r"edges: need one dimension, got shape \(\)"),
        (lambda: Bins([0.0, float("nan"), 1.0]), "edges: 1 of 3 values are NaN or infinite"),
        (lambda: Bins([-1.7e308, 0.0, 1.7e308]), "edges: the range .* overflows"),
        (lambda: Bins.uniform(1.0, 1.0, 5), "low=1.0, high=1.0"),
        (lambda: Bins.uniform(0.0, float("inf"), 5), "high=inf"),
        (lambda: Bins.uniform(0, 1, 1), "count: need a whole number of at least 2, got 1"),
        (lambda: Bins.uniform(0, 1, 2.5), "count: .* got 2.5"),
        (lambda: Bins.covering([1.0, 2.0], 6), "count: 6 bins leave none"),
        (lambda: Bins.covering([1.0, 2.0], 9, padding=-1), "padding >= 0"),
        (lambda: Bins.covering([], 10), "y: need at least one target"),
        (lambda: Bins.covering([1.0, float("nan")], 10), r"y: 1 of 2 .* first at index 1 \(nan\)"),
        (lambda: Bins.quantile([float("inf"), 1.0], 10), r"first at index 0 \(inf\)"),
        (lambda: Bins([0, 1, 2]).index(torch.tensor([0.5, float("nan")])), "y: 1 of 2 values"),
    ],
)
def test_bad_input_is_named_with_its_value(make, message):
    with pytest.raises(ValueError, match=message):
        make()


# Atoms


def test_two_equal_edges_are_an_atom():
    bins = Bins([0.0, 0.0, 1.0, 2.0, 2.0, 4.0])
    assert bins.atoms.tolist() == [True, False, False, True, False]
    assert bins.widths.tolist() == [0.0, 1.0, 1.0, 0.0, 2.0]
    assert bins.centers.tolist() == [0.0, 0.5, 1.5, 2.0, 3.0]
    assert bins.step is None
    assert repr(bins) == "Bins(3 unequal bins and 2 atoms on [0, 4])"


def test_only_the_value_itself_is_in_an_atom():
    bins = Bins([0.0, 0.0, 1.0, 2.0, 2.0, 4.0, 4.0])
    near = [-1.0, 0.0, 1e-300, 1.0, 2.0 - 1e-15, 2.0, 2.0 + 1e-15, 4.0, 5.0]
    y = torch.tensor(near, dtype=torch.float64)
    assert bins.index(y).tolist() == [0, 0, 1, 2, 2, 3, 4, 5, 5]
    assert bins.index(torch.tensor([2.0])).tolist() == [3]


def test_atoms_are_put_among_bins_and_cut_those_around_them():
    bins = Bins([0.0, 1.0, 2.0])
    assert bins.with_atoms([1.5, 0.0, 1.5]).edges.tolist() == [0.0, 0.0, 1.0, 1.5, 1.5, 2.0]
    assert bins.with_atoms([1.0]).with_atoms([1.0]).edges.tolist() == [0.0, 1.0, 1.0, 2.0]
    assert bins.atoms is None


def test_finer_bins_and_copies_keep_their_atoms():
    bins = Bins([0.0, 0.0, 1.0, 2.0, 2.0, 4.0])
    finer = bins.finer(2)
    assert finer.edges.tolist() == [0.0, 0.0, 0.5, 1.0, 1.5, 2.0, 2.0, 3.0, 4.0]
    assert pickle.loads(pickle.dumps(bins)) == bins == copy.copy(bins) == copy.deepcopy(bins)
    assert bins.to("meta").atoms.device.type == "meta"

"""What parameters of a regressor mean for a table of some size."""

import pytest

from softbins import Bins, HistogramRegressor
from softbins.tabular.defaults import DEFAULTS
from softbins.tabular.folds import Folds
from softbins.tabular.hyperparameters import resolve


def resolved(n_rows=1000, **parameters):
    return resolve(HistogramRegressor(**parameters).get_params(), n_rows, DEFAULTS)


@pytest.mark.parametrize("preset", ["default", "fast"])
@pytest.mark.parametrize("n_rows", [1, 2, 10, 100, 1000, 20_000, 500_000])
def test_what_is_chosen_can_be_trained(n_rows, preset):
    found = resolved(n_rows, preset=preset)
    settings, budget = found.settings, found.budget
    whole = (found.members, *found.hidden, found.bins, found.tree_speedup, found.patience)
    whole += (settings.epochs, settings.batch_size, budget.tree_ensembles)
    assert all(isinstance(number, int) and number >= 1 for number in whole)
    assert 0 < settings.learning_rate < 1
    assert 0 <= found.refit.epochs < 1
    assert 0 < found.refit.rate < 1
    assert found.prune_members is (preset == "fast" and n_rows <= 50_000)
    assert settings.patience == found.patience <= settings.epochs
    assert found.members <= n_rows


@pytest.mark.parametrize("given", [{"members": 4}, {"max_epochs": 56}])
def test_numbers_of_members_and_epochs_that_are_given_stay_as_they_are(given):
    assert resolved(2000, preset="fast").prune_members
    assert not resolved(2000, preset="fast", **given).prune_members


def work(found):
    """About proportional to the time of the networks."""
    settings, refit = found.settings, 1 + found.refit.epochs
    products = found.hidden[0] * found.hidden[1] / settings.batch_size
    return found.members * settings.epochs * refit * products


def test_fast_is_faster():
    for n_rows in (100, 1000, 20_000):
        usual, fast = resolved(n_rows), resolved(n_rows, preset="fast")
        assert work(fast) <= work(usual) / 4
        trees = [found.budget.tree_ensembles / found.tree_speedup for found in (usual, fast)]
        assert trees[1] <= trees[0] / 4


@pytest.mark.parametrize("preset", ["default", "fast"])
def test_large_tables_learn_in_cycles_and_time_grows_no_faster_than_rows(preset):
    assert resolved(50_000, preset=preset).settings.cycles is None
    found = [resolved(n, preset=preset).settings for n in (50_001, 10**6, 2 * 10**7)]
    assert all(each == found[0] for each in found)
    assert found[0].cycles == DEFAULTS.training.cycles
    assert found[0].max_rows_per_epoch == DEFAULTS.training.max_rows_per_epoch
    # Nobody stops in the middle of the last cycle.
    start, end = found[0].cycles.bounds(found[0].epochs - 1, found[0].epochs)
    first = found[0].cycles.first
    assert end - start == start + first


@pytest.mark.parametrize("given", [{"max_epochs": 56}, {"patience": 3}, {"schedule": "constant"}])
def test_what_is_given_for_large_tables_is_meant(given):
    settings = resolved(10**6, **given).settings
    assert settings.cycles is None
    assert all(
        getattr(settings, {"max_epochs": "epochs"}.get(name, name)) == value
        for name, value in given.items()
    )


def test_large_tables_learn_in_one_cycle_where_no_rows_are_left_out():
    settings = resolved(10**6, early_stopping=False).settings
    assert settings.cycles is settings.patience is None


def test_small_tables_get_small_batches_and_more_epochs():
    found = [resolved(n_rows).settings for n_rows in (50, 500, 5000, 6000)]
    sizes, epochs = [s.batch_size for s in found], [s.epochs for s in found]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1]
    assert epochs == sorted(epochs, reverse=True)
    assert epochs[0] > epochs[-1]


def test_large_tables_get_large_batches():
    sizes = (1, 5000, 5001, 25_000, 25_001, 10**7)
    assert [resolved(n_rows).settings.batch_size for n_rows in sizes] == [
        128,
        128,
        256,
        256,
        512,
        512,
    ]


def test_members_for_tables_of_all_sizes():
    sizes = (3, 1000, 1001, 3000, 3001, 10**7)
    assert [resolved(n_rows).members for n_rows in sizes] == [3, 8, 8, 8, 12, 8]
    fast = [resolved(n_rows, preset="fast").members for n_rows in sizes]
    assert fast == [3, 4, 4, 4, 4, 4]


@pytest.mark.parametrize(("n_rows", "left_out"), [(8, 8), (1000, 1000), (1008, 504), (3000, 1500)])
def test_rows_of_small_tables_are_left_out_by_a_member_or_half_of_them_by_two(n_rows, left_out):
    folds = Folds.random(n_rows, resolved(n_rows).members, 0, DEFAULTS.folds)
    assert sum(map(len, folds.parts)) == left_out


def test_large_tables_have_more_epochs_than_medium_ones():
    assert resolved(50_000).settings.epochs > resolved(5000).settings.epochs


@pytest.mark.parametrize(
    ("name", "value", "field"),
    [
        ("members", 3, "members"),
        ("hidden", (5, 6), "hidden"),
        ("bins", 77, "bins"),
        ("bins", Bins.uniform(0.0, 1.0, 50), "bins"),
        ("batch_size", 13, "batch_size"),
        ("learning_rate", 3e-3, "learning_rate"),
        ("max_epochs", 17, "epochs"),
        ("patience", 9, "patience"),
    ],
)
@pytest.mark.parametrize("preset", ["default", "fast"])
def test_what_is_given_stays(preset, name, value, field):
    found = resolved(preset=preset, **{name: value})
    owner = found.settings if hasattr(found.settings, field) else found
    assert getattr(owner, field) == value


def test_given_epochs_limit_the_patience_that_is_chosen():
    assert resolved(max_epochs=1000).patience > resolved(max_epochs=50).patience


@pytest.mark.parametrize("preset", ["slow", "", None, "DEFAULT"])
def test_another_preset_is_refused(preset):
    with pytest.raises(ValueError, match=f"^preset: .*got {preset!r}"):
        resolved(preset=preset)


@pytest.mark.parametrize("value", ["most", None, -0.1, 1.0 + 1j, True])
def test_who_gives_no_learning_rate_hears_of_auto(value):
    with pytest.raises(ValueError, match="^learning_rate: need 'auto' or a positive number, got "):
        resolved(learning_rate=value)


def test_an_optimizer_is_muon_with_its_settings_or_adam():
    assert resolved().settings.muon == DEFAULTS.training.muon
    assert resolved(optimizer="adam").settings.muon is None
    with pytest.raises(ValueError, match="^optimizer: expected 'adam' or 'muon', got 'sgd'"):
        resolved(optimizer="sgd")


def test_without_early_stopping_there_is_no_patience_to_lose():
    found = resolved(early_stopping=False)
    assert found.settings.patience is None
    assert found.settings.evaluate == ("train",)
    assert found.patience == resolved().patience


@pytest.mark.parametrize(
    ("bins", "adaptive", "splits"),
    [("auto", True, 16), (128, False, 16), (Bins.uniform(0.0, 1.0, 50), False, 1)],
)
def test_bins_that_are_given_stay_where_they_are(bins, adaptive, splits):
    found = resolved(bins=bins)
    assert (found.adaptive_bins, found.max_bin_splits) == (adaptive, splits)

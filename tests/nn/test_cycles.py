"""A learning rate that falls again and again, until that lowers the error no more."""

import math

import pytest
import torch

from softbins._core.model_file import read, write
from softbins.nn.settings import CycleRule, Settings
from tests.nn.test_trainer import learning_rates, trainer, weights

HELD_OUT = {"validation": [torch.arange(50)] * 2, "patience": 1, "schedule": "cosine"}


def cycling(first=1, min_gain=0.005, epochs=31, **options):
    return trainer([0, 1], epochs=epochs, cycles=CycleRule(first, min_gain), **HELD_OUT | options)


def test_each_cycle_is_twice_as_long_as_the_one_before():
    """Cycles of 3, 6, 12, ... epochs end after 3, 9, 21, ...; the last one is cut."""
    found = [CycleRule(3, 0.01).bounds(epoch, 25) for epoch in range(25)]
    assert found == [(0, 3)] * 3 + [(3, 9)] * 6 + [(9, 21)] * 12 + [(21, 25)] * 4


def test_the_learning_rate_falls_in_each_cycle():
    result = cycling(first=2, warm_up=0.05)
    result.steps = 100
    middle, last = learning_rates(result, [100, 199])
    assert middle == pytest.approx(0.5e-2)
    assert last == pytest.approx(1e-2 * (1 + math.cos(math.pi * 199 / 200)) / 2)
    assert learning_rates(result, [200, 400]) == pytest.approx([1e-2, 0.5e-2])
    assert learning_rates(result, [4, 9]) == pytest.approx([5e-3, 1e-2], rel=1e-2)


def scored(result, scores):
    """Train, with errors of both members that are given for each epoch."""
    left = iter(scores)

    def evaluate(rows):
        found = torch.tensor(next(left), dtype=torch.float64)[result.running]
        return {"objective": found, "mae": found, "rmse": found}

    result.evaluate = evaluate
    result.run()
    return result


def test_members_go_on_as_long_as_cycles_help():
    """Cycles end after 1, 3, 7, 15 epochs; the best of each is what counts."""
    first = [10, 9, 8.5, 8.6, 8.5, 8.48, 8.48]  # the third cycle gains 0.2%
    second = [10, 11, 9.96]  # the second gains 0.4%
    second += [1] * 4  # and nobody looks at it any more
    result = scored(cycling(), zip(first, second, strict=True))
    assert result.epoch == 7
    assert result.best_epoch.tolist() == [6, 3]
    assert [row["member"] for row in result.history].count(1) == 3
    assert result.finished


def test_a_single_cycle_is_never_the_last():
    result = scored(cycling(), [(1.0, 1.0)] * 3)
    assert result.epoch == 3


def test_the_last_epoch_ends_it_in_any_case():
    result = scored(cycling(epochs=5), [(0.5**e, 0.5**e) for e in range(5)])
    assert result.epoch == 5


def test_training_goes_on_from_a_checkpoint(tmp_path):
    whole, before, after = (cycling(epochs=15, min_gain=0.001) for _ in range(3))
    whole.run()
    before.run(until=4)
    state, tensors = before.checkpoint()
    write(tmp_path / "state", {"state": state}, tensors)
    header, tensors = read(tmp_path / "state")
    after.resume(header["state"], tensors)
    after.run()
    assert after.epoch == whole.epoch > 4
    assert after.history == whole.history
    for ours, theirs in zip(weights(after), weights(whole), strict=True):
        assert torch.equal(ours, theirs)


def test_cycles_need_rows_that_judge():
    with pytest.raises(ValueError, match="cycles: need the schedule 'cosine' and validation rows"):
        Settings(schedule="cosine", cycles=CycleRule(1, 0.1))


# Epochs of a part of the rows


def test_an_epoch_may_be_a_random_part_of_the_rows():
    result = trainer([0, 1], max_rows_per_epoch=128)
    epochs = [torch.cat([index for index, _ in result._batches()], 1) for _ in range(2)]
    assert result.steps == 2
    assert [tuple(epoch.shape) for epoch in epochs] == [(2, 128)] * 2
    for epoch in epochs:
        assert all(len(member.unique()) == 128 for member in epoch)
    assert len({tuple(member.tolist()) for epoch in epochs for member in epoch}) == 4


def test_fewer_rows_than_that_are_all_seen():
    whole, same = trainer(epochs=2), trainer(epochs=2, max_rows_per_epoch=1000)
    whole.run()
    same.run()
    for ours, theirs in zip(weights(same), weights(whole), strict=True):
        assert torch.equal(ours, theirs)


def test_the_learning_rate_falls_within_the_time(monkeypatch):
    result = trainer(schedule="cosine", epochs=4)
    monkeypatch.setattr(type(result.stop), "share_gone", 0.5)
    early, middle, late = learning_rates(result, [0, 2 * result.steps, 3 * result.steps])
    assert early == middle == pytest.approx(5e-3)
    assert late == pytest.approx(1e-2 * (1 + math.cos(0.75 * math.pi)) / 2)

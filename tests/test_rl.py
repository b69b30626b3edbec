"""The programs of examples/rl learn with every head; the queue and the summary of benchmarks/rl."""

import argparse
import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("gymnasium", reason="the examples are about its environments")

ROOT = Path(__file__).parent.parent
PROGRAMS = ("dqn", "ppo")
HEADS = ("l2", "two-hot", "hl-gauss", "hl-gauss-symlog", "hl-gauss-moving")


@pytest.fixture
def module(monkeypatch):
    """Import a module of examples/rl or benchmarks/rl, whose modules import each other."""
    for folder in ("examples", "benchmarks"):
        monkeypatch.syspath_prepend(ROOT / folder / "rl")
    for name in (*PROGRAMS, "run", "summary"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return importlib.import_module


@pytest.fixture
def small(module, monkeypatch):
    """A program that learns after few steps already."""

    def load(name):
        program = module(name)
        changes = {"FIRST_UPDATE": 100, "ROLLOUT": 32, "EPOCHS": 2}
        for constant in changes.keys() & vars(program).keys():
            monkeypatch.setattr(program, constant, changes[constant])
        return program

    return load


# The programs


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_records_every_episode(name, head, small, tmp_path, capsys):
    out = tmp_path / "record.json"
    choice = ["--head", head, "--seed", "3", "--steps", "300"]
    small(name).main([*choice, "--out", str(out)])
    assert "mean return in the last tenth" in capsys.readouterr().out
    record = json.loads(out.read_text())
    assert [record[key] for key in ("algorithm", "head", "seed", "steps")] == [name, head, 3, 300]
    assert record["ends"] == sorted(record["ends"])
    assert len(record["ends"]) == len(record["returns"]) > 5
    # A step of CartPole is worth 1, and no more steps than that were taken.
    assert sum(record["returns"]) <= record["ends"][-1]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_seed_says_it_all(name, small):
    train = small(name).train
    assert train("CartPole-v1", "hl-gauss", 1, 300) == train("CartPole-v1", "hl-gauss", 1, 300)
    assert train("CartPole-v1", "l2", 1, 300) != train("CartPole-v1", "l2", 2, 300)


@pytest.mark.parametrize("head", HEADS)
def test_a_critic_learns_the_values_it_is_told(head, module):
    torch.manual_seed(0)
    critic, state = module("ppo").Critic(2, head), torch.eye(2)
    values = torch.tensor([-0.5, 0.9])
    assert critic(state).tolist() == pytest.approx([0.0, 0.0], abs=1e-4)
    optimizer = torch.optim.Adam(critic.parameters(), lr=0.02)
    for _ in range(200):
        optimizer.zero_grad()
        critic.loss(state, values).backward()
        optimizer.step()
    assert critic(state).tolist() == pytest.approx(values.tolist(), abs=0.05)


@pytest.mark.parametrize("head", HEADS)
def test_nothing_is_learnt_about_actions_that_were_not_taken(head, module):
    torch.manual_seed(0)
    network, state = module("dqn").QNetwork(4, 3, head), torch.randn(8, 4)
    assert network(state).abs().max() < 1e-4
    network.loss(state, torch.full((8,), 1), torch.linspace(1.0, 9.0, 8)).backward()
    slopes = network.head.linear.weight.grad.unflatten(0, (3, -1)).abs().amax((1, 2))
    assert slopes[1] > 0
    assert slopes[[0, 2]].tolist() == [0.0, 0.0]


def test_the_end_of_an_episode_is_worth_nothing(module):
    dqn = module("dqn")
    network = dqn.QNetwork(4, 2, "l2")
    torch.nn.init.constant_(network.head.linear.bias, 10.0)
    batch = dqn.Transitions(
        *[torch.zeros(2, 4)] * 2, torch.ones(2), torch.zeros(2, 4), torch.eye(2)[0]
    )
    assert dqn.targets(network, batch).tolist() == pytest.approx([1.0, 1 + 0.99 * 10])


def test_the_memory_forgets_the_oldest(module, monkeypatch):
    dqn = module("dqn")
    monkeypatch.setattr(dqn, "MEMORY", 4)
    memory = dqn.Memory(1)
    for step in range(6):
        memory.add(np.array([step]), 1, float(step), np.array([step + 1]), False)
    assert sorted(memory.kept.reward.tolist()) == [2, 3, 4, 5]
    assert set(memory.sample().reward.tolist()) <= {2.0, 3.0, 4.0, 5.0}


def test_advantages_are_discounted_to_the_end_of_an_episode(module):
    ppo = module("ppo")
    surprise = torch.tensor([[1.0], [2.0], [4.0]])
    goes_on = torch.tensor([[True], [False], [True]])
    rate = ppo.GAMMA * ppo.LAMBDA
    found = ppo.discounted_sum(surprise, goes_on).squeeze(1)
    assert found.tolist() == pytest.approx([1 + rate * 2, 2.0, 4.0])


@pytest.mark.slow
def test_cartpole_is_balanced(module):
    episodes = module("ppo").train("CartPole-v1", "hl-gauss-symlog", seed=0, steps=100_000)
    assert np.mean([total for step, total in episodes if step > 90_000]) > 400


# The queue


def test_the_queue_knows_every_head(module):
    assert module("run").HEADS == HEADS
    for name in PROGRAMS:
        assert module(name).HEADS == HEADS


def chosen(store, **some):
    choice = {"algorithm": ["ppo"], "env": ["CartPole-v1"], "head": ["l2", "two-hot"]}
    return argparse.Namespace(store=store, **choice | some)


def test_the_queue_goes_on_where_it_was_broken_off(module, tmp_path):
    run = module("run")
    everything = run.plan(chosen(tmp_path))
    assert [(r.head, r.seed) for r in everything[:3]] == [("l2", 0), ("two-hot", 0), ("l2", 1)]
    assert len(everything) == 2 * 5
    (tmp_path / everything[1].file_name).write_text("{}")
    assert run.plan(chosen(tmp_path)) == [everything[0], *everything[2:]]


def test_the_queue_keeps_what_is_complete(module, tmp_path, monkeypatch):
    run = module("run")
    done, failed = (run.Run("ppo", "CartPole-v1", head, 0) for head in ("l2", "two-hot"))

    def main(arguments):
        Path(arguments[-1]).write_text("{}")
        if "two-hot" in arguments:
            raise RuntimeError("half-way")

    monkeypatch.setattr(module("ppo"), "main", main)
    run.perform(done, tmp_path)
    with pytest.raises(RuntimeError, match="half-way"):
        run.perform(failed, tmp_path)
    assert run.plan(chosen(tmp_path))[0] == failed


# The summary


def stored(store, run, level):
    """100 episodes of 500 steps each, with the level as return at first, and twice that later."""
    record = {"steps": 50_000, "ends": list(range(500, 50_001, 500))}
    (store / run.file_name).write_text(
        json.dumps({**record, "returns": [level] * 50 + [2 * level] * 50})
    )


def test_a_curve_has_the_mean_return_of_each_part(module, tmp_path):
    run, summary = module("run").Run("dqn", "CartPole-v1", "l2", 0), module("summary")
    stored(tmp_path, run, 10.0)
    found = summary.curves("dqn", "CartPole-v1", "l2", tmp_path)
    assert found.tolist() == [[10.0] * 10 + [20.0] * 10]
    assert summary.curves("dqn", "CartPole-v1", "two-hot", tmp_path).shape == (0, 20)


def test_the_summary_says_what_differs_from_l2_beyond_chance(module, tmp_path):
    run, summary = module("run"), module("summary")
    for seed, noise in zip(run.SEEDS, (-1.0, -0.5, 0.0, 0.5, 1.0), strict=True):
        for head, level in (("l2", 10.0), ("two-hot", 5.0), ("hl-gauss", 10.2)):
            stored(tmp_path, run.Run("dqn", "CartPole-v1", head, seed), level + noise)
    heads = summary.summary(tmp_path)["rows"][0]["heads"]
    assert {head: found["end"]["mean"] for head, found in heads.items()} == {
        "l2": 20.0,
        "two-hot": 10.0,
        "hl-gauss": 20.4,
    }
    assert {head: found["whole"]["beside_l2"] for head, found in heads.items()} == {
        "l2": 0,
        "two-hot": -1,
        "hl-gauss": 0,
    }
    # Student's 97.5% quantile with four degrees of freedom, 2.776, times 2 sqrt(0.625 / 5).
    assert heads["l2"]["end"]["half_width"] == pytest.approx(1.96, abs=0.01)


def test_means_without_any_spread_are_compared_too(module):
    beyond_chance = module("summary").beyond_chance
    best = np.full(5, 500.0)
    assert beyond_chance(best, best) == 0
    assert beyond_chance(best, best - 1) == 1
    assert beyond_chance(best, np.array([499.0, 500.0, 498.0, 500.0, 500.0])) == 0


def test_the_picture_names_every_head_that_was_run(module, tmp_path):
    run, summary = module("run"), module("summary")
    for seed in run.SEEDS:
        stored(tmp_path, run.Run("ppo", "Acrobot-v1", "two-hot", seed), -100.0 - seed)
    stored(tmp_path, run.Run("dqn", "Acrobot-v1", "l2", 0), -90.0)
    svg = summary.draw(tmp_path).decode()
    assert {head for head in HEADS if f">{head}<" in svg} == {"l2", "two-hot"}
    assert svg == summary.draw(tmp_path).decode()


def test_the_summary_is_that_of_the_records(module):
    kept = json.loads((ROOT / "results" / "rl.json").read_text())
    assert module("summary").summary() == kept, "run benchmarks/rl/summary.py"

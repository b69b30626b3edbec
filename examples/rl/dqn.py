"""Deep Q-learning whose value head is one argument: python dqn.py --head hl-gauss.

Only the head and its loss change with `--head`; network, optimizer and everything else do not.
Writes the return of each episode, and the step at which it ended, to the file given as `--out`.
"""

from __future__ import annotations

import argparse
import copy
import json
import random
import time
from pathlib import Path
from typing import NamedTuple

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn

from softbins import Bins, Gaussian, HistogramHead, TwoHot

HEADS = ("l2", "two-hot", "hl-gauss", "hl-gauss-symlog", "hl-gauss-moving")
GAMMA = 0.99
LEARNING_RATE = 5e-4
BATCH = 64
MEMORY = 50_000
FIRST_UPDATE = 1_000  # steps that are taken before anything is learnt
UPDATE_EVERY = 4  # steps
TARGET_EVERY = 500  # steps after which the target network becomes the present one
EXPLORATION = (1.0, 0.05, 0.2)  # share of random actions at first, at last, and when last begins
BINS = 101
# Rewards of at most 1 in size have values of at most 1 / (1 - GAMMA), and a tenth of it is room.
LIMIT = 1.1 / (1 - GAMMA)


class SquaredHead(nn.Module):
    """A number for each action, learnt by the squared error."""

    def __init__(self, features: int, actions: int) -> None:
        super().__init__()
        self.linear = nn.Linear(features, actions)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x)

    def loss(self, x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
        return (weight * (self(x) - y).square()).sum() / weight.sum()


def value_bins(kind: str) -> Bins:
    if kind == "hl-gauss":
        return Bins.uniform(-LIMIT, LIMIT, BINS)
    if kind == "hl-gauss-moving":
        return Bins.uniform(-1.0, 1.0, 21)
    return Bins.symlog(10.0, BINS)


def value_head(kind: str, features: int, actions: int) -> nn.Module:
    """What turns features into the values of actions, all of them 0 at first."""
    if kind == "l2":
        return SquaredHead(features, actions)
    bins = value_bins(kind)
    target = TwoHot() if kind == "two-hot" else Gaussian.of_bins(0.75)
    spare = BINS - bins.count  # with which the bins may move
    return HistogramHead(features, bins, target, outputs=actions, spare=spare, zero_init=True)


class QNetwork(nn.Module):
    """Values of all actions in a state."""

    def __init__(self, inputs: int, actions: int, kind: str) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(inputs, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU())
        self.head, self.actions = value_head(kind, 128, actions), actions

    def forward(self, state: Tensor) -> Tensor:
        predicted = self.head(self.body(state))
        return predicted if isinstance(predicted, Tensor) else predicted.mean

    def loss(self, state: Tensor, action: Tensor, y: Tensor) -> Tensor:
        """The loss of the actions that were taken; of the others nothing is known."""
        taken = nn.functional.one_hot(action, self.actions).float()
        return self.head.loss(self.body(state), y[:, None].expand_as(taken), taken)


class Transitions(NamedTuple):
    """What happened in some steps."""

    state: Tensor
    action: Tensor
    reward: Tensor
    following: Tensor
    ended: Tensor


class Memory:
    """The last transitions, from which batches are drawn."""

    def __init__(self, inputs: int) -> None:
        self.kept = Transitions(
            torch.zeros(MEMORY, inputs),
            torch.zeros(MEMORY, dtype=torch.long),
            torch.zeros(MEMORY),
            torch.zeros(MEMORY, inputs),
            torch.zeros(MEMORY),
        )
        self.count = 0

    def add(self, *transition: object) -> None:
        for kept, value in zip(self.kept, transition, strict=True):
            kept[self.count % MEMORY] = torch.as_tensor(value)
        self.count += 1

    def sample(self) -> Transitions:
        rows = torch.randint(min(self.count, MEMORY), (BATCH,))
        return Transitions(*(kept[rows] for kept in self.kept))


def targets(network: QNetwork, batch: Transitions) -> Tensor:
    """The reward and what the best action is worth after it; an end is worth nothing."""
    with torch.no_grad():
        best = network(batch.following).amax(1)
    return batch.reward + GAMMA * (1 - batch.ended) * best


def share_of_random_actions(step: int, steps: int) -> float:
    first, last, part = EXPLORATION
    return max(last, first + (last - first) * step / (part * steps))


def choose(env: gym.Env, network: QNetwork, state: np.ndarray, epsilon: float) -> int:
    if random.random() < epsilon:
        return int(env.action_space.sample())
    with torch.no_grad():
        return int(network(torch.from_numpy(state)[None]).argmax())


def train(env_id: str, kind: str, seed: int, steps: int) -> list[tuple[int, float]]:
    """The steps at which episodes ended, and their returns."""
    random.seed(seed)
    torch.manual_seed(seed)
    env = gym.make(env_id)
    env.action_space.seed(seed)
    inputs, actions = env.observation_space.shape[0], int(env.action_space.n)
    network, memory = QNetwork(inputs, actions, kind), Memory(inputs)
    frozen = copy.deepcopy(network)
    optimizer = torch.optim.Adam(network.parameters(), lr=LEARNING_RATE, fused=True)
    episodes, total = [], 0.0
    state, _ = env.reset(seed=seed)
    for step in range(1, steps + 1):
        action = choose(env, network, state, share_of_random_actions(step, steps))
        following, reward, ended, cut_off, _ = env.step(action)
        memory.add(state, action, reward, following, ended)  # being cut off is no end
        state, total = following, total + float(reward)
        if ended or cut_off:
            episodes.append((step, total))
            (state, _), total = env.reset(), 0.0
        if step >= FIRST_UPDATE and step % UPDATE_EVERY == 0:
            batch = memory.sample()
            optimizer.zero_grad()
            network.loss(batch.state, batch.action, targets(frozen, batch)).backward()
            optimizer.step()
        if step % TARGET_EVERY == 0:
            frozen.load_state_dict(network.state_dict())
    return episodes


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Deep Q-learning with a value head of choice.")
    parser.add_argument("--env", default="CartPole-v1", help="an environment of gymnasium")
    parser.add_argument("--head", choices=HEADS, default="hl-gauss")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=50_000)
    parser.add_argument("--out", type=Path, help="a JSON file for the returns")
    args = parser.parse_args(arguments)
    torch.set_num_threads(1)
    start = time.process_time()
    episodes = train(args.env, args.head, args.seed, args.steps)
    seconds = time.process_time() - start
    last = [total for step, total in episodes if step > 0.9 * args.steps]
    print(f"{len(episodes)} episodes in {seconds:.0f} s")
    print(f"mean return in the last tenth of the steps {sum(last) / max(len(last), 1):.1f}")
    if args.out:
        known = {"algorithm": "dqn", **{k: v for k, v in vars(args).items() if k != "out"}}
        ends, returns = zip(*episodes, strict=True)
        record = {**known, "processor_seconds": round(seconds, 1)}
        args.out.write_text(json.dumps({**record, "ends": ends, "returns": returns}) + "\n")


if __name__ == "__main__":
    main()

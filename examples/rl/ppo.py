"""Proximal policy optimization whose value head is one argument: python ppo.py --head hl-gauss.

Only the head of the critic and its loss change with `--head`; policy, networks, optimizers and
everything else do not. Writes the return of each episode, and the step at which it ended, to the
file given as `--out`.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Categorical

from softbins import Bins, Gaussian, HistogramHead, TwoHot

HEADS = ("l2", "two-hot", "hl-gauss", "hl-gauss-symlog", "hl-gauss-moving")
GAMMA, LAMBDA = 0.99, 0.95
LEARNING_RATE = 1e-3  # at first; it falls to zero
ENVIRONMENTS, ROLLOUT = 8, 128  # steps of each environment between two rounds of learning
EPOCHS, BATCH = 6, 256
CLIP = 0.2  # of the ratio of new and old probabilities
ENTROPY = 0.01
LARGEST_GRADIENT = 0.5  # of the policy and of the critic, each for itself
BINS = 101
# Rewards of at most 1 in size have values of at most 1 / (1 - GAMMA), and a tenth of it is room.
LIMIT = 1.1 / (1 - GAMMA)


class SquaredHead(nn.Module):
    """A number, learnt by the squared error."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.linear = nn.Linear(features, 1)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x).squeeze(1)

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        return nn.functional.mse_loss(self(x), y)


def value_bins(kind: str) -> Bins:
    if kind == "hl-gauss":
        return Bins.uniform(-LIMIT, LIMIT, BINS)
    if kind == "hl-gauss-moving":
        return Bins.uniform(-1.0, 1.0, 21)
    return Bins.symlog(10.0, BINS)


def value_head(kind: str, features: int) -> nn.Module:
    """What turns features into the value of a state, which is 0 at first."""
    if kind == "l2":
        return SquaredHead(features)
    bins = value_bins(kind)
    target = TwoHot() if kind == "two-hot" else Gaussian.of_bins(0.75)
    spare = BINS - bins.count  # with which the bins may move
    return HistogramHead(features, bins, target, spare=spare, zero_init=True)


def body(inputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())


class Critic(nn.Module):
    """The value of a state."""

    def __init__(self, inputs: int, kind: str) -> None:
        super().__init__()
        self.body, self.head = body(inputs), value_head(kind, 64)

    def forward(self, state: Tensor) -> Tensor:
        predicted = self.head(self.body(state))
        return predicted if isinstance(predicted, Tensor) else predicted.mean

    def loss(self, state: Tensor, y: Tensor) -> Tensor:
        return self.head.loss(self.body(state), y)


class Policy(nn.Module):
    """The probabilities of the actions in a state, equal at first."""

    def __init__(self, inputs: int, actions: int) -> None:
        super().__init__()
        self.body, self.last = body(inputs), nn.Linear(64, actions)
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)

    def forward(self, state: Tensor) -> Categorical:
        return Categorical(logits=self.last(self.body(state)), validate_args=False)


class Rollout(NamedTuple):
    """Steps, all in the shape (steps, environments, ...), or drawn as a batch."""

    state: Tensor
    action: Tensor
    log_prob: Tensor
    advantage: Tensor
    value: Tensor  # what the critic should say

    def batches(self) -> Iterator[Rollout]:
        flat = [part.flatten(0, 1) for part in self]
        for rows in torch.randperm(len(flat[0])).split(BATCH):
            yield Rollout(*(part[rows] for part in flat))


class Experience:
    """Environments that are stepped together, and what their episodes have returned."""

    def __init__(self, env_id: str, seed: int) -> None:
        at_once = {"autoreset_mode": gym.vector.AutoresetMode.SAME_STEP}
        self.envs = gym.make_vec(env_id, ENVIRONMENTS, "sync", vector_kwargs=at_once)
        state, _ = self.envs.reset(seed=seed * ENVIRONMENTS)
        self.state, self.steps = torch.from_numpy(state), 0
        self.totals = np.zeros(ENVIRONMENTS)
        self.episodes: list[tuple[int, float]] = []

    def step(self, action: Tensor) -> tuple[Tensor, ...]:
        """Rewards, the states after, and whether those are ends, or cut off for being late."""
        state, reward, ended, cut_off, info = self.envs.step(action.numpy())
        self.steps, self.totals = self.steps + ENVIRONMENTS, self.totals + reward
        after = state.copy()  # the first states of new episodes, where others are over
        for i in np.flatnonzero(ended | cut_off):
            after[i] = info["final_obs"][i]
            self.episodes.append((self.steps, float(self.totals[i])))
            self.totals[i] = 0.0
        self.state = torch.from_numpy(state)
        parts = (reward.astype(np.float32), after, ended, cut_off)
        return tuple(torch.from_numpy(part) for part in parts)


@torch.no_grad()
def collect(experience: Experience, policy: Policy, critic: Critic) -> Rollout:
    """Act for some steps, and say how much better than expected that was."""
    rows = []
    for _ in range(ROLLOUT):
        state, chances = experience.state, policy(experience.state)
        action = chances.sample()
        rows.append((state, action, chances.log_prob(action), *experience.step(action)))
    state, action, log_prob, reward, after, ended, cut_off = map(
        torch.stack, zip(*rows, strict=True)
    )
    now, later = critic(state.flatten(0, 1)), critic(after.flatten(0, 1))
    now, later = now.view_as(reward), later.view_as(reward)
    surprise = reward + GAMMA * later * ~ended - now  # being cut off is no end
    advantage = discounted_sum(surprise, ~(ended | cut_off))
    return Rollout(state, action, log_prob, advantage, advantage + now)


def discounted_sum(surprise: Tensor, goes_on: Tensor) -> Tensor:
    """Generalized advantages: surprises to the end of the episode, later ones counting less."""
    result, running = torch.zeros_like(surprise), torch.zeros_like(surprise[0])
    for t in reversed(range(len(surprise))):
        running = surprise[t] + GAMMA * LAMBDA * goes_on[t] * running
        result[t] = running
    return result


def policy_loss(policy: Policy, batch: Rollout) -> Tensor:
    chances = policy(batch.state)
    ratio = (chances.log_prob(batch.action) - batch.log_prob).exp()
    advantage = (batch.advantage - batch.advantage.mean()) / (batch.advantage.std() + 1e-8)
    gain = torch.minimum(ratio * advantage, ratio.clamp(1 - CLIP, 1 + CLIP) * advantage)
    return -gain.mean() - ENTROPY * chances.entropy().mean()


def descend(loss: Tensor, network: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(network.parameters(), LARGEST_GRADIENT)
    optimizer.step()


def train(env_id: str, kind: str, seed: int, steps: int) -> list[tuple[int, float]]:
    """The steps at which episodes ended, and their returns."""
    torch.manual_seed(seed)
    experience = Experience(env_id, seed)
    inputs = experience.state.shape[1]
    actions = int(experience.envs.single_action_space.n)
    policy, critic = Policy(inputs, actions), Critic(inputs, kind)
    optimizers = [torch.optim.Adam(n.parameters(), fused=True) for n in (policy, critic)]
    while experience.steps < steps:
        for optimizer in optimizers:
            optimizer.param_groups[0]["lr"] = LEARNING_RATE * (1 - experience.steps / steps)
        rollout = collect(experience, policy, critic)
        for _ in range(EPOCHS):
            for batch in rollout.batches():
                descend(policy_loss(policy, batch), policy, optimizers[0])
                descend(critic.loss(batch.state, batch.value), critic, optimizers[1])
    return experience.episodes


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="PPO with a value head of choice.")
    parser.add_argument("--env", default="CartPole-v1", help="an environment of gymnasium")
    parser.add_argument("--head", choices=HEADS, default="hl-gauss")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=100_000)
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
        known = {"algorithm": "ppo", **{k: v for k, v in vars(args).items() if k != "out"}}
        ends, returns = zip(*episodes, strict=True)
        record = {**known, "processor_seconds": round(seconds, 1)}
        args.out.write_text(json.dumps({**record, "ends": ends, "returns": returns}) + "\n")


if __name__ == "__main__":
    main()

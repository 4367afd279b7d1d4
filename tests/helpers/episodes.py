"""Random episodes of a problem with three states and two actions, for parts that are tested alone."""

import jax
import jax.numpy as jnp
import numpy as np

from everystep.lsvi.episode import Episode
from everystep.mdp.world import Sizes

SIZES = Sizes(states=3, actions=2, successors=2, horizon=4, constraints=2)
SUCCESSORS = np.array([[0, 1, 2], [1, 2, 0]], np.int32)


def episodes(count: int, seed: int = 0, with_values: bool = False) -> list[Episode]:
    """`count` episodes; with values also V_{h+1} of a made-up plan."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(count):
        x, a, slot = (rng.integers(0, n, 4).astype(np.int32) for n in (3, 2, 2))
        reward, cost = rng.random(4), rng.uniform(-1, 1, (4, 2))
        V_next = rng.random((4, 3)) if with_values else None
        made.append(Episode(x, a, slot, SUCCESSORS[slot, x], reward, cost, V_next))
    return made


def learnt(model, steps: int, seen: list[Episode]):
    """The state of a model after these episodes."""
    update, state = jax.jit(model.update), model.init(SIZES, steps)
    for each in seen:
        state = update(state, jax.tree.map(jnp.asarray, each))
    return state


def rows(seen: list[Episode], step: int | None):
    """(x, a, x_next, reward, cost, V_next) of step `step`, or of all steps."""
    return [
        (int(e.x[h]), int(e.a[h]), int(e.x_next[h]), e.reward[h], e.cost[h], None if e.V_next is None else e.V_next[h])
        for e in seen
        for h in (range(4) if step is None else [step])
    ]

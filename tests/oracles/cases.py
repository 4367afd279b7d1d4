"""The cases in which the plain transcription of Algorithm 1 and the program are compared: problems and settings."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
from oracles import lsvi as oracle

from everystep.agents import Recipe
from everystep.lsvi import loop
from everystep.lsvi.choices.ties import priorities, ties
from everystep.mdp import successors
from everystep.mdp.cmdp import FiniteCMDP, Noise
from everystep.problems import from_map

EPISODES = 30
SEEDS = (4, 11)  # the second is compared: a driver that mixes seeds up would show
SEED = SEEDS[1]
EXACT = {"rtol": 0, "atol": 1e-9}


def features(S, A, d):
    phi = np.random.default_rng(2).normal(size=(S, A, d))
    return phi / np.linalg.norm(phi, axis=-1).max()


def with_a_safe_action(rng, g):
    """Assumption 1: at every (h, x) one action satisfies all constraints at once."""
    safe = rng.integers(g.shape[-1], size=g.shape[1:-1])
    return np.where(np.arange(g.shape[-1]) == safe[..., None], -np.abs(g), g)


@cache
def problem(name):
    if name == "lake":
        return from_map(("SFHF", "FFFF", "HFGF", "F#FF"), horizon=5, name=name)
    rng = np.random.default_rng(1)
    if name == "stationary":
        S, A, m = 5, 3, 2
        g = with_a_safe_action(rng, rng.uniform(-1, 1, (m, 1, S, A)))
        return FiniteCMDP(
            rng.dirichlet(np.ones(S), (S, A)),
            rng.random((S, A)),
            g,
            start=2,
            horizon=4,
            noise=Noise(cost_sigma=(0.1, 0.3)),
            name=name,
        )
    if name == "dead ends":
        # A corridor with momentum: states (place, speed); at the end of the corridor speed is harm, and braking takes
        # two steps. Some states have no safe action, and what follows is random.
        S, A, m = 8, 3, 2
        P = np.zeros((S, A, S))
        g = np.full((m, S, A), -0.5)
        for x in range(S):
            place, speed = divmod(x, 2)
            for a in range(A):
                faster = [0, speed, 1][a]
                for chance, new in ((0.8, faster), (0.2, speed)):
                    P[x, a, min(place + new, 3) * 2 + new] += chance
            g[0, x] = 0.7 if place == 3 and speed else -0.5
        g[1, 4:6, 2] = 0.4
        r = rng.random((S, A)) * (np.arange(S)[:, None] // 2 == 2)
        return FiniteCMDP(P, r, g, start=0, horizon=5, noise=Noise(cost_sigma=(0.2, 0.1)), name=name)
    H, S, A = 4, 6, 3
    # Each state is followed by one of three others at every step: the program stores a list of those.
    follows = np.argsort(rng.random((S, S)), axis=1)[:, :3]
    P = np.zeros((H, S, A, S))
    for x in range(S):
        P[:, x, :, follows[x]] = np.moveaxis(rng.dirichlet(np.ones(3), (H, A)), -1, 0)
    g = with_a_safe_action(rng, rng.uniform(-1, 1, (1, H, S, A)))
    return FiniteCMDP(P, rng.random((H, S, A)), g, start=1, horizon=H, name=name)


def rbf(y, length):
    return np.exp(-((y[:, None] - y[None]) ** 2).sum(-1) / (2 * length**2))


def same(y):
    return (y[:, None] == y[None]).all(-1).astype(float)


# The value of each kernel at all pairs of points; `on` holds the named coordinates (S * A, d) of every (x, a).
LANDING = "categorical(on=landing)"
ALIKE = "rbf(1.5, on=state)*categorical(on=action)"
WEIGHED = "0.5*rbf(2, on=state) + 0.3*categorical(on=action)"
GROWING = ", points=growing"  # another algebra for the same numbers
KERNELS = {
    LANDING: lambda on: same(on["landing"]),
    ALIKE: lambda on: rbf(on["state"], 1.5) * same(on["action"]),
    WEIGHED: lambda on: 0.5 * rbf(on["state"], 2) + 0.3 * same(on["action"]),
}

LAKE, STATIONARY, STEPPED, DEAD_ENDS = "lake", "stationary", "step-dependent", "dead ends"
SHARED, OWN = (True, True), (False, False)  # one estimator of values, of costs, for all steps; or one for each step
WIDE = {STATIONARY: features(5, 3, 6), STEPPED: features(6, 3, 6), DEAD_ENDS: features(8, 3, 9)}
KNOWN_SAFE = np.random.default_rng(3).random((5, 3)) < 0.3  # not all of these are safe: agents trust the setting
LANDING_GP = {"cap": 6.1, "cost": f"gp({LANDING})"}
CASES = {
    "the lake": (LAKE, "lsvi-ae", SHARED, {"cap": 6.1}),
    "the lake, wider intervals": (LAKE, "lsvi-ae", SHARED, {"cap": 6.1, "beta": 1.0, "beta_cost": 0.8, "lam": 0.5}),
    "the lake, no constraint": (LAKE, "lsvi", SHARED, {"cap": 6.1}),
    "the lake, a queue": (LAKE, "lsvi-primal", OWN, {"cap": 6.1, "beta_cost": 0.1}),
    "noise": (STATIONARY, "lsvi-ae", SHARED, {"features": WIDE[STATIONARY]}),
    "noise, a slow floor": (
        STATIONARY,
        "lsvi-ae",
        SHARED,
        {"features": WIDE[STATIONARY], "floor": "sqrt", "beta": 0.2},
    ),
    "noise, a low floor": (STATIONARY, "lsvi-ae", SHARED, {"features": WIDE[STATIONARY], "floor": 1.5, "optimism": -1}),
    "noise, no constraint": (STATIONARY, "lsvi", OWN, {"lam": 1.0, "beta": 2.0}),
    "noise, a queue": (STATIONARY, "lsvi-primal", (True, False), {"features": WIDE[STATIONARY]}),
    "every step its own": (STEPPED, "lsvi-ae", OWN, {"floor": "k", "lam_cost": 0.5, "beta": 0.7}),
    "every step its own, half as bold": (STEPPED, "lsvi-ae", OWN, {"optimism": 0.5, "lam": 2.0}),
    "every step its own, no constraint": (STEPPED, "lsvi", OWN, {"features": WIDE[STEPPED], "beta": 0.2}),
    "every step its own, a queue": (STEPPED, "lsvi-primal", OWN, {}),
    "every step its own, a queue for violations only": (STEPPED, "lsvi-primal", OWN, {"rectify": True}),
    "the lake, a process": (LAKE, "lsvi-ae", SHARED, LANDING_GP | {"beta_cost": 2.0, "lam_cost": 0.3}),
    "the lake, a process believed": (LAKE, "lsvi-ae", SHARED, LANDING_GP | {"optimism": 0, "lam_cost": 0.3}),
    "the lake, a process feared": (LAKE, "lsvi-ae", SHARED, LANDING_GP | {"optimism": -1}),
    "the lake, reacting to a process": (LAKE, "lsvi-ae", SHARED, LANDING_GP | {"optimism": -1, "react": True}),
    "noise, reacting to counts": (STATIONARY, "lsvi-ae", (False, True), {"optimism": -1, "react": True}),
    "noise, reacting to a process and counts, some known safe": (
        STATIONARY,
        "lsvi-ae",
        SHARED,
        {"cost": [f"gp({WEIGHED})", "counts"], "optimism": 0.5, "react": True, "known_safe": KNOWN_SAFE, "beta": 0.2},
    ),
    "noise, a process as printed": (
        STATIONARY,
        "lsvi-ae",
        SHARED,
        {"cost": f"gp({ALIKE})", "radius_cost": "paper", "beta_cost": 0.2, "bound": 1.7, "p": 0.1},
    ),
    "noise, two processes for each step as printed": (
        STATIONARY,
        "lsvi-ae",
        (True, False),
        {"cost": [f"gp({WEIGHED})", f"gp({ALIKE}{GROWING})"], "radius_cost": "paper", "beta_cost": 0.4, "sigma": 0.2},
    ),
    "dead ends, the least harm": (DEAD_ENDS, "lsvi-ahead", SHARED, {"beta": 0.2}),
    "dead ends, harm of the plan": (DEAD_ENDS, "lsvi-ahead", OWN, {"mode": "plan", "beta": 0.2, "floor": 0.3}),
    "dead ends, events and features": (
        DEAD_ENDS,
        "lsvi-ahead",
        SHARED,
        {"features": WIDE[DEAD_ENDS], "harm": "events", "tolerance": 0.1, "mode": "plan", "beta": 0.2},
    ),
    "dead ends, lowered harm, reacting to a process": (
        DEAD_ENDS,
        "lsvi-ahead",
        SHARED,
        {"cost": [f"gp({ALIKE})", "counts"], "react": True, "beta_harm": 0.05, "optimism": -1, "beta": 0.2},
    ),
    "dead ends, a price inside the reward": (DEAD_ENDS, "lsvi-priced", SHARED, {"violation_price": 0.7, "beta": 0.2}),
    "dead ends, marked": (DEAD_ENDS, "sucbvi", SHARED, {"beta": 0.2}),
    "every step its own process": (STEPPED, "lsvi-ae", OWN, {"cost": f"gp({ALIKE})", "optimism": 0.5}),
}


def uses_costs(agent):
    return agent not in ("lsvi", "lsvi-priced")


def ahead(agent, values, p):
    """How the agent looks ahead, as the oracle takes it."""
    weights = np.ones(p.constraints)
    if agent == "sucbvi":
        return {"mode": "marked", "weights": weights}
    if agent != "lsvi-ahead":
        return None
    return {
        "mode": values["mode"],
        "events": values["harm"] == "events",
        "tolerance": values["tolerance"],
        "beta": values["beta_harm"],
        "weights": weights,
        "cap": p.horizon * p.constraints,
    }


PENALTIES = {"lsvi-ae": "rectified", "lsvi-ahead": "rectified", "lsvi-primal": "queue", "sucbvi": "fixed"}


@cache
def recipe(case):
    _, agent, (share_values, share_costs), settings = CASES[case]
    sharing = {"share_values": share_values} | ({"share_costs": share_costs} if uses_costs(agent) else {})
    return Recipe(agent, settings | sharing)


@cache
def drawn(where):
    """All random numbers of a run: the draws of every episode, the words of its ties, and the priorities they give."""
    p = problem(where)

    def of_episode(k):
        draw = loop.draws(p.world, p.sizes, jnp.uint32(SEED), k)
        words = ties(draw.tie_word, p.horizon, p.states)
        return draw, words, priorities(words, p.actions)

    draw, words, priority = jax.jit(jax.vmap(of_episode))(jnp.arange(1, EPISODES + 1))
    return draw, words, np.moveaxis(np.asarray(priority), 1, -1)


def by_step(array, H, axis=0):
    """The same array at every step, where it has no step axis of its own."""
    shape = list(array.shape)
    shape[axis] = H
    return np.broadcast_to(array, shape)


def cost_models(case):
    """For each constraint the features of its cost model, or its kernel at all pairs of points."""
    where, _, _, settings = CASES[case]
    p = problem(where)
    S, A, m = p.states, p.actions, p.constraints
    one_hot = np.eye(S * A).reshape(S, A, S * A)
    on = {name: coordinates.reshape(S * A, -1) for name, coordinates in p.points.items()}
    plain = {"counts": one_hot, None: settings.get("features", one_hot)}
    kernel = lambda name: KERNELS[name.removeprefix("gp(").removesuffix(")").removesuffix(GROWING)](on)
    named = settings.get("cost")
    named = named if isinstance(named, list) else [named] * m
    return [plain[name] if name in plain else kernel(name) for name in named]


def reward_range(where):
    """The smallest reward and the range: every state of these problems can be entered."""
    p = problem(where)
    seen = p.r if p.noise.reward_on_arrival is None else p.noise.reward_on_arrival[p.P.probabilities > 0]
    return seen.min(), seen.max() - seen.min()


@cache
def expected(case):
    """The run of the oracle, on rewards in [0, 1]: scaled here, by the range of all rewards, without the library."""
    where, agent, (_, share_costs), settings = CASES[case]
    p, values = problem(where), recipe(case).resolve(problem(where), EPISODES)
    low, span = reward_range(where)
    H, S, A = p.horizon, p.states, p.actions
    draw, _, priority = drawn(where)
    lam_cost, radius_gp = values["lam_cost"], None
    if settings.get("radius_cost") == "paper":
        lam_cost = 1 + 2 / (EPISODES * (H if share_costs else 1))
        noise = settings.get("sigma", np.max(p.noise.cost_sigma))
        radius_gp = settings.get("bound", 1), noise, settings.get("p", 0.05)
    seen = p.noise.reward_on_arrival
    floor = {"k": lambda k: k, "sqrt": np.sqrt}.get(values["floor"], lambda k: values["floor"])
    return oracle.run(
        by_step(p.dense_P, H),
        (by_step(p.r, H) - low) / span,
        by_step(p.g, H, axis=1),
        settings.get("features", np.eye(S * A).reshape(S, A, S * A)),
        int(p.start[0]),
        H,
        EPISODES,
        transition=np.asarray(draw.transition),
        priority=priority,
        reward_seen=None if seen is None else (by_step(successors.table_at(p.P, seen), H) - low) / span,
        cost_noise=None if draw.cost_noise is None else np.asarray(draw.cost_noise) * p.noise.cost_sigma,
        floor=floor,
        optimism=values["optimism"],
        share_values=values["share_values"],
        share_costs=values["share_costs"],
        penalty=PENALTIES.get(agent, "none"),
        ahead=ahead(agent, values, p),
        violation_price=values["violation_price"] if agent == "lsvi-priced" else 0.0,
        rectify=values["rectify"],
        cost_models=cost_models(case),
        lam_cost=lam_cost,
        radius_gp=radius_gp,
        known_safe=settings.get("known_safe"),
        react=settings.get("react", False),
        cap=(values["cap"] - H * low) / span,
        **{key: values[key] for key in ("beta", "lam", "beta_cost")},
    )

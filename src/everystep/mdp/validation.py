"""The validation of a problem: arrays are brought into their shapes, and errors name the field and the place.

`normalise` runs when a problem is made and raises errors about shapes. `check` is `FiniteCMDP.check`: it raises errors
about values (probabilities, the range of g, noise) and remarks on states without a safe action.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from everystep.errors import (
    LARGEST_MEASUREMENT,
    EverystepError,
    as_array,
    is_masked,
    real_number,
    shown,
    true_or_false,
    whole_number,
)
from everystep.mdp import successors
from everystep.mdp.cmdp import Factored, FiniteCMDP, Grid, Known, Noise, Successors
from everystep.runtime import memory


# --- shapes -------------------------------------------------------------------------------------------------------
def normalise(problem: FiniteCMDP, put: Callable[[str, Any], None]) -> None:
    """Replace every field of a new problem by its normal form through `put(name, value)`."""
    put("horizon", whole_number("horizon", problem.horizon))
    put("noise", _noise(problem.noise))
    given = problem.P
    P, pairs, stepped = _factors(problem, given) if isinstance(given, Factored) else _transitions(problem, given)
    put("_stepped", stepped)  # decides the meaning of three axes of g
    put("r", _with_step_axis(problem, "r", numbers("r", problem.r), pairs))
    put("g", _constraint_axes(problem, "g", numbers("g", problem.g), pairs))
    if not isinstance(P, Factored):
        P = _as_lists(problem, P, pairs, put)
    put("P", P)
    memory.check_horizon(problem.horizon, problem.states)
    put("start", _start(problem.start, problem.states))
    put("exempt", _exempt(problem.exempt, problem.states))
    if problem.features is not None:
        put("features", _features(problem, problem.features))
    elif isinstance(P, Factored) and len(P.phi) == 1:
        put("features", P.phi[0])
    if problem.kernel is not None:
        put("kernel", _kernel(problem.kernel))
    put("linear_costs", true_or_false("linear_costs", problem.linear_costs))
    if not isinstance(problem.name, str):
        raise EverystepError(f"name is {shown(problem.name)}; give a text.")
    for name, count in (("state_names", problem.states), ("action_names", problem.actions), ("remarks", None)):
        put(name, _texts(name, getattr(problem, name), count))
    put("known", _known(problem, problem.known))
    if not isinstance(problem.coordinates, Mapping):
        raise EverystepError(f"coordinates are {shown(problem.coordinates)}; give a dictionary of named arrays.")
    put("scale", _scale(problem, problem.scale))
    put("coordinates", {name: _coordinate(problem, name, given) for name, given in problem.coordinates.items()})
    if problem.grid is not None:
        _check_grid(problem.grid, problem.states, problem.actions)


def numbers(name: str, value: object) -> np.ndarray:
    """`value` as an array of float64, or the error that names the field."""
    array = as_array(value)
    if array.dtype.kind not in "biuf":
        raise EverystepError(f"{name} is not an array of numbers; give one.")
    if is_masked(value):
        raise EverystepError(f"{name} has masked entries; give numbers only.")
    return array.astype(np.float64)


def numbers_or_integers(name: str, value: object) -> np.ndarray:
    """`value` as an array whose integers stay integers, or the error that names the field."""
    array = numbers(name, value)
    given = np.asarray(value)
    return given if given.dtype.kind in "iu" else array


def _noise(given: Noise | None) -> Noise:
    given = Noise() if given is None else given
    if not isinstance(given, Noise):
        raise EverystepError(f"noise is {shown(given)}; give es.Noise(reward_sigma=..., cost_sigma=...).")
    return given


def _kernel(given: object) -> str:
    """The text of the suggested cost kernel; refused here if no kernel can be read from it."""
    from everystep import kernels

    text = str(given) if isinstance(given, kernels.Kernel) else given
    try:
        if not isinstance(text, str):
            raise ValueError("write a kernel such as rbf(2, on=position)")
        kernels.parse(text)
    except ValueError as error:
        raise EverystepError(f"kernel is '{shown(text)}'; {error}.") from None
    return text


def _texts(name: str, given: object, count: int | None) -> tuple[str, ...] | None:
    """A sequence of texts as a tuple, `count` of them unless that is None; None stays None."""
    if given is None and count is not None:
        return None
    given = given.tolist() if isinstance(given, np.ndarray) else given
    texts = tuple(given) if isinstance(given, list | tuple) else (None,)
    if not all(isinstance(each, str) for each in texts):
        raise EverystepError(f"{name} are {shown(given)}; give a sequence of texts.")
    if count is not None and len(texts) != count:
        raise EverystepError(f"{name} are {len(texts)}; give {count} of them.")
    return texts


def _with_step_axis(problem: FiniteCMDP, name: str, array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """`array` as (T, *shape) with T = 1 or H."""
    if array.shape == shape:
        return array[None]
    if array.shape == (problem.horizon, *shape):
        return array
    raise EverystepError(
        f"{name} has shape {array.shape}; give {shape}, or {(problem.horizon, *shape)} when it depends on the step."
    )


def _constraint_axes(problem: FiniteCMDP, name: str, array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """`array` as (m, T, *shape); a single extra axis means steps iff P has a step axis."""
    extra = array.ndim - len(shape)
    if array.shape[extra:] != shape or extra not in (0, 1, 2):
        raise EverystepError(
            f"{name} has shape {array.shape}; its last axes must be {shape}, after an optional m and an optional H."
        )
    if 0 in array.shape:
        raise EverystepError(f"{name} has shape {array.shape}; give at least one constraint.")
    if extra == 0:
        return array[None, None]
    if extra == 1 and not problem._stepped:
        return array[:, None]
    array = array[None] if extra == 1 else array
    if array.shape[1] not in (1, problem.horizon):
        raise EverystepError(f"{name} has {array.shape[1]} steps; the horizon is {problem.horizon}: give as many.")
    return array


def _transitions(problem: FiniteCMDP, given: object) -> tuple[np.ndarray | Successors, tuple[int, ...], bool]:
    """P as a table or as lists, with a step axis; (S, A); and whether P depends on the step."""
    if isinstance(given, Successors):
        return _lists(problem, given)
    if isinstance(given, list | tuple) and any(hasattr(each, "tocsr") for each in given):
        return _matrices(given)
    if hasattr(given, "tocsr"):
        raise EverystepError("P is one sparse matrix; give a list of them, one (S, S) for each action.")
    P = numbers("P", given)
    if P.ndim not in (3, 4) or P.shape[-1] != P.shape[-3] or 0 in P.shape:
        raise EverystepError(f"P has shape {P.shape}; give (S, A, S), or (H, S, A, S) when it depends on the step.")
    return _with_step_axis(problem, "P", P, P.shape[-3:]), P.shape[-3:-1], P.ndim == 4


def _lists(problem: FiniteCMDP, given: Successors) -> tuple[Successors, tuple[int, ...], bool]:
    states = numbers_or_integers("successors", given.states)
    probabilities = numbers("probabilities", given.probabilities)
    if states.dtype.kind not in "iu" or states.ndim not in (3, 4) or 0 in states.shape:
        raise EverystepError(
            f"successors have shape {states.shape} and type {states.dtype}; give whole numbers (S, A, J), "
            "or (H, S, A, J) when they depend on the step."
        )
    S, A, J = states.shape[-3:]
    if (wrong := states[(states < 0) | (states >= S)]).size:
        raise EverystepError(f"successors hold {int(wrong[0])}; give states between 0 and {S - 1}.")
    if states.ndim == 4 and len(states) not in (1, problem.horizon):
        raise EverystepError(f"successors have {len(states)} steps; the horizon is {problem.horizon}: give as many.")
    if probabilities.shape != (1, S, A, J):  # as inside a problem
        probabilities = _with_step_axis(problem, "probabilities", probabilities, (S, A, J))
    if (negative := probabilities < 0).any():  # before the same next state, listed twice, hides it
        x, a = (int(i) for i in np.argwhere(negative)[0][1:3])
        raise EverystepError(
            f"probabilities hold {probabilities[negative][0]:.6g} at state {x}, action {a}; give numbers of at least 0."
        )
    states = states.astype(np.int64)
    if states.ndim == 4 and len(states) == 1:
        states = states[0]
    stepped = len(probabilities) > 1 or states.ndim == 4
    if states.ndim == 4 and len(probabilities) == 1:
        probabilities = np.broadcast_to(probabilities, states.shape)
    return Successors(states, probabilities), (S, A), stepped


def _matrices(given: Sequence[Any]) -> tuple[Successors, tuple[int, ...], bool]:
    S = given[0].shape[0] if hasattr(given[0], "tocsr") else 0
    for a, each in enumerate(given):
        if not hasattr(each, "tocsr") or each.shape != (S, S) or S == 0 or each.dtype.kind not in "biuf":
            raise EverystepError(
                f"P of action {a} is {shown(each)}; give a sparse matrix (S, S) of numbers for every action, "
                "all of the same size."
            )
    return successors.from_matrices(given), (S, len(given)), False


def _as_lists(
    problem: FiniteCMDP, P: np.ndarray | Successors, pairs: tuple[int, ...], put: Callable[[str, Any], None]
) -> Successors:
    """P in the normal form of lists; what is observed on arrival follows it, and replaces `noise`."""
    shape = (*pairs, P.states.shape[-1] if isinstance(P, Successors) else pairs[0])
    noise = problem.noise
    seen: dict[str, np.ndarray] = {}
    if noise.reward_on_arrival is not None:
        rewards = numbers("reward_on_arrival", noise.reward_on_arrival)
        seen["reward_on_arrival"] = (
            rewards if rewards.shape == (1, *shape) else _with_step_axis(problem, "reward_on_arrival", rewards, shape)
        )
    if noise.cost_on_arrival is not None:
        costs = _constraint_axes(problem, "cost_on_arrival", numbers("cost_on_arrival", noise.cost_on_arrival), shape)
        if len(costs) != problem.constraints:
            raise EverystepError(
                f"cost_on_arrival has {len(costs)} constraints, g has {problem.constraints}: give as many."
            )
        seen["cost_on_arrival"] = costs
    lists, seen = successors.normal_form(P, seen) if isinstance(P, Successors) else successors.from_table(P, seen)
    put("noise", replace(noise, **dict[str, Any](seen)))
    return lists


def _factors(problem: FiniteCMDP, given: Factored) -> tuple[Factored, tuple[int, ...], bool]:
    """The factors with a step axis, (S, A), and whether they depend on the step."""
    phi, mu = numbers("phi", given.phi), numbers("mu", given.mu)
    if phi.ndim not in (3, 4) or 0 in phi.shape:
        raise EverystepError(f"phi has shape {phi.shape}; give (S, A, d), or (H, S, A, d) when it depends on the step.")
    S, A, d = phi.shape[-3:]
    P = Factored(_with_step_axis(problem, "phi", phi, (S, A, d)), _with_step_axis(problem, "mu", mu, (d, S)))
    if problem.noise.reward_on_arrival is not None or problem.noise.cost_on_arrival is not None:
        raise EverystepError(
            "noise is observed on arrival, which requires an entry for every (x, a, x'), but P is given by factors; "
            "use reward_sigma and cost_sigma, or give P as a table."
        )
    return P, (S, A), phi.ndim == 4 or mu.ndim == 3


def _start(start: object, states: int) -> np.ndarray:
    array = start if isinstance(start, np.ndarray) else numbers_or_integers("start", start)
    if np.issubdtype(array.dtype, np.integer):
        array = array.reshape(-1)
        wrong = array[(array < 0) | (array >= states)]
        if len(array) == 0 or len(wrong):
            shown = int(wrong[0]) if len(wrong) else "empty"
            raise EverystepError(f"start is {shown}; give states between 0 and {states - 1}.")
        return array.astype(np.int32)
    array = numbers("start", array)
    if array.shape != (states,) or (array < 0).any() or not abs(array.sum() - 1) <= 1e-9:
        raise EverystepError(
            f"start has shape {array.shape} and sum {array.sum():.6g}; "
            f"give a state, a sequence of states, or {states} probabilities that sum to 1."
        )
    return array


def _exempt(given: object, states: int) -> np.ndarray:
    exempt = np.zeros(states, bool) if given is None else np.asarray(numbers("exempt", given), bool)
    if exempt.shape != (states,):
        raise EverystepError(f"exempt has shape {exempt.shape}; give ({states},), one for each state.")
    return exempt


def _features(problem: FiniteCMDP, given: object) -> np.ndarray:
    phi = numbers("features", given)
    if phi.ndim != 3 or phi.shape[:2] != (problem.states, problem.actions):
        raise EverystepError(
            f"features have shape {phi.shape}; "
            f"give ({problem.states}, {problem.actions}, d), a vector for every state and action."
        )
    if not np.isfinite(phi).all() or phi.shape[-1] == 0:
        raise EverystepError(f"features of shape {phi.shape} are empty or not all finite; give finite numbers.")
    return phi


def _known(problem: FiniteCMDP, given: Known | None) -> Known:
    """The same with arrays: threshold (m,), safe_action (S,), triples (S, A, S, d)."""
    S, A, m = problem.states, problem.actions, problem.constraints
    given = Known() if given is None else given
    if not isinstance(given, Known):
        raise EverystepError(f"known is {shown(given)}; give es.Known(threshold, safe_action, triples).")
    threshold = numbers("threshold", given.threshold)
    if threshold.shape not in ((), (m,)) or not np.isfinite(threshold).all():
        raise EverystepError(f"threshold is {shown(given.threshold)}; give a finite number, or {m} of them.")
    safe, triples = given.safe_action, given.triples
    if safe is not None:
        safe = _safe_action(problem, numbers_or_integers("safe_action", safe))
    if triples is not None:
        triples = numbers("triples", triples)
        wrong_shape = triples.ndim != 4 or triples.shape[:3] != (S, A, S) or triples.shape[3] == 0
        if wrong_shape or not (np.abs(triples) <= LARGEST_MEASUREMENT).all():  # whose squares are finite
            raise EverystepError(
                f"triples have shape {triples.shape}; give numbers of at most {LARGEST_MEASUREMENT:g}, ({S}, {A}, {S}, "
                "d), a vector for every state, action and next state."
            )
    return Known(np.broadcast_to(threshold, (m,)).copy(), safe, triples)


def _scale(problem: FiniteCMDP, given: object) -> np.ndarray | None:
    """What each constraint is divided by, (m,): its largest |g| (True), or the numbers given; None for no scale."""
    m = problem.constraints
    if given is None or (isinstance(given, bool | np.bool_) and not given):
        return None
    if isinstance(given, bool | np.bool_):
        largest = np.abs(problem.g).max((1, 2, 3))
        return np.where(largest > 0, largest, 1.0)
    scale = numbers("scale", given)
    if scale.shape not in ((), (m,)) or not np.isfinite(scale).all() or not (scale > 0).all():
        raise EverystepError(
            f"scale is {shown(given)}; give true, a number above 0, or {m} of them, one for each constraint."
        )
    return np.broadcast_to(scale, (m,)).copy()


def _safe_action(problem: FiniteCMDP, safe: np.ndarray) -> np.ndarray:
    """`safe` if it holds one action per state, each with g < 0."""
    S, A = problem.states, problem.actions
    if safe.shape != (S,) or safe.dtype.kind not in "iu":
        raise EverystepError(
            f"safe_action has shape {safe.shape} and type {safe.dtype}; give {S} actions from 0 to {A - 1}."
        )
    if len(wrong := safe[(safe < 0) | (safe >= A)]):
        raise EverystepError(f"safe_action holds {wrong[0]}; give {S} actions from 0 to {A - 1}.")
    cost = problem.g[:, :, np.arange(S), safe].max((0, 1))
    if (bad := (cost >= 0) & ~problem.exempt).any():
        x = int(bad.argmax())
        raise EverystepError(
            f"safe_action of {problem.describe(x)} is {problem.describe_action(int(safe[x]))}, whose g is "
            f"{cost[x]:.6g}; give an action with g < 0."
        )
    return safe


def _coordinate(problem: FiniteCMDP, name: str, given: object) -> np.ndarray:
    if not isinstance(name, str) or not name.isidentifier() or name in ("state", "action", "features"):
        raise EverystepError(
            f"coordinates are called '{shown(name)}'; use another word of letters, because state, action and "
            "features exist already."
        )
    array = numbers(f"coordinates '{name}'", given)
    array = array[..., None] if array.ndim == 2 else array
    pairs = problem.states, problem.actions
    if array.ndim != 3 or array.shape[:2] != pairs or not np.isfinite(array).all():
        raise EverystepError(
            f"coordinates '{name}' have shape {array.shape}; "
            f"give finite numbers ({pairs[0]}, {pairs[1]}) or vectors ({pairs[0]}, {pairs[1]}, d)."
        )
    return array


def _check_grid(grid: Grid, states: int, actions: int) -> None:
    if not isinstance(grid, Grid):
        raise EverystepError(f"grid is {shown(grid)}; give Grid(rows).")
    _texts("rows", grid.rows, None)
    sizes = {len(row) * len(grid.rows) for row in grid.rows}
    if grid.cells is None and sizes != {states}:
        raise EverystepError(f"rows draw {shown(grid.rows)}; give equally long rows with {states} cells in total.")
    if grid.cells is not None:
        cells = numbers_or_integers("cells", grid.cells)
        if len(sizes) != 1 or 0 in sizes:
            raise EverystepError(f"rows draw {shown(grid.rows)}; give equally long rows.")
        if cells.shape != (states,) or cells.dtype.kind not in "iu" or cells.min() < 0 or cells.max() >= max(sizes):
            raise EverystepError(
                f"cells have shape {cells.shape} and type {cells.dtype}; give {states} whole numbers from 0 to "
                f"{max(sizes) - 1}, the cell of each state."
            )
    if grid.moves is not None:
        moves = numbers("moves", grid.moves)
        if moves.shape != (states, actions, 2) or not np.isfinite(moves).all():
            raise EverystepError(
                f"moves have shape {moves.shape}; give finite numbers ({states}, {actions}, 2), down and right."
            )
    if grid.heights is None:
        return
    heights = numbers("heights", grid.heights)
    if heights.shape != (shape := (len(grid.rows), grid.width)) or not np.isfinite(heights).all():
        raise EverystepError(f"heights have shape {heights.shape}; give finite numbers {shape}, one per cell.")


# --- values -------------------------------------------------------------------------------------------------------
def check(problem: FiniteCMDP, cap: float | None = None) -> tuple[str, ...]:
    """Raise an error for the first mistake; return remarks on what is unusual but allowed. See `FiniteCMDP.check`."""
    from everystep.mdp import planner

    P = problem.P
    probabilities = (
        {"phi": (P.phi, "factors"), "mu": (P.mu, "next states")}
        if isinstance(P, Factored)
        else {"P": (P.probabilities, "next states")}
    )
    finite = {name: array for name, (array, _) in probabilities.items()} | {"r": problem.r, "g": problem.g}
    for name, array in finite.items():
        if not np.isfinite(array).all():
            raise EverystepError(
                f"{name} is {array[~np.isfinite(array)][0]} at {_place(problem, name, ~np.isfinite(array))}; "
                "every entry must be finite."
            )
    for name, (array, over) in probabilities.items():
        if (array < 0).any():
            raise EverystepError(
                f"{name} is {array[array < 0][0]:.6g} at {_place(problem, name, array < 0)}; "
                "probabilities cannot be negative."
            )
        sums = array.sum(-1)
        if (bad := np.abs(sums - 1) > 1e-9).any():
            raise EverystepError(
                f"{name} sums to {sums[bad][0]:.9g} over the {over} at {_place(problem, name, bad)}; make it sum to 1."
            )
    limit = np.ones(problem.constraints) if problem.scale is None else problem.scale
    if (bad := np.abs(problem.g) > limit[:, None, None, None]).any():
        most = limit[np.argwhere(bad)[0][0]]
        raise EverystepError(
            f"g is {problem.g[bad][0]:.6g} at {_place(problem, 'g', bad)}, outside [-{most:g}, {most:g}]; "
            "set scale to true, which divides each constraint by its largest |g| (its sign decides safety)."
        )
    _check_noise(problem)
    rewards = problem.reward_range  # raises if returns are too large
    if cap is not None:
        cap = real_number("cap", cap, least=-np.inf)  # where all rewards are losses, so are returns
        highest = planner.highest_value(problem.in_units)
        if rewards.scaled_cap(cap, problem.horizon) < highest - 1e-9:
            raise EverystepError(
                f"cap is {cap:g}, below the unconstrained optimum {rewards.highest(highest, problem.horizon):.6g}; "
                "set cap to at least that, or leave it at auto."
            )
    return problem.remarks + _remarks_on_dead_ends(problem)


def _place(problem: FiniteCMDP, name: str, bad: np.ndarray) -> str:
    """'state 3, action 1' for the first True of `bad`, whose axes are ([m], T, S, A, ...), or (T, d, ...) for mu."""
    first = [int(i) for i in np.argwhere(bad)[0]]
    constraint = f", constraint {first.pop(0) + 1}" if name == "g" and problem.constraints > 1 else ""
    if name == "g" and problem.constraints == 1:
        first.pop(0)
    step = f", step {first[0] + 1}" if bad.shape[1 if name == "g" else 0] > 1 else ""
    if name == "mu":
        return f"factor {first[1]}{step}"
    return f"{problem.describe(first[1])}, {problem.describe_action(first[2])}{step}{constraint}"


def _check_noise(problem: FiniteCMDP) -> None:
    noise, m = problem.noise, problem.constraints
    for name, letter, seen, mean in (
        ("reward", "r", problem.reward_on_arrival, problem.r),
        ("cost", "g", problem.cost_on_arrival, problem.g),
    ):
        if seen is None or isinstance(problem.P, Factored):  # observations on arrival exclude factors
            continue
        error = np.abs((problem.P.probabilities * seen).sum(-1) - mean)
        # Rounding is relative to the numbers: 1e-9 of the largest, and where they are below 1, 1e-9 itself.
        if not np.isfinite(seen).all() or error.max() > 1e-9 * max(1.0, float(np.abs(seen).max())):
            raise EverystepError(
                f"{name}_on_arrival has a mean that differs from {letter} by {error.max():.3g}; make them agree."
            )
    for name in ("reward_sigma", "cost_sigma"):
        sigma = numbers(name, getattr(noise, name))
        if not np.isfinite(sigma).all() or (sigma < 0).any():
            raise EverystepError(f"{name} is {shown(getattr(noise, name))}; give a standard deviation of at least 0.")
    if np.ndim(noise.reward_sigma):
        raise EverystepError(f"reward_sigma has shape {np.shape(noise.reward_sigma)}; give one number.")
    if np.ndim(noise.cost_sigma) and np.shape(noise.cost_sigma) != (m,):
        raise EverystepError(f"cost_sigma has shape {np.shape(noise.cost_sigma)}; give one number, or {m}.")


def _remarks_on_dead_ends(problem: FiniteCMDP) -> tuple[str, ...]:
    """Remarks for a problem without Assumption 1 (a safe action at every step in every state that is not exempt)."""
    ends = problem.dead_ends
    if ends is None:
        return ()
    stuck = int(ends.without_safe_action.any(0).sum())
    h, x = (int(i) for i in np.argwhere(ends.without_safe_action)[0])
    example = problem.describe(x) + (f" at step {h + 1}" if len(ends.without_safe_action) > 1 else "")
    named = f"1 state has no safe action ({example})"
    if stuck > 1:
        named = f"{stuck} states have no safe action (such as {example})"
    counted = int((~problem.exempt).sum())
    from_start = (
        f"an episode has a violation of at least {ends.least_violation:.6g} on average, whatever the policy"
        if ends.least_violation > 0
        else "from the start they can be avoided"
    )
    return (
        f"{named}: violations cannot be avoided from {ends.pairs} of {problem.horizon * counted} pairs of step and "
        f"state ({ends.states} of {counted} states); {from_start}.",
    )

"""A finite constrained MDP as plain arrays: what a user passes.

The paper's problem (its equations 6 and 7): maximise V_1(x_1) subject to g_h(x_h, a_h) <= 0 at every step h.

`FiniteCMDP` keeps arrays in the public shapes, (S, A) and lists of next states (S, A, J). `validation` checks them, and
`world` arranges them in the form that the algorithms run on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from everystep.errors import number_below

if TYPE_CHECKING:
    from everystep.mdp.planner import DeadEnds
    from everystep.mdp.reach import Reach, Span
    from everystep.mdp.units import RewardRange
    from everystep.mdp.world import Sizes, World


class Successors(NamedTuple):
    """Transitions as lists: (x, a) leads to states[x, a, j] with probability probabilities[x, a, j].

    states         (S, A, J) integers, or (H, S, A, J) when they depend on the step
    probabilities  (S, A, J) or (H, S, A, J); 0 fills up a list that is shorter than J

    Inside a problem states is (S, A, J), each next state once and in ascending order, and probabilities is
    (T, S, A, J): see `mdp/successors.py`.

    >>> states, chances = np.array([[[0, 1]], [[1, 1]]]), np.array([[[0.9, 0.1]], [[1.0, 0.0]]])
    >>> P = es.Successors(states, chances)
    >>> es.FiniteCMDP(P, r=np.zeros((2, 1)), g=-np.ones((2, 1))).dense_P[0, 0]
    array([[0.9, 0.1]])
    """

    states: Any
    probabilities: Any


class Factored(NamedTuple):
    """Transitions as a product of factors: P(x' | x, a) = sum_i phi_i(x, a) mu_i(x'), a linear CMDP.

    phi (S, A, d) or (H, S, A, d) is a distribution over d factors, mu (d, S) or (H, d, S) is where each factor leads.
    Inside a problem both have a step axis T; in a `World`, phi is (T, A, d, S).

    >>> phi = np.array([[[1.0, 0.0], [0.5, 0.5]]])
    >>> P = es.Factored(phi, mu=np.array([[1.0], [1.0]]))
    >>> es.FiniteCMDP(P, r=np.zeros((1, 2)), g=-np.ones((1, 2))).features.shape
    (1, 2, 2)
    """

    phi: Any
    mu: Any


@dataclass(frozen=True, eq=False)
class Noise:
    """Observations that differ from the means.

    reward_on_arrival: (S, A, S) or (H, S, A, S), the reward observed when (x, a) leads to x'. Its mean must be r. With
                       `Successors` (S, A, J) or (H, S, A, J), one for each next state in its lists.
    cost_on_arrival:   the same shape, with a leading axis m for several constraints. Its mean must be g.
    reward_sigma, cost_sigma: standard deviation of the normal noise on observations; cost_sigma may hold one per
                       constraint.

    >>> noise = es.Noise(reward_sigma=0.1, cost_sigma=0.05)
    >>> r, g = np.array([[0.0, 1.0]]), np.array([[-1.0, 0.2]])
    >>> es.FiniteCMDP(np.ones((1, 2, 1)), r, g, noise=noise).noise.cost_sigma
    0.05
    """

    reward_on_arrival: np.ndarray | None = None
    cost_on_arrival: np.ndarray | None = None
    reward_sigma: float = 0.0
    cost_sigma: float | Sequence[float] | np.ndarray = 0.0


@dataclass(frozen=True, eq=False)
class Grid:
    """The drawing of a problem whose states are cells: its rows of text, cell = row * width + column.

    heights: (rows, columns), optional: the shade of each cell.
    cells:   (S,), optional: the cell of each state, where a state is more than a cell (a cell and a velocity); by
             default state x is cell x.
    moves:   (S, A, 2), optional: where each action leads from each state, in cells down and right, where that is more
             than a step to a neighbour.
    """

    rows: tuple[str, ...]
    heights: np.ndarray | None = None
    cells: np.ndarray | None = None
    moves: np.ndarray | None = None

    @property
    def width(self) -> int:
        return len(self.rows[0])

    @property
    def size(self) -> int:
        """The number of cells."""
        return len(self.rows) * self.width

    def cell(self, x: Any) -> Any:
        """The cell of a state, or of an array of states."""
        return x if self.cells is None else self.cells[x]

    def by_cell(self, values: np.ndarray) -> np.ndarray:
        """(rows, columns): the sum of `values` (S,) over the states of each cell."""
        shape = (len(self.rows), self.width)
        if self.cells is None:
            return values.reshape(shape)
        return np.bincount(self.cells, values, self.size).reshape(shape)


@dataclass(frozen=True, eq=False)
class Known:
    """Prior knowledge for the agents that require it; other agents never see it.

    threshold    tau: costs are c = g + tau, and c is linear in the features; one number, or one per constraint
    safe_action  (S,): an action a0(x) for each state with g(x, a0(x)) < 0; the agent also receives this cost
    triples      (S, A, S, d): features of a linear mixture, P(x' | x, a) = <mu, phi(x, a, x')>, and the costs observed
                 on arrival are <gamma, phi(x, a, x')> - tau

    >>> known = es.Known(threshold=0.5, safe_action=np.array([0]))
    >>> es.Known().is_empty, known.is_empty
    (True, False)
    """

    threshold: float | Sequence[float] | np.ndarray = 0.0
    safe_action: np.ndarray | None = None
    triples: np.ndarray | None = None

    @property
    def is_empty(self) -> bool:
        return self.safe_action is None and self.triples is None and not np.any(self.threshold)


@dataclass(frozen=True, eq=False)
class FiniteCMDP:
    """A constrained MDP with finitely many states and actions, as plain arrays of means.

    P         (S, A, S) or (H, S, A, S)   transition probabilities; or lists of next states, `Successors`; or one sparse
              matrix (S, S) of SciPy for each action; or factors, `Factored(phi, mu)`
    r         (S, A) or (H, S, A)         mean reward
    g         (S, A), (m, S, A), (H, S, A) or (m, H, S, A)   mean constraint, safe iff <= 0; with three axes
              the first is the step iff P has a step axis, else the constraint
    start     a state, a distribution over states (floats), or a sequence of states, one per episode (integers)
    horizon   H, the number of steps of an episode
    noise     how observations differ from the means
    features  (S, A, d), optional: phi(x, a) for linear models; the default is one-hot, or the phi of `Factored`
    exempt    (S,) booleans, optional: states that are never entered and need no safe action
    coordinates  named numbers (S, A) or vectors (S, A, d) of every (x, a), optional: inputs of a cost kernel
    kernel    the cost kernel that suits the problem, optional: the default of `cost=gp`
    linear_costs  whether costs are believed to be linear in the features: if not, `cost=auto` counts
    known     prior knowledge for the agents that require it, optional
    scale     g may lie outside [-1, 1] if this is given: True (agents learn from g / max |g|, for each constraint), or
              a positive number, or one for each constraint; violations stay in the units of g

    Rewards may be in any unit: agents learn from (r - low) / (high - low), see `mdp/units.py`.
    Inside a problem P is `Successors` or `Factored`, r has a leading step axis T (1 or H), and g is (m, T, S, A).

    >>> P = np.array([[[1.0, 0.0], [0.2, 0.8]], [[0.0, 1.0], [0.5, 0.5]]])
    >>> r, g = np.array([[0.0, 1.0], [0.5, 2.0]]), np.array([[-1.0, 0.5], [-1.0, -1.0]])
    >>> problem = es.FiniteCMDP(P, r, g, start=0, horizon=3)
    >>> problem.check()
    ()
    >>> problem.states, problem.actions, problem.constraints, problem.stationary
    (2, 2, 1, True)
    >>> problem.sizes
    Sizes(states=2, actions=2, successors=2, horizon=3, constraints=1)
    >>> problem.describe(1), problem.describe_action(0), problem.dead_ends is None
    ('state 1', 'action 0', True)
    """

    P: Any
    r: np.ndarray
    g: np.ndarray
    start: Any = 0
    horizon: int = 15
    noise: Noise = field(default_factory=Noise)
    features: np.ndarray | None = None
    name: str = "problem"
    state_names: tuple[str, ...] | None = None
    action_names: tuple[str, ...] | None = None
    exempt: Any = None
    grid: Grid | None = None
    remarks: tuple[str, ...] = ()
    coordinates: Mapping[str, Any] = field(default_factory=dict)
    kernel: str | None = None
    linear_costs: bool = True
    known: Known = field(default_factory=Known)
    scale: Any = None
    _stepped: bool = field(init=False, repr=False, default=False)  # whether P was given with a step axis

    def __post_init__(self) -> None:
        from everystep.mdp import validation

        validation.normalise(self, lambda name, value: object.__setattr__(self, name, value))

    def check(self, cap: float | None = None) -> tuple[str, ...]:
        """Raise an error for the first mistake; return remarks on what is unusual but allowed.

        States without a safe action are allowed: a remark reports from how many states violations cannot be avoided,
        and the least violation of an episode. With `cap`, also check that Q-values clipped at `cap` can represent
        the unconstrained optimum.
        """
        from everystep.mdp import validation

        return validation.check(self, cap)

    @cached_property
    def world(self) -> World:
        """The same problem, compressed to successor lists, as NumPy arrays; `units` holds what an agent observes."""
        from everystep.mdp import units

        return self.compressed._replace(units=units.observed(self, self.compressed))

    @cached_property
    def compressed(self) -> World:
        """`world` without its units."""
        from everystep.mdp.world import compress

        return compress(self)

    @cached_property
    def reward_range(self) -> RewardRange:
        """The range of rewards that an episode can observe, which agents learn in units of."""
        from everystep.mdp import units

        return units.reward_range(self)

    @cached_property
    def in_units(self) -> FiniteCMDP:
        """The problem as an agent sees it: rewards in [0, 1], constraints in [-1, 1].

        >>> r, g = np.array([[0.0], [10.0]]), np.array([[-5.0], [2.0]])
        >>> problem = es.FiniteCMDP(np.full((2, 1, 2), 0.5), r, g, scale=True)
        >>> problem.in_units.r.max().item(), problem.in_units.g.max().item()
        (1.0, 0.4)
        >>> problem.reward_range.span
        10.0
        """
        from everystep.mdp import units

        return units.in_units(self)

    @cached_property
    def reach(self) -> tuple[Reach, tuple[Span, ...]] | None:
        """The order in which states can be reached, and the spans of steps that planning in it uses: `mdp/reach.py`."""
        from everystep.mdp import reach

        return reach.reach(self)

    @cached_property
    def dead_ends(self) -> DeadEnds | None:
        """Where violations cannot be avoided any more; None if every state has a safe action: `mdp/planner.py`."""
        from everystep.mdp import planner

        return planner.dead_ends(self)

    @property
    def states(self) -> int:
        return int(self.r.shape[1])

    @property
    def actions(self) -> int:
        return int(self.r.shape[2])

    @property
    def constraints(self) -> int:
        return int(self.g.shape[0])

    @property
    def sizes(self) -> Sizes:
        from everystep.mdp.world import Sizes

        P = self.world.P
        J = self.states if isinstance(P, Factored) else P.shape[2]
        return Sizes(self.states, self.actions, J, self.horizon, self.constraints)

    @property
    def stationary(self) -> bool:
        """Whether no array has a step axis."""
        transitions = self.P if isinstance(self.P, Factored) else (self.P.probabilities,)
        return {len(self.r), self.g.shape[1], *map(len, transitions)} == {1}

    @property
    def dense_P(self) -> np.ndarray:
        """P as a table (T, S, A, S), computed at every call; that of a large problem does not fit into memory.

        >>> problem = es.problems.streaming()
        >>> problem.dense_P.shape, problem.world.r.shape, problem.compressed.r.shape
        ((1, 6, 2, 6), (1, 2, 6), (1, 2, 6))
        >>> sorted(problem.points), problem.reward_on_arrival is None, problem.cost_on_arrival.shape
        (['action', 'state'], True, (1, 1, 6, 2, 3))
        >>> problem.arrival_spread, problem.reach is None
        (0.5, True)
        """
        from everystep.mdp import successors

        return np.asarray(self.P.phi @ self.P.mu[:, None]) if isinstance(self.P, Factored) else successors.table(self.P)

    @property
    def points(self) -> dict[str, np.ndarray]:
        """Every input that a cost kernel may use, (S, A, d) each: `state`, `action`, `features`, the coordinates."""
        x, a = np.meshgrid(np.arange(float(self.states)), np.arange(float(self.actions)), indexing="ij")
        points = {"state": x[..., None], "action": a[..., None]}
        return points | ({} if self.features is None else {"features": self.features}) | dict(self.coordinates)

    @property
    def reward_on_arrival(self) -> np.ndarray | None:
        """The reward observed at each next state in the lists of P, (T, S, A, J)."""
        return self.noise.reward_on_arrival

    @property
    def cost_on_arrival(self) -> np.ndarray | None:
        """The costs observed at each next state in the lists of P, (m, T, S, A, J)."""
        return None if self.noise.cost_on_arrival is None else np.asarray(self.noise.cost_on_arrival)

    @property
    def arrival_spread(self) -> float:
        """Half the largest range of the costs observed on arrival from one (x, a): their sub-Gaussian parameter."""
        if self.cost_on_arrival is None or isinstance(self.P, Factored):
            return 0.0
        possible = self.P.probabilities > 0
        high = np.where(possible, self.cost_on_arrival, -np.inf).max(-1)
        low = np.where(possible, self.cost_on_arrival, np.inf).min(-1)
        return float((high - low).max() / 2)

    def describe(self, x: int) -> str:
        """The name of state x."""
        x = number_below("state", x, self.states)
        return self.state_names[x] if self.state_names else f"state {x}"

    def describe_action(self, a: int) -> str:
        """The name of action a."""
        a = number_below("action", a, self.actions)
        return self.action_names[a] if self.action_names else f"action {a}"

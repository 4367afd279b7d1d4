"""The prior knowledge of LSVI-NEW: the graph of triples, the seed subgraph, and one triple with its exact cost."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from everystep.agents.resolve.context import Context
from everystep.agents.resolve.known_safe import known_safe_action, known_threshold
from everystep.errors import EverystepError
from everystep.mdp.cmdp import Factored


@dataclass(frozen=True, eq=False)
class TripleGraph:
    """The features of all triples (x, a, x'), their supports, and the subgraph in which the known safe actions stay."""

    context: Context

    def check(self) -> None:
        """Raise an error if the problem lacks something that the agent requires."""
        problem, agent = self.context.problem, self.context.agent
        if problem.known.triples is None:
            raise EverystepError(
                f"{agent} requires the features of all triples (x, a, x'), and the problem '{problem.name}' has none; "
                "give FiniteCMDP(known=Known(triples=...)), an array (S, A, S, d)."
            )
        starts = problem.start if np.issubdtype(problem.start.dtype, np.integer) else np.flatnonzero(problem.start)
        if outside := [int(x) for x in starts if not self.seed_states[x]]:
            action = problem.describe_action(int(self.safe_action[outside[0]]))
            raise EverystepError(
                f"{agent} requires a subgraph that its known safe actions never leave, but {action} in "
                f"{problem.describe(outside[0])}, where an episode starts, may lead to a cost above the threshold "
                "then or later; give a safe_action whose next states are all safe."
            )
        if not self._usable.any((1, 2, 3)).all():
            raise EverystepError(
                f"{agent} requires a triple of the seed whose features are not all zero and which is possible "
                f"at every step, but the problem '{problem.name}' has none; give triples of safe actions such features."
            )

    @cached_property
    def safe_action(self) -> np.ndarray:
        return known_safe_action(self.context)

    @cached_property
    def threshold(self) -> np.ndarray:
        return known_threshold(self.context)

    @property
    def d(self) -> int:
        return int(np.asarray(self.context.problem.known.triples).shape[-1])

    @cached_property
    def support(self) -> np.ndarray:
        """Which successors may follow (x, a), (T, A, J, S)."""
        P = self.context.problem.world.P
        return np.asarray((np.einsum("tads,tdy->tays", P.phi, P.mu) if isinstance(P, Factored) else P) > 0)

    @property
    def ever(self) -> np.ndarray:
        """Which successors may follow (x, a) at some step, (A, J, S)."""
        return np.asarray(self.support.any(0))

    @cached_property
    def triples(self) -> np.ndarray:
        """phi(x, a, x') at the successors, 0 outside the support, (A, d, J, S)."""
        phi = np.asarray(self.context.problem.known.triples).transpose(1, 3, 2, 0)
        if (successors := self.context.problem.world.successors) is not None:
            phi = np.take_along_axis(phi, np.asarray(successors, np.int64)[None, None], 2)
        return np.where(self.ever[:, None], phi, 0.0)

    @cached_property
    def excess(self) -> np.ndarray:
        """The true c - tau of every triple, (T, m, A, J, S): the cost on arrival, without noise."""
        world = self.context.problem.world
        if world.cost_seen is not None:
            return np.asarray(world.cost_seen)
        g = np.asarray(world.g)[:, :, :, None]
        return np.broadcast_to(g, (*g.shape[:3], self.support.shape[2], g.shape[-1]))

    @property
    def safe(self) -> np.ndarray:
        """The known safe actions, one-hot, (A, S)."""
        return np.asarray(np.eye(self.context.problem.actions, dtype=bool)[self.safe_action].T)

    @cached_property
    def seed_states(self) -> np.ndarray:
        """The largest set of states where the known safe actions are safe for all triples and that they never leave."""
        x, successors = np.arange(self.context.problem.states), self.context.problem.world.successors
        at = np.tile(x, (len(x), 1)) if successors is None else np.asarray(successors).T
        follows = self.ever[self.safe_action, :, x]  # (S, J)
        worst = np.where(self.support[:, None], self.excess, -np.inf).max((0, 1, 3))  # over steps, constraints, x'
        inside = (worst[self.safe_action, x] <= 0) & ~self.context.problem.exempt
        while True:
            closed = inside & (inside[at] | ~follows).all(1)
            if (closed == inside).all():
                return np.asarray(inside)
            inside = closed

    @property
    def seed(self) -> np.ndarray:
        """The known safe actions of the seed's states, (A, S)."""
        return np.asarray(self.safe & self.seed_states)

    @cached_property
    def _usable(self) -> np.ndarray:
        """Triples of the seed that may be the known one, (T, A, J, S)."""
        T = len(self.excess)
        possible = self.support if len(self.support) == T else self.support.all(0, keepdims=True)
        usable = possible & self.seed[:, None] & (np.linalg.norm(self.triples, axis=1) > 0)
        return np.broadcast_to(usable, (T, *usable.shape[1:]))

    @cached_property
    def known_triple(self) -> tuple[np.ndarray, np.ndarray]:
        """phi0 (T, d) and c0 - tau (T, m) of the seed's safest triple, at each step if costs depend on it."""
        T, m = self.excess.shape[:2]
        which = np.where(self._usable, self.excess.max(1), np.inf).reshape(T, -1).argmin(1)
        phi0 = np.moveaxis(self.triples, 1, -1).reshape(-1, self.d)[which]
        return phi0, np.take_along_axis(self.excess.reshape(T, m, -1), which[:, None, None], 2)[..., 0]

    def projections(self) -> tuple[np.ndarray, np.ndarray]:
        """perp(phi), (T, A, d, J, S), and along = <phi, p> / ||phi0||, (T, A, J, S)."""
        phi0, _ = self.known_triple
        length = np.linalg.norm(phi0, axis=-1, keepdims=True)
        p = phi0 / length
        on_p = np.einsum("td,adjs->tajs", p, self.triples)
        perp = self.triples[None] - on_p[:, :, None] * p[:, None, :, None, None]
        return perp, on_p / length[:, :, None, None]

    @property
    def longest(self) -> float:
        """D_phi."""
        return float(np.linalg.norm(self.triples, axis=1).max())

    @property
    def lambda0(self) -> float:
        """How well the seed's triples identify costs: the smallest eigenvalue of their mean perp(phi) perp(phi)^T."""
        perp, _ = self.projections()
        seed = (self.ever & self.seed[:, None]).reshape(-1)
        rows = np.moveaxis(perp, 2, -1).reshape(len(perp), -1, self.d)[:, seed]
        spectra = np.linalg.eigvalsh(np.einsum("tnd,tne->tde", rows, rows) / rows.shape[1])
        return float(spectra[:, 1].min()) if self.d > 1 else 0.0  # the first, 0, belongs to the known direction

    @property
    def spread(self) -> float:
        """max ||phi(x, a, x') - phi(x, a, x'')|| over pairs in one support."""
        support = self.ever
        widest = 0.0
        for j in range(support.shape[1]):
            apart = np.linalg.norm(self.triples - self.triples[:, :, j : j + 1], axis=1)
            widest = max(widest, float(np.where(support & support[:, j : j + 1], apart, 0).max()))
        return widest

    @cached_property
    def is_mixture(self) -> bool:
        """Whether transitions are linear in the features of triples, with one parameter for all steps."""
        world = self.context.problem.world
        if isinstance(world.P, Factored):
            return True  # not multiplied out to check
        X = np.moveaxis(self.triples, 1, -1)[self.ever]
        P = np.moveaxis(np.asarray(world.P), 0, -1)[self.ever]
        mu = np.linalg.lstsq(X, P.mean(1), rcond=None)[0]
        return bool(np.abs((X @ mu)[:, None] - P).max() <= 1e-9)

"""The value model of an agent on a problem."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from everystep import kernels
from everystep.agents.model_syntax import AUTO, InKernel, Value
from everystep.agents.resolve.context import Context, custom_kernels
from everystep.errors import EverystepError
from everystep.lsvi import radii
from everystep.lsvi.regression.kernel_points import Points, check_kernel
from everystep.lsvi.regression.linalg import OnDemand, Watched
from everystep.lsvi.values.counts import Counts
from everystep.lsvi.values.kernel import KernelValues
from everystep.lsvi.values.linear import Linear
from everystep.mdp.cmdp import Factored, FiniteCMDP

ValueModel = Counts | Linear | KernelValues
MOST_COUNTS = 5e7  # numbers that the count model of one seed may keep: 0.4 GB


@dataclass(frozen=True, eq=False)
class ResolvedValues:
    """A value model with every `auto` decided, checked on the problem."""

    context: Context
    choice: Value
    factor: np.ndarray | None = None  # (T, 1, S) on the width

    @classmethod
    def resolve(cls, context: Context, factor: np.ndarray | None = None) -> ResolvedValues:
        problem, agent, values, phi = context.problem, context.agent, context.values, context.phi
        choice = _choice(problem, agent, values["value"], phi)
        radius = values["radius"]
        if isinstance(choice, InKernel) and radius != "tuned":
            raise EverystepError(
                f"setting radius of {agent} is {radius}, but its values are in the space of a kernel, where no printed "
                "radius applies; set radius to tuned (radius_cost may differ)."
            )
        counted = problem.actions * problem.states**2 * (1 if values["share_values"] else problem.horizon)
        if choice != "linear" and isinstance(problem.P, Factored) and counted > MOST_COUNTS:
            raise EverystepError(
                f"setting value of {agent} is {choice}, but any of the {problem.states} states of '{problem.name}' may "
                f"follow any other, so {counted:.1e} counts would be stored; leave features at auto, or give an array."
            )
        if radius == "coordinate" and choice != "counts":
            raise EverystepError(
                f"setting radius of {agent} is coordinate, which needs one-hot features; choose tuned or paper."
            )
        return cls(context, choice, factor)

    @property
    def kernel(self) -> kernels.Kernel | None:
        return self.choice.kernel if isinstance(self.choice, InKernel) else None

    def to_json(self) -> dict[str, Any]:
        """The setting decided here."""
        return {"value": str(self.choice) + custom_kernels(self.context.problem, [self.kernel] if self.kernel else [])}

    def remarks(self) -> tuple[str, ...]:
        """What a reader of the results should know about the value model."""
        if self.kernel is None or not kernels.looks_at(self.kernel) & {"landing", "move", kernels.ALL}:
            return ()
        return (f"the value kernel {self.kernel} tells {self.context.agent} where each action aims; counts do not.",)

    longest = 1.0  # an upper bound on ||phi(x, a)||

    @property
    def d(self) -> float:
        """The number of features; for a kernel, the number of points it distinguishes."""
        if self.kernel is not None:
            return float(len(Points.of(self.context.problem, self.kernel).gram))
        phi = self.context.phi
        if phi is None or self.choice == "counts":
            return float(self.context.problem.states * self.context.problem.actions)
        return float(phi.shape[-1])

    def radius(self, beta: float, highest: float) -> radii.Tuned | radii.PaperValue | radii.CoordinateValue:
        """The width of a regression on numbers from 0 to `highest` at the next state."""
        s, H, K = self.context.values, float(self.context.problem.horizon), float(self.context.episodes)
        if s["radius"] == "tuned":
            return radii.Tuned(beta)
        if s["radius"] == "paper":
            return radii.PaperValue(beta, self.d, H, K, s["p"])
        return radii.CoordinateValue(beta, s["lam"], highest, math.log(self.d * H * K / s["p"]))

    def model(self) -> ValueModel:
        s = self.context.values
        radius: radii.Radius = self.radius(s["beta"], self.context.cap)
        if self.factor is not None:
            radius = radii.Multiplied(self.radius(s["beta"], self.context.cap), jnp.asarray(self.factor))
        common = (radius, s["lam"], self.context.cap)
        if self.kernel is not None:
            points = Points.of(self.context.problem, self.kernel)
            tables = (jnp.asarray(points.gram), jnp.asarray(points.which))
            return KernelValues(*common, self.context.problem.world.successors, *tables, self.context.lowest)
        if self.choice == "counts":
            return Counts(*common, self.context.problem.world.successors)
        assert self.context.phi is not None
        norms = Watched() if s["switch"] == "none" else OnDemand()
        return Linear(*common, jnp.asarray(self.context.phi.swapaxes(0, 1)), norms, self.context.lowest)


def _choice(problem: FiniteCMDP, agent: str, value: Value, phi: np.ndarray | None) -> Value:
    """The value model with `auto` and its kernel decided and checked."""
    where = f"setting value of {agent} is {value}"
    if value == AUTO:
        return "counts" if phi is None else "linear"
    if value == "linear" and phi is None:
        raise EverystepError(f"{where}, but the problem '{problem.name}' has no features; give some, or counts.")
    if isinstance(value, InKernel):
        if value.kernel is None and problem.features is None:
            raise EverystepError(
                f"{where}, but the problem '{problem.name}' has no features for a linear kernel; give a kernel, as in "
                "kernel(rbf(2, on=position)*categorical)."
            )
        kernel = kernels.Linear(on="features") if value.kernel is None else value.kernel
        check_kernel(problem, where, kernel)
        return InKernel(kernel)
    return value

"""The best distribution over actions whose expected cost is certified safe: a small cone program for every state.

    maximise <Q, theta>   over distributions theta   with   <mean_i, theta> + ||U theta|| <= 0   for every constraint i

mean_i(a) is the estimated cost and ||U theta|| its width at E_theta[phi], so width(a) = ||U_a||. A known safe action a0
has U_a0 = 0 and mean_i(a0) < 0: theta = a0 is strictly feasible, and so is a0 with a little of every other action.

With x(a) = theta(a) for a != a0, theta(a0) the remainder, and every constraint divided by -mean_i(a0), this is

    maximise <q, x>   with   x >= 0,   sum x <= 1,   <c_i, x> + b_i ||U x|| <= 1,   q = Q - Q(a0)                  (P)

`by_interior_point` solves (P) for any U. `by_root` is the closed form for one constraint and a diagonal U (one-hot
features): in the multiplier 1 / s of the constraint, x = u y with y(a) = [s q(a) - c(a)]_+ / width(a)^2, where s solves
||U y|| = 1 and u makes the constraint tight. It holds unless a0 has weight 0 or the constraint does not bind; `best`
then uses the other method. The result is feasible whatever the last digits of the solver are: it is scaled towards a0
where necessary.

Arrays have states last: Q (A, S), mean (m, A, S), U (r, A, S), diagonal U as its width (A, S), a0 one-hot (A, S).
No LAPACK: programs that factor batches of matrices at the same time deadlock (see `regression/linalg.py`), and many
small systems side by side, one number per state, are solved as fast.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

TOLERANCE = 1e-10  # of the duality gap, relative to the largest |Q - Q(a0)|
MOST_ITERATIONS = 50  # 8 to 20 are usual
GROUP = 8  # states solved by the interior-point method side by side
NEWTON = 10  # steps of `by_root`, each at least squaring a small error; five are usual
TINY = 1e-300

Rows = Float[Array, "A S"]


class Scaled(NamedTuple):
    """The data of (P): q has entries of at most 1 in size."""

    q: Rows
    c: Float[Array, "m A S"]
    b: Float[Array, "m S"]
    possible: Bool[Array, " S"]  # whether the known mean_i(a0) are all below 0


def best(
    Q: Rows,
    mean: Float[Array, "m A S"],
    U: Array,
    safe: Bool[Array, "A S"],
    needed: Bool[Array, " S"] | None = None,
) -> Rows:
    """The best mixture at every state, or where it is `needed`; U is (r, A, S), or the widths (A, S) on its diagonal.

    The interior-point method is run for a few states at a time, until none is left.
    """
    data = scaled(Q, mean, safe)
    left = jnp.ones(Q.shape[1], bool) if needed is None else needed
    x = jnp.zeros_like(Q)
    if U.ndim == 2 and len(mean) == 1:
        x, solved = by_root(data, U, safe)
        left &= ~solved
    group = min(GROUP, Q.shape[1])

    def some(loop: tuple[Rows, Array]) -> tuple[Rows, Array]:
        x, left = loop
        names = jnp.nonzero(left, size=group, fill_value=len(left))[0]
        theirs, own = jax.tree.map(lambda leaf: leaf[..., names], (data, U))
        own = own if U.ndim == 3 else own[:, None] * jnp.eye(len(Q))[:, :, None]
        found = by_interior_point(theirs, own).x
        return x.at[:, names].set(found, mode="drop"), left.at[names].set(False, mode="drop")

    x, _ = lax.while_loop(lambda loop: loop[1].any(), some, (x, left))
    return finished(x, data, U, safe)


def scaled(Q: Rows, mean: Float[Array, "m A S"], safe: Bool[Array, "A S"]) -> Scaled:
    q = Q - at(safe, Q)[None]
    room = -jnp.stack([at(safe, rows) for rows in mean])  # (m, S)
    possible = (room > 0).all(0)
    b = 1 / jnp.where(room > 0, room, 1.0)
    most = jnp.abs(q).max(0)
    return Scaled(q / jnp.where(most > 0, most, 1.0)[None], (mean + room[:, None]) * b[:, None], b, possible)


def at(safe: Bool[Array, "A S"], rows: Rows) -> Float[Array, " S"]:
    """The entry of the safe action."""
    return jnp.where(safe, rows, 0.0).sum(0)


def norm(U: Array, x: Rows) -> Float[Array, " S"]:
    """||U x||, of a full or a diagonal U."""
    return jnp.sqrt(((U * x if U.ndim == 2 else times(U, x)) ** 2).sum(0))


def finished(x: Rows, data: Scaled, U: Array, safe: Bool[Array, "A S"]) -> Rows:
    """theta from a solution of (P), scaled towards a0 so that it is certainly feasible."""
    x = jnp.where(safe | ~data.possible[None], 0.0, jnp.maximum(x, 0.0))
    used = jnp.stack([(c * x).sum(0) + b * norm(U, x) for c, b in zip(data.c, data.b, strict=True)]).max(0)
    x = x / jnp.maximum(jnp.maximum(used, x.sum(0)), 1.0)[None]
    return jnp.where(safe, jnp.maximum(1 - x.sum(0), 0.0)[None], x)


# --- one constraint, one-hot features --------------------------------------------------------------------------------
def by_root(data: Scaled, width: Rows, safe: Bool[Array, "A S"]) -> tuple[Rows, Bool[Array, " S"]]:
    """(x, solved) of the closed form: one root of a convex function of s, by Newton's method from the right.

    psi(s) = ||U y(s)|| is the length of the positive part of an affine function, so convex; with psi(0) < 1 and some
    q(a) > 0 it has one root of psi = 1, and Newton's steps from the right of it never pass it.
    """
    q, c, b = data.q, data.c[0], data.b[0]
    other = ~safe
    w = jnp.where(other, width * b[None], 1.0)
    part = lambda s: jnp.where(other, jnp.maximum(s[None] * q - c, 0.0), 0.0) / w
    wanted = other & (q > 0)
    alone = jnp.where(wanted, (c + w) / jnp.where(wanted, q, 1.0), jnp.inf).min(0)  # root if a were the only action
    idle = ~wanted.any(0)
    s = jnp.where(idle, 0.0, alone)

    def newton(_: Array, s: Array) -> Array:
        v = part(s)
        psi = jnp.sqrt((v**2).sum(0))
        slope = (v * q / w).sum(0) / jnp.maximum(psi, TINY)
        return jnp.where(slope > 0, s - (psi - 1) / jnp.where(slope > 0, slope, 1.0), s)

    s = lax.fori_loop(0, NEWTON, newton, s)
    y = part(s) / w
    grows = 1 + (c * y).sum(0)
    x = jnp.where(idle[None], 0.0, y / jnp.where(grows > 0, grows, 1.0)[None])
    start = jnp.sqrt((part(jnp.zeros_like(s)) ** 2).sum(0))
    return x, idle | ((start < 1) & (grows > 0) & (s > 0) & (x.sum(0) <= 1))


# --- any features, any number of constraints -------------------------------------------------------------------------
class Cone(NamedTuple):
    """A point of the product of cones, slack or multiplier: of x >= 0, of sum x <= 1, and of every constraint.

    The last is (top, rest) with top >= ||rest||.
    """

    x: Rows
    e: Float[Array, " S"]
    top: Float[Array, "m S"]
    rest: Float[Array, "m r S"]


class Iterate(NamedTuple):
    """x, its slacks, the multipliers, the duality gap <s, z>, and the states that are still moving."""

    x: Rows
    s: Cone
    z: Cone
    gap: Float[Array, " S"]
    moving: Bool[Array, " S"]
    number: Int[Array, ""]


class Program(NamedTuple):
    """(P) as: minimise -<q, x> with slack s = h - G x in the cone."""

    q: Rows
    c: Float[Array, "m A S"]
    spread: Float[Array, "m r A S"]  # b_i U
    gram: Float[Array, "m A A S"]  # spread^T spread, computed once

    @classmethod
    def of(cls, data: Scaled, U: Float[Array, "r A S"]) -> Program:
        square = (U[:, :, None] * U[:, None]).sum(0)
        return cls(data.q, data.c, data.b[:, None, None] * U[None], (data.b**2)[:, None, None] * square[None])

    def change(self, dx: Rows) -> Cone:
        """-G dx: how slacks change with x."""
        along = jnp.stack([times(rows, dx) for rows in self.spread])
        return Cone(dx, -dx.sum(0), -(self.c * dx[None]).sum(1), along)

    def pulled(self, v: Cone) -> Rows:
        """G^T v."""
        ends = self.c * v.top[:, None] - (self.spread * v.rest[:, :, None]).sum(1)
        return v.e[None] - v.x + ends.sum(0)

    def bent(self, scaling: Scaling) -> Float[Array, "A A S"]:
        """G^T W^-2 G."""
        outer = lambda row: row[:, None] * row[None]
        matrix = jnp.eye(len(self.q))[:, :, None] / (scaling.x**2)[:, None] + (1 / scaling.e**2)[None, None]
        top, rest = scaling.point
        for i, c in enumerate(self.c):
            across = c * top[i][None] + (self.spread[i] * rest[i][:, None]).sum(0)
            matrix += (2 * outer(across) - outer(c) + self.gram[i]) / (scaling.eta[i] ** 2)[None, None]
        return matrix

    def start(self) -> Iterate:
        """Strictly feasible on both sides: a little of every action, multipliers that leave every price positive."""
        A = len(self.q)
        ones = jnp.ones_like(self.q)
        used = self.c.sum(1) + jnp.sqrt((self.spread.sum(2) ** 2).sum(1))
        x = 0.5 * ones / jnp.maximum(used.max(0), float(A))[None]
        d = self.change(x)
        s = Cone(x, 1 + d.e, 1 + d.top, d.rest)
        top = 1 / (1 + jnp.abs(self.c).max(1))
        below = self.q - (self.c * top[:, None]).sum(0)
        e = jnp.maximum(below.max(0), 0.0) + 1
        z = Cone(e[None] - below, e, top, jnp.zeros_like(d.rest))
        return Iterate(x, s, z, inner(s, z), jnp.ones(e.shape, bool), jnp.int32(0))


def by_interior_point(data: Scaled, U: Float[Array, "r A S"]) -> Iterate:
    """(P) by a primal-dual path-following method with Nesterov and Todd's scaling and Mehrotra's corrector.

    Both sides start strictly feasible and stay so, hence <s, z> is the exact duality gap. A state whose gap is closed
    no longer moves, and the loop ends with the last of them.
    """
    program = Program.of(data, U)
    degree = len(data.q) + 1 + len(data.c)

    def step(it: Iterate) -> Iterate:
        scaling = Scaling.of(it.s, it.z)
        lam = scaling.times(it.z)
        factors = factored(program.bent(scaling))
        astray = program.q - program.pulled(it.z)  # by rounding

        def direction(u: Cone) -> tuple[Rows, Cone, Cone]:
            """(dx, ds, dz) with W dz + W^-1 ds = u, ds = -G dx and G^T dz = q - G^T z."""
            dx = solved(factors, astray - program.pulled(scaling.undone(u)))
            ds = program.change(dx)
            return dx, ds, scaling.undone(plus(u, scaling.undone(ds), -1.0))

        _, ds, dz = direction(jax.tree.map(jnp.negative, lam))
        reach = jnp.minimum(jnp.minimum(room(it.s, ds), room(it.z, dz)), 1.0)
        left = plus(product(lam, lam), product(scaling.undone(ds), scaling.times(dz)), 1.0)
        centre = (1 - reach) ** 3 * it.gap / degree
        goal = Cone(centre[None] - left.x, centre - left.e, centre[None] - left.top, -left.rest)
        dx, ds, dz = direction(quotient(lam, goal))
        length = jnp.minimum(0.995 * jnp.minimum(room(it.s, ds), room(it.z, dz)), 1.0)
        s, z = plus(it.s, ds, length), plus(it.z, dz, length)
        gap = inner(s, z)
        moves = it.moving & (gap < it.gap) & inside(s) & inside(z)
        kept = lambda new, old: jax.tree.map(lambda n, o: jnp.where(like(moves, n), n, o), new, old)
        gap = kept(gap, it.gap)
        return Iterate(
            kept(it.x + length[None] * dx, it.x),
            kept(s, it.s),
            kept(z, it.z),
            gap,
            moves & (gap > TOLERANCE),
            it.number + 1,
        )

    unfinished = lambda it: it.moving.any() & (it.number < MOST_ITERATIONS)
    return lax.while_loop(unfinished, step, program.start())


class Scaling(NamedTuple):
    """W with W z = W^-1 s: diagonal for the inequalities, eta (2 v v^T - J) for each constraint, J = diag(1, -1, ...).

    `point` is the direction (top, rest) by which W^2 = eta^2 (2 point point^T - J).
    """

    x: Rows
    e: Float[Array, " S"]
    eta: Float[Array, "m S"]
    point: tuple[Float[Array, "m S"], Float[Array, "m r S"]]
    v: tuple[Float[Array, "m S"], Float[Array, "m r S"]]

    @classmethod
    def of(cls, s: Cone, z: Cone) -> Scaling:
        s_len, z_len = jnp.sqrt(depth(s)), jnp.sqrt(depth(z))
        s_top, s_rest = s.top / s_len, s.rest / s_len[:, None]
        z_top, z_rest = z.top / z_len, z.rest / z_len[:, None]
        gamma = jnp.sqrt((1 + s_top * z_top + (s_rest * z_rest).sum(1)) / 2)
        top, rest = (s_top + z_top) / (2 * gamma), (s_rest - z_rest) / (2 * gamma[:, None])
        root = jnp.sqrt(2 * (top + 1))
        v = ((top + 1) / root, rest / root[:, None])
        return cls(jnp.sqrt(s.x / z.x), jnp.sqrt(s.e / z.e), jnp.sqrt(s_len / z_len), (top, rest), v)

    def times(self, u: Cone) -> Cone:
        """W u."""
        along = 2 * (self.v[0] * u.top + (self.v[1] * u.rest).sum(1))
        top, rest = along * self.v[0] - u.top, along[:, None] * self.v[1] + u.rest
        return Cone(self.x * u.x, self.e * u.e, self.eta * top, self.eta[:, None] * rest)

    def undone(self, u: Cone) -> Cone:
        """W^-1 u."""
        along = 2 * (self.v[0] * u.top - (self.v[1] * u.rest).sum(1))
        top, rest = along * self.v[0] - u.top, u.rest - along[:, None] * self.v[1]
        return Cone(u.x / self.x, u.e / self.e, top / self.eta, rest / self.eta[:, None])


def factored(matrix: Float[Array, "A A S"]) -> list[tuple[Array, Array]]:
    """The columns of L and the pivots D of L D L^T, by elimination; positive definite matrices need no exchanges."""
    factors = []
    while len(matrix):
        pivot, column = matrix[0, 0], matrix[1:, 0] / matrix[0, 0][None]
        factors.append((pivot, column))
        matrix = matrix[1:, 1:] - column[:, None] * matrix[0, 1:][None]
    return factors


def solved(factors: list[tuple[Array, Array]], right: Rows) -> Rows:
    """(L D L^T)^-1 right."""
    done = []
    for pivot, column in factors:
        done.append(right[0] / pivot)
        right = right[1:] - column * right[:1]
    x = jnp.zeros_like(right)
    for (_, column), y in zip(factors[::-1], done[::-1], strict=True):
        x = jnp.concatenate([(y - (column * x).sum(0))[None], x])
    return x


def times(U: Float[Array, "r A S"], x: Rows) -> Float[Array, "r S"]:
    return (U * x[None]).sum(1)


def plus(u: Cone, v: Cone, length: Array | float) -> Cone:
    """u + length v."""
    return jax.tree.map(lambda a, b: a + like(length, b) * b, u, v)


def like(number: Array | float, array: Array) -> Array:
    """One number per state, or one for all, with as many axes as `array`."""
    return jnp.asarray(number).reshape((1,) * (array.ndim - 1) + (-1,))


def inner(u: Cone, v: Cone) -> Float[Array, " S"]:
    products = jax.tree.map(jnp.multiply, u, v)
    return products.x.sum(0) + products.e + products.top.sum(0) + products.rest.sum((0, 1))


def depth(u: Cone) -> Float[Array, "m S"]:
    """top^2 - ||rest||^2 of each constraint, with as little cancellation as possible."""
    rest = jnp.sqrt((u.rest**2).sum(1))
    return (u.top - rest) * (u.top + rest)


def inside(u: Cone) -> Bool[Array, " S"]:
    return (u.x > 0).all(0) & (u.e > 0) & ((u.top > 0) & (depth(u) > 0)).all(0)


def product(u: Cone, v: Cone) -> Cone:
    """The Jordan product: by entries, and (<u, v>, u_top v_rest + v_top u_rest) of each constraint."""
    top = u.top * v.top + (u.rest * v.rest).sum(1)
    return Cone(u.x * v.x, u.e * v.e, top, u.top[:, None] * v.rest + v.top[:, None] * u.rest)


def quotient(u: Cone, w: Cone) -> Cone:
    """v with product(u, v) = w."""
    top = (u.top * w.top - (u.rest * w.rest).sum(1)) / depth(u)
    return Cone(w.x / u.x, w.e / u.e, top, (w.rest - top[:, None] * u.rest) / u.top[:, None])


def room(u: Cone, d: Cone) -> Float[Array, " S"]:
    """The largest step from u along d that stays in the cone."""
    ratio = lambda a, b: jnp.where(b < 0, -a / jnp.where(b < 0, b, 1.0), jnp.inf)
    long = jnp.sqrt((d.rest**2).sum(1))
    bend = (d.top - long) * (d.top + long)
    lean = u.top * d.top - (u.rest * d.rest).sum(1)
    under = lean**2 - bend * depth(u)
    steep = jnp.sqrt(jnp.maximum(under, 0.0)) - lean
    leaves = (d.top < long) & (steep > 0)  # a ray leaves the cone unless its direction lies in it
    bent = jnp.where(leaves, depth(u) / jnp.where(leaves, steep, 1.0), jnp.inf)
    return jnp.minimum(jnp.minimum(ratio(u.x, d.x).min(0), ratio(u.e, d.e)), bent.min(0))

"""The named agents: each is one expression that composes four parts.

value model   counts (one-hot features) | linear (the problem's features) | in the space of a kernel | linear mixture
cost model    counts | linear | Gaussian process, or one of these for each constraint
              | corrected by a known safe action | on features of triples
penalty       rectified with a floor | virtual queue | none
choice        penalised, which `react` makes again at every step | greedy | uniform
              | safe set | safe mixture | safe graph
"""

from __future__ import annotations

from typing import Any

from everystep import kernels
from everystep.agents.model_syntax import InKernel
from everystep.agents.registry import Parts, register
from everystep.agents.settings import (
    AHEAD_SETTINGS,
    COST_SETTINGS,
    MIXTURE_SETTINGS,
    SAFE_SETTINGS,
    SWITCH,
    VALUE_SETTINGS,
)
from everystep.errors import EverystepError
from everystep.lsvi.algorithm import Agent
from everystep.lsvi.choices.basic import Greedy, Uniform
from everystep.lsvi.choices.safe import SafeSet
from everystep.lsvi.costs.gp import GP
from everystep.lsvi.penalties import Fixed, NoPenalty, Rectified, VirtualQueue
from everystep.mdp.cmdp import FiniteCMDP

OVERRIDING: float = 1e6  # a price that no Q outweighs, for harm of at least the tie margin of scores
UPPER_END: float = -1.0  # optimism of agents that admit an action only if the upper end of its cost interval is safe


@register(
    "lsvi-ae",
    title="LSVI-AE",
    colour="#0072B2",
    summary="optimistic values and costs, a growing price on violations",
    settings=(*VALUE_SETTINGS, *COST_SETTINGS, "floor", "rectify"),
    defaults={"rectify": True},
    trainable=True,
    playable=True,
)
def lsvi_ae(s: Parts) -> Agent:
    """LSVI-AE, Algorithm 1 of Wei, Liu and Ying: aggressive exploration under constraints that hold at every step.

    a_h = argmax_a {Q_h(x, a) - Z_h [ghat_h(x, a)]_+},   Z_h <- max{Z_h + [g_h]_+, eta_k}

    Rectified(floor) + Penalised(rectify) on the lower end of the cost interval. Settings: `everystep list`.

    >>> es.agents.lsvi_ae(beta=0.05).label
    'lsvi-ae(beta=0.05)'
    >>> es.agents.lsvi_ae(cost=es.gp("categorical(on=landing)")).called("by cell").label
    'by cell'
    """
    return Agent(s.value_model(), s.cost_model(), Rectified(s.floor()), s.penalised(s["rectify"]), **s.options)


@register(
    "lsvi-ahead",
    title="LSVI-AE ahead",
    colour="#CC79A7",
    summary="LSVI-AE that also prices the harm a decision leads to",
    settings=(*VALUE_SETTINGS, *COST_SETTINGS, "floor", *AHEAD_SETTINGS),
    trainable=True,
    playable=True,
)
def lsvi_ahead(s: Parts) -> Agent:
    """LSVI-AE whose choice goes by the harm that a decision leads to: for limits that one decision cannot keep.

    a_h = argmax_a {Q_h(x, a) - Z_h [Ghat_h(x, a) - min_b Ghat_h(x, b) - tolerance]_+},   Ghat = [ghat]_+ + Phat C_{h+1}

    Rectified(floor) + Penalised on the avoidable harm; C as `mode` says. Where every state has an action with an
    estimated cost of at most 0 it is LSVI-AE. docs/look-ahead.md. Our own extension, without a paper.

    >>> es.agents.lsvi_ahead(tolerance=0.01).label
    'lsvi-ahead(tolerance=0.01)'
    >>> track = es.problems.racetrack_from(["S..G"])
    >>> es.agents.lsvi_ahead().resolve(track, episodes=10)["mode"]
    'least'
    """
    penalty, choice = Rectified(s.floor()), s.penalised(rectify=True)
    return Agent(s.value_model(), s.cost_model(), penalty, choice, **s.options, ahead=s.harm_to_go())


@register(
    "lsvi",
    title="LSVI",
    colour="#D55E00",
    dashes=(0, (5, 2)),
    summary="optimistic values, violations ignored (LSVI-UCB)",
    settings=VALUE_SETTINGS,
    uses_costs=False,
    trainable=True,
    playable=True,
)
def lsvi(s: Parts) -> Agent:
    """LSVI(-UCB), Jin et al. 2020: the same value model with a greedy choice that ignores costs. LSVI-AE with Z = 0.

    >>> es.agents.lsvi(switch=2).label
    'lsvi(switch=2.0)'
    >>> es.agents.REGISTERED["lsvi"].uses_costs
    False
    """
    return Agent(s.value_model(), s.cost_model(), NoPenalty(), Greedy(), s["optimism"], switch=s.switch)


@register(
    "lsvi-priced",
    title="LSVI, priced",
    colour="#E69F00",
    dashes=(0, (1, 1)),
    summary="LSVI on rewards less a fixed price on violations, the simple alternative",
    settings=(*VALUE_SETTINGS, "violation_price"),
    uses_costs=False,
    trainable=True,
    playable=True,
)
def lsvi_priced(s: Parts) -> Agent:
    """The simple alternative: LSVI that learns from r - price sum_i [g_i]_+, with a price that the user must choose.

    >>> es.agents.lsvi_priced(violation_price=10).label
    'lsvi-priced(violation_price=10.0)'
    """
    parts = (s.value_model(), s.cost_model(), NoPenalty(), Greedy())
    return Agent(*parts, s["optimism"], switch=s.switch, violation_price=s["violation_price"])


@register(
    "sucbvi",
    title="SUCBVI",
    summary="optimistic values over actions not known to be unsafe or to lead to a potentially unsafe state",
    settings=(*VALUE_SETTINGS, *COST_SETTINGS),
    defaults={"value": "counts", "cost": "counts"},
    playable=True,
)
def sucbvi(s: Parts) -> Agent:
    """SUCBVI, Xiong, Du and Huang (NeurIPS 2023): states may have no safe action, and nothing is known in advance.

    U_{H+1} = {},   A_h(x) = {a : ghat(x, a) <= 0, and no state of U_{h+1} was seen to follow (x, a)}
    U_h = {x : A_h(x) is empty},   a_h = argmax of Q_h(x, a) over A_h(x); the least harm where it is empty

    Reconstructed from descriptions, and adapted to costs of (x, a): values, bonuses and cost intervals are those of
    LSVI-AE instead of the printed ones. It is for one-hot features, where what was seen to follow (x, a) is a list.

    >>> es.agents.sucbvi().label
    'sucbvi'
    >>> es.agents.REGISTERED["sucbvi"].needs
    'nothing'
    """
    parts = (s.value_model(), s.cost_model(), Fixed(OVERRIDING), s.penalised(rectify=True))
    return Agent(*parts, **s.options, ahead=s.marked())


@register(
    "lsvi-primal",
    title="LSVI-Primal",
    colour="#009E73",
    dashes=(0, (2, 1.5)),
    summary="a virtual queue as price, the primal-dual baseline",
    settings=(*VALUE_SETTINGS, *COST_SETTINGS, "rectify"),
    trainable=True,
    playable=True,
)
def lsvi_primal(s: Parts) -> Agent:
    """LSVI-Primal, the paper's baseline: a_h = argmax_a {Q_h - Z_h ghat_h},  Z_h <- max{Z_h + g_h, 0},  Z starts at 0.

    `rectify=True` prices [ghat]_+ instead. The paper only describes this agent, by its eqs. (12) and (14).

    >>> es.agents.lsvi_primal(rectify=True).label
    'lsvi-primal(rectify=True)'
    """
    return Agent(s.value_model(), s.cost_model(), VirtualQueue(), s.penalised(s["rectify"]), **s.options)


@register(
    "slucb-qvi",
    title="SLUCB-QVI",
    needs="safe actions",
    summary="optimistic values, certified actions only",
    settings=(*VALUE_SETTINGS, *SAFE_SETTINGS),
    requires_safe_action=True,
    playable=True,
)
def slucb_qvi(s: Parts) -> Agent:
    """SLUCB-QVI, Amani, Thrampoulidis and Yang (ICML 2021): only actions that are certified safe.

    a_h = argmax Q_h(x, a) over {a : upper end of c_h(x, a) <= tau},   Q_h = min{<w, phi> + kappa_h(x) beta ||phi||, H}

    Requires: for every state an action a0(x) with its exact cost c0(x) < tau, and tau (`threshold`), where costs
    c = g + tau are linear in the features (`FiniteCMDP(known=Known(...))`, or `safe_action` and `threshold`).
    Reconstructed: the formulas come from later papers that describe the algorithm, not from its own paper.

    The agent promises safety, so the cost radius is the valid one (`radius_cost=paper`), the cost part of the printed
    maximum alone. The value radius is tuned, times kappa_h(x) = 2 H / (tau - c0(x)) + 1 as printed, which compensates
    for a small safe set and keeps Q at its cap for long; `kappa=1` omits it. With one-hot features the agent learns
    nothing about any action but a0 and always plays it: it needs features that actions share, and actions near a0 to
    start from.

    >>> es.agents.slucb_qvi(kappa=1).label
    'slucb-qvi(kappa=1.0)'
    >>> es.agents.REGISTERED["slucb-qvi"].needs
    'safe actions'
    """
    return Agent(s.value_model(), s.cost_model(), NoPenalty(), SafeSet(), UPPER_END, switch=s.switch)


@register(
    "rslucb-qvi",
    title="RSLUCB-QVI",
    needs="safe actions",
    summary="optimistic values, mixtures of actions that are certified safe in the mean",
    settings=(*VALUE_SETTINGS, *SAFE_SETTINGS),
    defaults={"switch": SWITCH},  # a plan solves a cone program at every (h, x)
    requires_safe_action=True,
    playable=True,
)
def rslucb_qvi(s: Parts) -> Agent:
    """RSLUCB-QVI, of the same paper: a distribution over actions that is certified safe in the mean over its draws.

    pi_h(x) = argmax <Q_h(x), theta> over distributions with <mean, theta> + beta ||E_theta[phi]||_{A^+} <= tau

    Requires the same as `slucb_qvi`, and is reconstructed in the same way. It needs no shared features, but single
    draws may be unsafe: `violation` counts those, `mixture_violation` the mean over the draw, which the agent promises.
    A plan solves a cone program at every state and step, so plans are rare by default (`switch=none`: every episode).
    With the valid radius and one-hot features it leaves a0 but learns slowly: on the lake (d = 400) it does not find
    the goal in 1000 episodes; `radius_cost=tuned, kappa=1` does, and then promises nothing.

    >>> es.agents.rslucb_qvi(radius_cost="tuned", kappa=1).label
    'rslucb-qvi(radius_cost=tuned, kappa=1.0)'
    """
    return Agent(s.value_model(), s.cost_model(), NoPenalty(), s.safe_mixture(), UPPER_END, switch=s.switch)


@register(
    "lsvi-new",
    title="LSVI-NEW",
    needs="safe subgraph",
    summary="the best policy inside a subgraph that is certified safe, grown from a known one",
    settings=MIXTURE_SETTINGS,
    requires_safe_action=True,
    uses_triple_features=True,
)
def lsvi_new(s: Parts) -> Agent:
    """LSVI-NEW, Shi, Liang and Shroff, ICML 2023: no violations, inside a safe subgraph that grows from a known one.

    ctil(x, a, x') = along c0 + <gamma, perp(phi)> + beta ||perp(phi)||
    admit a at (h, x) iff ctil <= tau on the support of (x, a), which is safe itself at the next step
    Q_h = min{r + <w, phi_V> + e1 ||phi_V|| + bonus, H},     a_h = argmax of Q_h over the admitted actions

    Requires: the features phi(x, a, x') of a linear mixture (`Known.triples`), the support of (x, a), the mean reward,
    the threshold tau, a safe action for every state (`Known.safe_action`: its graph is the seed, which alone is played
    for `seed_episodes`), and the exact cost of one triple of the seed. Supports, rewards and that cost are taken from
    the problem. With one-hot triples nothing is learnt about one triple from others, and the seed never grows.

    The cost radius is the printed one, so the safety guarantee holds. The printed e1, bonuses and seed phase exceed
    every Q and every feasible K, and are settings. `resolve/mixture.py` has all formulas and the readings of the paper
    where it is ambiguous; no part was reconstructed without its text.

    >>> es.agents.lsvi_new(seed_episodes=10).label
    'lsvi-new(seed_episodes=10)'
    >>> es.agents.REGISTERED["lsvi-new"].needs
    'safe subgraph'
    """
    return Agent(s.value_model(), s.cost_model(), NoPenalty(), s.safe_graph(), UPPER_END, s.known_safe, s.switch)


@register(
    "lsvi-nets",
    title="LSVI, networks",
    needs="an environment",
    colour="#CC79A7",
    dashes=(0, (4, 1, 1, 1)),
    summary="looks ahead in a learnt model of the environment, by networks; nothing is made by hand",
    settings=("optimism", "floor", "tolerance", "members", "rounds", "limit"),
    defaults={"optimism": 0.0, "floor": 100.0, "tolerance": 0.01},
    trainable=True,
    networks=True,
)
def lsvi_nets(s: Parts) -> Agent:
    """Looking ahead as `lsvi_ahead` does, with networks in place of least squares on features, learnt at every step.

    a_x = argmax_a {Q(x, a) - Z [G(x, a) - min_b G(x, b) - tolerance]_+},   Z <- max{Z + [g]_+, floor}

    Q and G, value and harm-to-go, are critics that learn from imagined steps of all actions in a model of the step,
    which is an ensemble of networks (`training/learnt/`). It needs no features, runs on environments alone, and
    promises nothing: its labels are heuristic. docs/learnt-models.md says when to use it.

    >>> es.agents.lsvi_nets(floor=300).label
    'lsvi-nets(floor=300.0)'
    >>> es.agents.REGISTERED["lsvi-nets"].networks
    True
    """
    raise EverystepError("lsvi-nets learns in environments: train it with es.train, or run lsvi-ahead on a problem.")


def _kernels_of_a_bandit(problem: FiniteCMDP) -> dict[str, Any]:
    """Models of reward and cost with the kernel that the problem suggests, or linear in its features."""
    if problem.horizon != 1:
        raise EverystepError(
            f"rpol is for bandits, and the horizon of '{problem.name}' is {problem.horizon}; use lsvi-ae, of which "
            "rpol is the case H = 1."
        )
    kernel = None if problem.kernel is None else kernels.read(problem.kernel)
    if kernel is None and problem.features is not None:
        kernel = kernels.Linear(on="features")
    return {"value": InKernel(kernel), "cost": GP(kernel)}


@register(
    "rpol",
    title="RPOL",
    needs="H = 1",
    summary="LSVI-AE for bandits: Gaussian processes, a floor of sqrt k",
    settings=(*VALUE_SETTINGS, *COST_SETTINGS, "floor"),
    defaults={"floor": "sqrt", "cap": "none", "beta": 0.2, "lam": 0.01},
    suited=_kernels_of_a_bandit,
)
def rpol(s: Parts) -> Agent:
    """RPOL, rectified pessimistic-optimistic learning (Guo, Zhu and Liu, L4DC 2023): a bandit under hard constraints.

    x_t = argmax_x {f_t(x) - Z_t [g_t(x)]_+},   Z_{t+1} = max{Z_t + [c_t]_+, eta_t},   eta_t = sqrt(t)

    with f_t = mean + beta_f sigma_f(x), the upper end of a Gaussian process for the reward,
    g_t = mean - beta_g sigma_g(x), the lower end of one for the cost, and c_t, the noisy cost.
    This is LSVI-AE with H = 1, `value=kernel(...)`, `cost=gp(...)` and `floor=sqrt`; a test compares the runs.
    Requires: H = 1, and nothing else.

    Symbols: t is k. KOVI's width is beta lam^{-1/2} sqrt(C) where C is the posterior variance of a process with noise
    variance lam: beta_f = beta / sqrt(lam), 2 by default (0.2 and 0.01), like `beta_cost`, for rewards in [0, 1].
    RPOL does not clip, so `cap` never binds here. The kernels are those of the problem unless the user sets them.
    Reconstructed: the first price is 1, as in LSVI-AE, and widths are numbers.

    >>> agent = es.agents.rpol(beta=0.3)
    >>> agent.all_settings()["floor"]
    'sqrt'
    """
    return Agent(s.value_model(), s.cost_model(), Rectified(s.floor()), s.penalised(rectify=True), **s.options)


@register(
    "uniform",
    title="Uniform",
    summary="every action with the same probability, a baseline for learning",
    settings=(),
    uses_costs=False,
    playable=True,
)
def uniform(s: Parts) -> Agent:
    """Every action with the same probability at every step. Requires nothing, and learns nothing.

    >>> es.agents.uniform().label
    'uniform'
    """
    return Agent(s.value_model(), s.cost_model(), NoPenalty(), Uniform(), s["optimism"])

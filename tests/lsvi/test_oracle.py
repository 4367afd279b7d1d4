"""The compiled program follows Algorithm 1: it equals a plain transcription of it, step by step.

Both are fed the same draws, so whole trajectories must agree, and with them every belief behind every decision.
"""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import stepping
from oracles import lsvi as oracle
from oracles.cases import (
    CASES,
    DEAD_ENDS,
    EPISODES,
    EXACT,
    KNOWN_SAFE,
    LAKE,
    SEED,
    SEEDS,
    STATIONARY,
    STEPPED,
    by_step,
    drawn,
    expected,
    problem,
    recipe,
    reward_range,
)

import everystep
from everystep.lsvi import algorithm, loop
from everystep.mdp.world import at_step


@jax.jit
def beliefs(agent, state, words):
    """The plan of an episode and everything it was made from: actions, V_1, Q and the estimated costs."""
    H, S = words.shape
    plan, info = algorithm.plan(agent, state, words)
    fit = agent.values.fit(state.values, state.k)
    V_next = jnp.concatenate([info.V[1:], jnp.zeros((1, S))])
    Q = jax.vmap(lambda h, V: agent.values.estimate(fit, h, V))(jnp.arange(H), V_next)
    ghat = algorithm.cost_belief(agent, state.costs, state.k)
    states_first = lambda array: array.swapaxes(-1, -2)
    ghat = jnp.stack([at_step(ghat, h) for h in range(H)], 1)
    after = None if plan.after is None else states_first(plan.after)
    return plan.policy.argmax(1), info.V[0], states_first(Q), states_first(ghat), after, info.C


@pytest.mark.parametrize("case", CASES)
def test_stepping_through_episodes_follows_algorithm_1_belief_by_belief(case):
    where, want = CASES[case][0], expected(case)
    p, (_, words, _) = problem(where), drawn(where)
    world = jax.tree.map(jnp.asarray, p.world)
    built = recipe(case).resolve(p, EPISODES).build()
    before = loop.start(built.agent, p.sizes, built.share_values, built.share_costs)
    episodes = stepping.episodes(built.agent, world, p.sizes, before, SEED, EPISODES)
    for k, (after, _, episode) in enumerate(episodes):
        policy, V1, Q, ghat, after_step, C = beliefs(built.agent, before.agent, words[k])
        np.testing.assert_allclose(before.agent.price, want["price"][k], **EXACT)
        np.testing.assert_allclose(ghat, want["ghat"][k], **EXACT)
        np.testing.assert_allclose(Q, want["Q"][k], **EXACT)
        for harm, name in ((after_step, "after"), (C, "C")):
            if harm is not None:
                np.testing.assert_allclose(harm, want[name][k], **EXACT)
        np.testing.assert_allclose(V1[p.start[0]], want["V1"][k], **EXACT)
        np.testing.assert_array_equal(policy, want["policy"][k])
        np.testing.assert_array_equal(episode.x, want["state"][k])
        np.testing.assert_array_equal(episode.a, want["action"][k])
        np.testing.assert_allclose(episode.reward, want["reward"][k], **EXACT)
        np.testing.assert_allclose(episode.cost, want["cost"][k], **EXACT)
        before = after


# Every problem, both kinds of features and every kind of choice, but not every combination: each one is compiled
# separately. tests/lsvi/test_drive.py compares the two drivers for every agent.
COMPILED = (
    "the lake",
    "noise",
    "noise, a queue",
    "every step its own",
    "the lake, reacting to a process",
    "noise, reacting to a process and counts, some known safe",
    "dead ends, the least harm",
    "dead ends, lowered harm, reacting to a process",
)


@cache
def results(where):
    """One run of all the agents compared on a problem: the compiled scan."""
    agents = [recipe(case) for case in COMPILED if CASES[case][0] == where]
    return everystep.run(problem(where), agents, episodes=EPISODES, seeds=SEEDS)


@pytest.mark.parametrize("case", COMPILED)
def test_the_compiled_run_records_what_algorithm_1_does(case):
    where, want = CASES[case][0], expected(case)
    p, result, (low, span) = problem(where), results(where), reward_range(where)
    here = [other for other in COMPILED if CASES[other][0] == where]
    label = list(result.columns)[here.index(case)]
    P, r, g = by_step(p.dense_P, p.horizon), by_step(p.r, p.horizon), by_step(p.g, p.horizon, axis=1)
    violation = np.maximum(g, 0)
    steps = np.arange(p.horizon)
    met = np.moveaxis(g[:, steps, want["state"], want["action"]], 0, -1)  # (K, H, m), the true means on the way
    exact = lambda payment: [oracle.evaluate(P, payment, policy)[p.start[0]] for policy in want["policy"]]
    records = {
        "return": (low + span * want["reward"]).sum(1),
        "value": exact(r),
        "expected_violation": exact(violation.sum(0)),
        "violation": np.maximum(met, 0).sum((1, 2)),
        "unsafe_steps": (met > 0).any(2).sum(1),
        "soft_violation": met.sum((1, 2)),
    }
    if p.constraints > 1:
        records |= {f"violation_{i + 1}": np.maximum(met, 0)[..., i].sum(1) for i in range(p.constraints)}
    for column, values in records.items():
        np.testing.assert_allclose(result.columns[label][column][1], values, **EXACT, err_msg=column)
    visits = np.bincount(want["state"].ravel(), minlength=p.states)
    np.testing.assert_array_equal(result.visits[f"{label}_end"][1], visits)


@pytest.mark.parametrize("where", [LAKE, STATIONARY, STEPPED, DEAD_ENDS])
def test_the_agents_compared_here_do_differ(where):
    """Equality with the oracle would prove little if all cases took the same actions."""
    walks = [expected(case)["action"].tobytes() for case in CASES if CASES[case][0] == where]
    assert len(set(walks)) == len(walks)


@pytest.mark.parametrize("case", CASES)
def test_every_case_has_costs_to_suspect_and_prices_that_change(case):
    want = expected(case)
    assert (want["ghat"] > 0).any()
    assert (want["ghat"] < 0).any()
    assert (len(np.unique(want["price"])) > 2) == (CASES[case][1] not in ("lsvi", "lsvi-priced", "sucbvi"))


@pytest.mark.parametrize("case", [case for case in CASES if CASES[case][1] in ("lsvi-ahead", "sucbvi")])
def test_every_case_that_looks_ahead_sees_harm_to_come(case):
    want = expected(case)
    assert (want["C"] > 0).any()
    assert (want["C"] == 0).any()
    assert (want["after"] > 0).any()


@pytest.mark.parametrize("case", [case for case in CASES if CASES[case][3].get("react")])
def test_reacting_departs_from_the_plan_sometimes(case):
    want = expected(case)
    planned = np.take_along_axis(want["policy"], want["state"][..., None], -1)[..., 0]
    assert 0 < (planned != want["action"]).mean() < 0.5
    np.testing.assert_array_equal(planned[:, 0], want["action"][:, 0])  # nothing new is seen before the first step


@pytest.mark.quick
def test_known_safe_actions_are_trusted_against_the_evidence():
    want = expected("noise, reacting to a process and counts, some known safe")
    assert (want["ghat"][..., KNOWN_SAFE] <= 0).all()
    assert (want["ghat"][..., KNOWN_SAFE] == 0).any()


@pytest.mark.parametrize("case", ["the lake", "noise, no constraint", "every step its own"])
def test_the_cap_on_values_binds_somewhere_and_not_everywhere(case):
    cap = recipe(case).resolve(problem(CASES[case][0]), EPISODES).cap
    clipped = expected(case)["Q"] > cap - 1e-9
    assert 0 < clipped.mean() < 1


@pytest.mark.parametrize("settings", [{}, {"react": True, "cost": "gp(categorical(on=landing))"}])
def test_where_every_state_has_a_safe_action_and_no_noise_looking_ahead_changes_nothing(settings):
    lake = problem(LAKE)
    result = everystep.run(
        lake, [everystep.agents.lsvi_ae(**settings), everystep.agents.lsvi_ahead(**settings)], EPISODES, SEEDS
    )
    plain, ahead = result.columns.values()
    for column in plain:
        np.testing.assert_array_equal(plain[column], ahead[column], err_msg=column)

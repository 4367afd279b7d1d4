"""Remarks about cost estimates: each step is predicted before it is learnt, and compared with what was observed."""

import gymnasium
import numpy as np
import pytest
from environments_for_tests.rings import ChanceRing, FreshStates, TrapRing
from environments_for_tests.walks import Slope
from environments_for_tests.wrappers import StepRecorder

import everystep as es

pytestmark = pytest.mark.quick
LENGTH, EPISODES = 8, 14


def clipped(obs, action, obs_next, info):
    return min(max(50 * info["too_far"], -1), 1)


def divided(obs, action, obs_next, info):
    return info["too_far"]


@pytest.mark.parametrize(("constraint", "fits"), [(clipped, False), (divided, True)])
def test_a_linear_limit_is_fitted_by_linear_features_unless_it_is_clipped(constraint, fits):
    phi = es.features.polynomial(1)
    result = es.train(Slope(), "lsvi-ae", constraint=constraint, features=phi, horizon=6, episodes=20)
    assert (
        "the features do not fit the constraint; if it is clipped, divide it instead; if it is the max" in str(result)
    ) is not fits


def both_sides(obs, action, obs_next, info):
    return [0.15 - obs_next[0], obs_next[0] - 0.85]


@pytest.mark.parametrize(("constraint", "fits"), [(lambda *step: max(both_sides(*step)), False), (both_sides, True)])
def test_a_max_of_linear_limits_does_not_fit_and_its_parts_do_as_is_advised(constraint, fits):
    learner = es.Learner(
        Slope(), "lsvi-ae", constraint=constraint, features=es.features.polynomial(1), horizon=6, length=6
    )
    learner.play(20)
    advice = "if it is the max or the abs of several numbers, return these as several constraints"
    assert (advice in str(learner.diagnose())) is not fits


def counted(episodes, lam, events, shared):
    """Unsafe steps, those believed safe, and the rms error in the second half, by the means of earlier episodes."""
    total, count = np.zeros((2, LENGTH, 4, 2))
    unsafe, surprises, errors = 0, 0, []
    for k, episode in enumerate(episodes):
        rows = [(0 if shared else t, x, a, g) for t, (x, a, g) in enumerate(episode)]
        for t, x, a, g in rows:
            estimate, target = total[t, x, a] / (count[t, x, a] + lam), max(g, 0) if events else g
            if k >= len(episodes) / 2:
                errors.append(estimate - target)
                unsafe += g > 0
                surprises += g > 0 and (estimate < g / 2 if events else estimate <= 0)
        for t, x, a, g in rows:
            total[t, x, a] += max(g, 0) if events else g
            count[t, x, a] += 1
    return unsafe, surprises, np.sqrt(np.mean(np.square(errors)))


@pytest.mark.parametrize(("name", "shared"), [("lsvi_ae", True), ("lsvi_ae", False), ("lsvi_ahead", True)])
def test_the_numbers_are_those_of_means_counted_by_hand(name, shared):
    agent, events = getattr(es.agents, name), name == "lsvi_ahead"
    env = StepRecorder(ChanceRing())
    result = es.train(env, agent(lam_cost=0.5, share_values=shared), horizon=LENGTH, episodes=EPISODES, seed=1)
    unsafe, surprises, error = counted(env.episodes, 0.5, events, shared)
    numbers = f"of {unsafe} unsafe steps in the second half {surprises} were believed safe (RMS one-step cost error:"
    numbers += f" {error:.2g})"
    assert numbers in str(result)


@pytest.mark.parametrize("agent", ["lsvi-ae", "lsvi-ahead"])
def test_what_was_never_tried_is_no_fault_of_the_features(agent):
    result = es.train(FreshStates(1 + LENGTH * EPISODES), agent, horizon=LENGTH, episodes=EPISODES)
    assert result.columns["unsafe_steps"][EPISODES // 2 :].sum() >= 5
    assert "believed safe" not in str(result)


@pytest.mark.parametrize(("agent", "said"), [("lsvi-ae", True), ("lsvi-ahead", False), ("lsvi", False)])
def test_the_share_of_steps_without_an_action_believed_safe(agent, said):
    result = es.train(TrapRing(), agent, horizon=LENGTH, episodes=EPISODES)
    remark = "at 25% of the steps in the second half no action was believed to keep g <= 0, for example at 3: "
    assert (remark in str(result)) is said
    assert ("no action was believed" in str(result)) is said


def test_a_step_is_a_surprise_if_no_violated_constraint_was_expected():
    """g_2 is always violated and soon expected, so that only the steps without it count; here there are none."""
    both = lambda second: lambda obs, action, obs_next, info: [info["constraint"], second]
    texts = [
        str(es.train(ChanceRing(), "lsvi-ae", constraint=both(g), horizon=LENGTH, episodes=EPISODES))
        for g in (-1.0, 1.0)
    ]
    assert "were believed safe" in texts[0]
    assert "were believed safe" not in texts[1]


def test_copies_are_counted_like_episodes():
    envs = gymnasium.vector.SyncVectorEnv([TrapRing, TrapRing])
    result = es.train(envs, "lsvi-ae", horizon=LENGTH, episodes=EPISODES)
    assert "at 25% of the steps in the second half no action was believed to keep g <= 0" in str(result)

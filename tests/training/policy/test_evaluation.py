"""What a policy earns by itself, costs in any unit, and what is said while a training goes on."""

import numpy as np
import pytest
from environments_for_tests.walks import OtherSpaces, SlowWalk, VectorWalk

import everystep as es
from everystep.training.policy.evaluation import FIRST_SEED

pytestmark = pytest.mark.quick


def limit(scale=1.0):
    """g in [-1, 1], times `scale`."""
    return lambda seen, action, after, info: scale * (after - 6.5) / 6.5


OPTIONS = {"horizon": 6, "length": 12}


def learner(scale=1.0, agent="lsvi-ae", **options):
    return es.Learner(SlowWalk(), agent, constraint=limit(scale), **OPTIONS, **options)


def test_an_evaluation_is_the_policy_played_by_hand_from_the_same_seeds():
    result = learner().train(6)
    found = es.evaluate(result.policy, SlowWalk(), constraint=limit(), episodes=3).columns
    env = SlowWalk()
    for i in range(3):
        x, _ = env.reset(seed=FIRST_SEED + i)
        earned = harm = unsafe = 0.0
        for t in range(12):
            x, reward, *_ = env.step(result.policy(x, step=t + 1))
            g = (x - 6.5) / 6.5
            earned, harm, unsafe = earned + reward, harm + max(g, 0), unsafe + (g > 0)
        assert found["return"][i] == pytest.approx(earned)
        assert found["violation"][i] == pytest.approx(harm)
        assert (found["unsafe_steps"][i], found["length"][i]) == (unsafe, 12)


def test_train_evaluates_the_policy_when_asked_and_says_when_it_was_not():
    given = {"constraint": limit(), **OPTIONS}
    result = es.train(SlowWalk(), "lsvi-ae", episodes=3, evaluate=2, **given)
    assert len(result.evaluation.columns["return"]) == 2
    assert result.episodes.column("return").to_pylist() == result.columns["return"].tolist()
    assert "the policy without exploration, 2 episodes: return" in str(result)
    assert "was not evaluated" in str(es.train(SlowWalk(), "lsvi-ae", episodes=3, **given))
    with pytest.raises(es.EverystepError, match=r"evaluate is -1"):
        es.train(SlowWalk(), "lsvi-ae", episodes=3, evaluate=-1, **given)


def test_an_environment_with_other_actions_is_refused():
    policy = learner().train(2).policy
    with pytest.raises(es.EverystepError, match=r"env has 3 actions .* 2 from 0"):
        es.evaluate(policy, OtherSpaces(actions=3), constraint=limit())


@pytest.mark.parametrize(
    "agent",
    [
        es.agents.lsvi_ae(),
        es.agents.lsvi_ae(react=True),
        es.agents.lsvi_ahead(react=True),
        es.agents.lsvi_ahead(harm="mean"),
    ],
    ids=str,
)
def test_the_unit_of_a_constraint_does_not_matter(agent):
    """From the first step on, with features that are chosen by what is seen."""
    played = []
    for unit in (1.0, 1e-6, 1e6):
        env = VectorWalk()
        g = lambda seen, action, after, info, unit=unit: unit * np.array([after[0] - 6.5, 2.5 - after[0]]) / 9
        each = es.Learner(env, agent, constraint=g, seed=4, **OPTIONS)
        each.play(12)
        policy = each.policy()
        labels = [policy.certify([x]).tolist() for x in range(9)]
        bounds = np.array([policy.bounds([x]) for x in range(9)]) / unit
        played.append((env.actions, [policy([x]) for x in range(9)], labels, bounds))
    for other in played[1:]:
        assert other[:3] == played[0][:3]
        np.testing.assert_allclose(other[3], played[0][3], rtol=1e-6, atol=1e-7)


def test_the_divisor_of_a_constraint_is_reported_and_saved_with_the_policy(tmp_path):
    result = learner(8.0).train(3)
    (largest,) = result.policy.plan.cost_scale
    assert f"the constraint was divided by {largest:g}, its largest size, before it was learnt" in result.remarks
    result.policy.save(tmp_path / "policy")
    loaded = es.Policy.load(tmp_path / "policy")
    for x in range(9):
        np.testing.assert_array_equal(loaded.bounds(x), result.policy.bounds(x))


def test_a_guarantee_is_about_the_constraint_as_it_is():
    """The confidence radius of the paper assumes |g| <= 1 and noise of that size: smaller costs are not enlarged."""
    each = learner(0.5, es.agents.lsvi_ae(radius="paper"))
    each.play(2)
    assert each.agent.cost_scale == 1.0
    assert not any("divided by" in remark for remark in each.remarks)


def test_a_constraint_that_was_always_zero_has_no_unit_yet():
    each = es.Learner(SlowWalk(), "lsvi-ahead", constraint=lambda seen, action, after, info: 0.0, **OPTIONS)
    assert each.train(2).policy.certify(0).shape == (2,)
    assert each.agent.cost_scale == 0.0


def test_a_cost_that_outgrows_the_scale_leaves_what_dividing_from_the_start_gives():
    late, early = learner(4.0), learner(4.0)
    early._ready(1).cost_scale[:] = 4.0  # as if the largest cost had been known
    rng = np.random.default_rng(3)
    for number in range(4):
        x = rng.integers(0, 5 + number, 7)  # larger costs appear later
        costs = 4.0 * (x[1:, None] - 6.5) / 6.5
        costs[-1] = 4.0 if number == 3 else costs[-1]
        batch = es.Batch(
            x[:-1],
            rng.integers(0, 2, 6),
            x[1:] / 8.0,
            costs,
            x[1:],
            np.zeros(6, bool),
            np.arange(6),
            np.full(6, number),
        )
        late.learn(batch)
        early.learn(batch)
    assert late.agent.cost_scale == early.agent.cost_scale == 4.0
    for name in ("mean", "width"):
        one, other = (getattr(each.agent.plan().estimates(0, np.arange(9)), name) for each in (late, early))
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_ctrl_c_ends_an_evaluation_with_the_episodes_that_were_finished():
    policy, done = learner().train(2).policy, []

    def stop(more):
        done.append(more)
        if len(done) == 2:
            raise KeyboardInterrupt

    found = es.evaluate(policy, SlowWalk(), constraint=limit(), episodes=5, progress=stop)
    whole = es.evaluate(policy, SlowWalk(), constraint=limit(), episodes=5)
    assert found.columns["return"].tolist() == whole.columns["return"].tolist()[:2]

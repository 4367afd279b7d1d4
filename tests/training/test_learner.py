"""es.Learner: its arguments, rewards, constraints and copies."""

import gymnasium
import numpy as np
import pytest
from environments_for_tests.rings import Ring, VectorRing
from gymnasium import spaces

import everystep as es
from everystep import agents, features
from everystep.environments.logged import Batch, from_env
from everystep.errors import EverystepError


def harm(obs, action, obs_next, info):
    return 1.0 if obs_next == 3 and action else -0.5


def test_copies_of_an_environment_are_stepped_together():
    envs = gymnasium.vector.SyncVectorEnv([Ring, Ring, lambda: Ring(ends=True)])
    result = es.train(envs, "lsvi-ae", constraint=harm, horizon=5, episodes=24)
    assert len(result.columns["return"]) == 24
    assert result.plans <= 9
    lengths = result.columns["length"].reshape(8, 3)
    assert (lengths[:, :2] == 5).all()
    assert (lengths[:, 2] == 2).any()  # it ended on arriving at 2, while the others went on


def test_copies_are_made_from_an_id():
    result = es.train(
        "FrozenLake-v1", "lsvi-ae", constraint=lambda *step: -1.0, horizon=5, length=5, episodes=4, envs=2
    )
    assert result.spec["environment"] == "FrozenLake-v1"
    assert len(result.columns["return"]) == 4


@pytest.mark.parametrize("shared", [True, False])
def test_the_action_looked_up_for_a_state_met_before_is_the_best_by_the_plan_asked_about_it(shared):
    agent = es.agents.lsvi_ae(share_values=shared, share_costs=shared)
    learner = es.Learner(Ring(), agent, constraint=harm, length=5, seed=2)
    learner.play(8)
    acting, looked_up = learner.agent.plan(), 0
    for h in range(5):
        for x in np.arange(4)[:, None]:
            action = acting.look_up(h, x[0])
            scores = acting.scores(h, x)[:, 0]
            looked_up += action is not None
            assert action is None or scores[action] >= scores.max() - 1e-9
    assert looked_up >= 5


def test_rewards_are_scaled_by_a_declared_or_an_observed_range_and_the_result_reports_which():
    declared = es.train(Ring(), "lsvi-ae", constraint=harm, horizon=5, episodes=3, reward_range=(-1, 2))
    assert declared.spec["reward_range"] == [-1, 2]
    assert "rewards were scaled to [0, 1] from -1 to 2, as declared" in declared.remarks
    assert "from 0 to 1, the range of observed rewards and 0" in str(
        es.train(Ring(), "lsvi-ae", constraint=harm, horizon=5, episodes=3)
    )


def test_logged_data_may_come_between_episodes():
    learner = es.Learner(Ring(), "lsvi-ae", constraint=harm, horizon=5)
    learner.train(2)
    learner.learn(from_env(Ring(), None, episodes=20, seed=3, constraint=harm))
    result = learner.train(5)
    assert len(result.columns["return"]) == 7
    assert result.columns["violation"][2:].sum() == 0


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"actions": np.array([0, 2])}, r"the batch has action 2; the environment has 2"),
        ({"observations": np.zeros((2, 3)), "next_observations": np.zeros((2, 3))}, r"observations of shape \(3,\)"),
        ({"costs": np.zeros((2, 2))}, r"there are 2 constraints, and 1 before"),
    ],
)
def test_logged_data_of_another_environment_are_refused(changes, words):
    columns = {"observations": [0, 1], "actions": [1, 0], "rewards": [1, 0], "costs": [-1, -1]}
    columns |= {"next_observations": [1, 1], "terminated": [False, False], "episode": [0, 0]}
    learner = es.Learner(Ring(), "lsvi-ae", constraint=harm, horizon=5)
    learner.learn(Batch.of(**columns))
    with pytest.raises(EverystepError, match=words):
        learner.learn(Batch.of(**columns | changes))


def test_sharing_is_the_same_for_values_and_costs():
    apart = agents.lsvi_ae(share_values=False)
    assert es.train(Ring(), apart, constraint=harm, horizon=5, episodes=2).spec["settings"]["share_costs"] is False
    with pytest.raises(EverystepError, match=r"leave one at auto"):
        es.train(Ring(), agents.lsvi_ae(share_values=False, share_costs=True), constraint=harm, horizon=5)


def test_the_constraint_sees_both_observations_and_the_action_as_the_environment_counts_them():
    class Reusing(VectorRing):
        """Uses one array for all its observations, and counts actions from 3."""

        action_space = spaces.Discrete(2, start=3)
        now = np.zeros(2, np.float32)

        def see(self):
            self.now[:] = super().see()
            return self.now

        def step(self, action):
            return super().step(action - 3)

    seen = []
    watch = lambda obs, action, obs_next, info: seen.append((obs.copy(), action, obs_next.copy())) or -1.0
    result = es.train(Reusing(), "lsvi-ae", constraint=watch, features=features.centres(3), horizon=5, episodes=4)
    assert {action for _, action, _ in seen} == {3, 4}
    assert all((obs == after).all() == (action == 3) for obs, action, after in seen)
    assert result.policy(np.zeros(2)) in (3, 4)


def test_rewards_outside_a_declared_range_are_reported():
    result = es.train(Ring(), "lsvi-ae", constraint=harm, horizon=5, episodes=3, reward_range=(0, 0.5))
    assert any("rewards from 0 to 1 were observed, outside that range" in remark for remark in result.remarks)


def test_a_result_before_the_first_episode_can_be_shown():
    learner = es.Learner(Ring(), "lsvi-ae", constraint=harm, horizon=5)
    learner.learn(from_env(Ring(), None, episodes=2, seed=3, constraint=harm))
    assert "0 episodes" in str(learner.result())


def test_looking_at_the_result_does_not_change_what_follows():
    one, other = (es.Learner(Ring(), "lsvi-ae", constraint=harm, horizon=5, seed=4) for _ in range(2))
    one.play(4)
    other.play(2)
    other.policy(optimism=-1)
    other.play(2)
    for name, column in one.result().columns.items():
        np.testing.assert_array_equal(column, other.result().columns[name])


def test_copies_that_start_again_at_once_lose_nothing_of_their_last_step():
    class Told(Ring):
        def step(self, action):
            *rest, info = super().step(action)
            return *rest, info | {"constraint": np.array([harm(None, action, self.x, info)])}

    mode = gymnasium.vector.AutoresetMode.SAME_STEP
    envs = gymnasium.vector.SyncVectorEnv([Told, lambda: Told(ends=True)], autoreset_mode=mode)
    result = es.train(envs, "lsvi-ae", horizon=5, episodes=12)
    lengths = result.columns["length"].reshape(-1, 2)
    assert (lengths[:, 0] == 5).all()
    assert result.columns["planned"].sum() == result.plans


@pytest.mark.parametrize(
    ("constraint", "words"),
    [
        (lambda *step: 1 / 0, "constraint function raised ZeroDivisionError"),
        (lambda *step: float("nan"), "constraint function returned nan"),
        (lambda *step: "much", "constraint function returned much"),
        (lambda x, a, after, info: [0.0] * (1 + after), "there are . constraints, and . before"),
        (None, "info has neither 'constraint' nor 'cost'"),
    ],
)
def test_a_constraint_that_misbehaves_ends_in_a_sentence(constraint, words):
    env = Ring()
    env.reset()
    learner = es.Learner(env, "lsvi-ae", constraint=constraint, horizon=5, seed=3)
    with pytest.raises(EverystepError, match=words):
        learner.train(3)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"features": np.ones((3, 2, 2)) / 2}, "there are 4 observations"),
        ({"features": np.ones((4, 2, 2))}, "norm of 1.41"),
        ({"features": lambda x: np.ones(3)}, "returned shape"),
        ({"horizon": 0}, "horizon is 0"),
        ({"horizon": 9, "length": 5}, "horizon is 9, but an episode has at most 5 steps"),
        ({"reward_range": (1, 0)}, "reward_range is"),
        ({"agent": agents.lsvi_ae(radius="coordinate")}, "coordinate, which has no meaning here"),
        ({"agent": agents.lsvi_ae(known_safe="safest")}, "known_safe of lsvi-ae is for problems given as tables"),
        ({"agent": agents.lsvi_ae(cost="counts")}, "needs a problem given as a table"),
        (
            {"agent": agents.lsvi_ae(value=es.kernel_values("rbf(1, on=state)"))},
            "is on 'state'; choose on= from observation",
        ),
        (
            {"agent": agents.lsvi_ae(share_values=False), "horizon": 3, "length": 5},
            "share_values of lsvi-ae is false",
        ),
        ({"agent": "lsvi-a"}, "Did you mean lsvi-ae"),
        ({"envs": 3}, "has no spec to make copies from"),
        ({"length": 0}, "length is 0"),
        ({"horizon": -3}, "horizon is -3"),
        ({"horizon": 10**6, "length": 10**6}, "length is 1000000; cut episodes after at most"),
    ],
)
def test_wrong_settings_are_refused_before_anything_is_played(settings, words):
    env = Ring()
    with pytest.raises(EverystepError, match=words):
        es.train(env, **{"agent": "lsvi-ae", "constraint": harm, "horizon": 5, **settings})
    assert env.steps == 0


@pytest.mark.parametrize("env", ["Nowhere-v0", "nomodule:Nowhere-v0", 42, None])
def test_an_unknown_environment_is_refused(env):
    with pytest.raises(EverystepError, match=r"cannot be made|give a gymnasium environment"):
        es.train(env, "lsvi-ae", constraint=harm)

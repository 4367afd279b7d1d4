"""Training on environments: real ones, and small ones that misbehave on purpose."""

import json
import pickle

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from sklearn.tree import DecisionTreeRegressor

import everystep as es
from everystep import agents, features
from everystep.environments.logged import Batch, from_env
from everystep.errors import EverystepError
from everystep.experiments.folder import run_folder
from everystep.mdp import planner
from everystep.training.agent import stored_agent
from everystep.training.policy.policy import Policy
from everystep.training.result import BrokenError

RING = 4  # states of the little world


class Ring(gymnasium.Env):
    """A walk on a ring of four states: action 1 moves on for a reward, unsafe into state 3; action 0 stays."""

    observation_space, action_space = spaces.Discrete(RING), spaces.Discrete(2)

    def __init__(self, length=5, breaks_at=None, ends=False):
        self.length, self.breaks_at, self.ends = length, breaks_at, ends
        self.steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = self.t = 0
        return self.x, {}

    def step(self, action):
        self.steps += 1
        if self.steps == self.breaks_at:
            raise RuntimeError("a wheel came off")
        self.x, self.t = (self.x + int(action)) % RING, self.t + 1
        ended = self.ends and self.x == 2
        return self.x, float(action), ended, self.t >= self.length, {}


class Line(Ring):
    """The same with a vector as observation."""

    observation_space = spaces.Box(-1, 1, (2,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.see(), {}

    def see(self):
        angle = np.pi / 2 * self.x
        return np.array([np.cos(angle), np.sin(angle)], np.float32)

    def step(self, action):
        _, *rest = super().step(action)
        return self.see(), *rest


def harm(obs, action, obs_next, info):
    return 1.0 if obs_next == 3 and action else -0.5


def harm_on_the_line(obs, action, obs_next, info):
    return 1.0 if obs_next[1] < -0.5 and action else -0.5


def test_a_ring_is_learnt_with_few_violations_and_ends_at_the_safe_optimum():
    result = es.train(Ring(), "lsvi-ae", constraint=harm, horizon=5, episodes=25)
    blind = es.train(Ring(), "lsvi", constraint=harm, horizon=5, episodes=25)
    assert result.columns["violation"].sum() <= 4
    assert blind.columns["violation"].sum() >= 20
    assert (result.columns["return"][-5:] == 2).all()  # 0 -> 1 -> 2, and stay: state 3 is never entered
    assert (blind.columns["return"][-5:] == 5).all()


@pytest.mark.quick
def test_several_constraints_are_kept_apart():
    both = lambda *step: [harm(*step), -1.0]
    episodes = es.train(Ring(), "lsvi-ae", constraint=both, horizon=5, episodes=6).columns
    assert episodes["violation_2"].sum() == 0
    np.testing.assert_array_equal(episodes["violation"], episodes["violation_1"])


def test_an_environment_made_from_a_problem_reports_its_constraints():
    env = es.gym.make_env(es.problems.from_map(("SFF", "FHF", "FFG"), horizon=6))
    result = es.train(env, "lsvi-ae", episodes=40, seed=1)
    assert result.spec["constraints"] == 1
    assert result.columns["violation"][-10:].sum() < result.columns["violation"][:10].sum() + 1
    assert result.spec["horizon"] == 6


def test_frozen_lake_of_gymnasium_is_solved_and_the_agent_stops_falling_into_holes():
    env = gymnasium.make("FrozenLake-v1", is_slippery=False, max_episode_steps=10)
    fell = lambda obs, a, after, info: 1.0 if after in (5, 7, 11, 12) else -1.0
    result = es.train(env, "lsvi-ae", constraint=fell, horizon=10, episodes=80)
    assert result.columns["violation"].sum() <= 12
    assert result.columns["return"][-5:].mean() == 1
    x, total = env.reset(seed=0)[0], 0.0
    for _ in range(10):
        x, reward, ended, *_ = env.step(result.policy(x))
        total += reward
        if ended:
            break
    assert total == 1


def test_cart_pole_stays_up_and_its_limits_are_kept_after_a_few_episodes():
    env = gymnasium.make("CartPole-v1", max_episode_steps=60)
    high = np.array([2.4, 3.0, 0.21, 3.0])
    leaning = lambda obs, a, after, info: min(((after[2] + after[3] / 4) / 0.14) ** 2 - 1, 1)
    phi = features.fourier(30, lengthscale=1.0, low=-high, high=high)
    agent = agents.lsvi_ae(switch=2)
    result = es.train(env, agent, constraint=leaning, features=phi, horizon=10, episodes=15)
    assert (result.columns["length"][-5:] == 60).all()
    assert result.columns["violation"][-5:].mean() < result.columns["violation"][:3].mean() / 2
    assert result.plans == result.columns["planned"].sum()
    assert f"{result.plans} plans (d log(1 + K) = {120 * np.log(16):.0f})" in str(result)


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
        for x in np.arange(RING)[:, None]:
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


def test_a_reward_of_minus_one_a_step_makes_an_early_end_worth_while():
    class Hurry(Ring):
        def step(self, action):
            x, _, *rest = super().step(action)
            return x, -1.0, *rest

    result = es.train(Hurry(ends=True), "lsvi-ae", constraint=lambda *step: -1.0, horizon=5, episodes=15)
    assert (result.columns["return"][-3:] == -2).all()


def test_custom_regressors_replace_the_linear_model():
    tree = es.regression(lambda: DecisionTreeRegressor(max_depth=4, random_state=0))
    result = es.train(Ring(), agents.lsvi_ae(value=tree), constraint=harm, horizon=5, episodes=20)
    assert result.columns["violation"].sum() <= 4
    assert (result.columns["return"][-3:] == 2).all()
    with pytest.raises(EverystepError, match=r"cannot be saved without pickle"):
        result.policy.save("nowhere")


def test_an_ensemble_that_disagrees_explores():
    forest = es.regression(lambda: DecisionTreeRegressor(random_state=0), members=4, bonus="disagreement")
    agent = agents.lsvi_ae(value=forest, beta=2.0)
    result = es.train(Ring(), agent, constraint=harm, horizon=5, episodes=15)
    assert result.columns["return"].max() >= 2


def test_values_and_costs_may_live_in_the_space_of_a_kernel(monkeypatch):
    monkeypatch.setattr(stored_agent, "CAPACITY", 128)
    kernel = "rbf(0.3, on=observation)*categorical(on=action)"
    agent = agents.lsvi_ae(value=es.kernel_values(kernel), cost=es.gp(kernel))
    result = es.train(Line(), agent, constraint=harm_on_the_line, horizon=5, episodes=15)
    assert result.columns["violation"].sum() <= 3
    assert (result.columns["return"][-3:] == 2).all()


# --- policies --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["linear", "kernel", "lsvi"])
def test_a_policy_comes_back_from_its_folder_and_acts_and_certifies_as_before(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(stored_agent, "CAPACITY", 128)
    kernel = "rbf(0.3, on=observation)*categorical(on=action)"
    agent = {
        "linear": agents.lsvi_ae(),
        "kernel": agents.lsvi_ae(value=es.kernel_values(kernel), cost=es.gp(kernel)),
        "lsvi": agents.lsvi(),
    }[kind]
    phi = features.centres(3)
    result = es.train(Line(), agent, constraint=harm_on_the_line, features=phi, horizon=5, episodes=8)
    result.save(tmp_path / "run")
    again = Policy.load(tmp_path / "run" / "policy")
    line = Line()
    line.reset()
    for x in range(RING):
        line.x = x
        obs = line.see()
        assert again(obs) == result.policy(obs)
        assert again(obs, step=5) == result.policy(obs, step=5)
        np.testing.assert_array_equal(again.certify(obs), result.policy.certify(obs))
        for one, other in zip(again.bounds(obs), result.policy.bounds(obs), strict=True):
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-12)
    assert again.confidence == result.policy.confidence
    assert json.loads((tmp_path / "run" / "spec.json").read_text(encoding="utf-8"))["environment"] == "Line"


def test_a_policy_certifies_what_it_has_seen_and_nothing_else():
    agent = agents.lsvi_ae(beta_cost=0.1)
    policy = es.train(Ring(), agent, constraint=harm, horizon=5, episodes=20).policy
    assert policy.certify(0)[1] == 1
    assert policy.certify(2)[1] == -1
    assert policy.confidence.startswith("heuristic")


def test_what_was_never_tried_is_neither_safe_nor_unsafe():
    policy = es.train(Ring(), "lsvi-ae", constraint=harm, horizon=5, episodes=1).policy
    assert 0 in policy.certify(3)


def test_a_policy_with_printed_radii_states_when_its_labels_hold():
    agent = agents.lsvi_ae(radius="paper")
    policy = es.train(Ring(), agent, constraint=harm, horizon=5, episodes=2).policy
    assert "probability 0.95" in policy.confidence


def test_a_damaged_policy_is_refused_and_never_unpickled(tmp_path):
    result = es.train(Ring(), "lsvi-ae", constraint=harm, horizon=5, episodes=2)
    folder = result.policy.save(tmp_path / "policy")
    (folder / "policy.npz").write_bytes(b"\x80\x04K\x01.")
    with pytest.raises(EverystepError, match=r"has changed since it was saved"):
        Policy.load(folder)


# --- logged data -----------------------------------------------------------------------------------------------------
def test_a_warm_start_avoids_violations_in_the_logged_data():
    batch = from_env(Ring(), None, episodes=20, seed=3, constraint=harm)
    assert batch.violation > 0
    warm = es.train(Ring(), "lsvi-ae", constraint=harm, horizon=5, episodes=20, warm_start=batch)
    assert warm.columns["violation"].sum() == 0


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
    with pytest.raises(EverystepError, match=r"both must be the same: leave one at auto"):
        es.train(Ring(), agents.lsvi_ae(share_values=False, share_costs=True), constraint=harm, horizon=5)


def test_the_constraint_sees_both_observations_and_the_action_as_the_environment_counts_them():
    class Reusing(Line):
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


def test_a_function_as_features_is_given_again_and_touches_nothing_else(tmp_path):
    shape = lambda x: np.array([x[0], x[1], 1.0]) / 2
    phi, phi_cost = features.function(shape, d=3, crossed=True), features.polynomial(1)
    result = es.train(
        Line(), "lsvi-ae", constraint=harm_on_the_line, features=phi, cost_features=phi_cost, horizon=5, episodes=6
    )
    result.policy.save(tmp_path)
    with pytest.raises(EverystepError, match=r"a custom function"):
        Policy.load(tmp_path)
    obs = np.array([0.6, 0.8])
    for given in (shape, features.bind(phi, Line.observation_space, 2)):
        again = Policy.load(tmp_path, features=given)
        assert again(obs) == result.policy(obs)
        for one, other in zip(again.bounds(obs), result.policy.bounds(obs), strict=True):
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-12)


def test_a_run_by_regressors_is_saved_without_its_policy(tmp_path):
    tree = es.regression(lambda: DecisionTreeRegressor(max_depth=4, random_state=0))
    es.train(Ring(), agents.lsvi_ae(value=tree), constraint=harm, horizon=5, episodes=2).save(tmp_path / "run")
    assert sorted(path.name for path in (tmp_path / "run").glob("[!.]*")) == ["episodes.parquet", "spec.json"]


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


# --- what goes wrong --------------------------------------------------------------------------------------------------
class Faulty(Line):
    """Shows something else from some step on."""

    def __init__(self, wrong, at):
        super().__init__()
        self.wrong, self.at = wrong, at

    def see(self):
        return super().see() if self.steps < self.at else self.wrong


@pytest.mark.parametrize("wrong", [np.array([np.nan, 0.0], np.float32), np.zeros(3, np.float32), 1], ids=str)
@pytest.mark.parametrize("at", [0, 7, 10], ids=["at the very first", "within an episode", "at a reset"])
def test_an_observation_that_does_not_fit_ends_in_a_sentence_with_what_was_seen(wrong, at):
    kernel = "rbf(0.3, on=observation)*categorical(on=action)"
    for agent in (agents.lsvi_ae(), agents.lsvi_ae(value=es.kernel_values(kernel), cost=es.gp(kernel))):
        learner = es.Learner(
            Faulty(wrong, at), agent, constraint=lambda *step: -1.0, features=features.centres(3), horizon=5
        )
        with pytest.raises(BrokenError, match=r"episode \d") as caught:
            learner.train(4)
        assert at == 0 or len(caught.value.result.columns["return"]) in (2, 3)
    travelled = pickle.loads(pickle.dumps(caught.value))  # from a worker process
    assert (str(travelled), travelled.result) == (str(caught.value), None)


class Levers(gymnasium.Env):
    """Five levers, of which only the last is safe; an episode has 20 pulls."""

    observation_space, action_space = gymnasium.spaces.Discrete(1), gymnasium.spaces.Discrete(5)

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return 0, {}

    def step(self, action):
        self.t += 1
        return 0, 0.0, False, self.t == 20, {"constraint": -1.0 if action == 4 else 1.0}


def test_it_reacts_within_the_very_first_episode():
    unsafe = {}
    for react in (False, True):
        agent = agents.lsvi_ae(react=react, beta_cost=0.0, lam_cost=1e-6, floor=1000)
        unsafe[react] = es.train(Levers(), agent, episodes=1, length=20, horizon=2, seed=0).columns["unsafe_steps"][0]
    assert unsafe[True] <= 4 < unsafe[False]  # each unsafe lever once


def test_a_kernel_that_outgrows_memory_ends_in_a_sentence_and_the_learner_stays_usable(monkeypatch):
    monkeypatch.setattr(stored_agent, "MOST", 2e5)
    monkeypatch.setattr(stored_agent, "CAPACITY", 32)
    kernel = es.kernel_values("rbf(0.3, on=observation)*categorical(on=action)")
    learner = es.Learner(
        Line(), agents.lsvi_ae(value=kernel), constraint=harm_on_the_line, features=features.centres(3), horizon=5
    )
    with pytest.raises(BrokenError, match=r"a kernel on \d+ transitions would take .* GB; use features") as caught:
        learner.train(200)
    assert caught.value.result.policy([1.0, 0.0]) in (0, 1)


def test_a_box_of_actions_can_be_made_discrete_by_the_user():
    env = gymnasium.make("MountainCarContinuous-v0")
    pushes = [np.array([-1.0], np.float32), np.array([1.0], np.float32)]
    env = gymnasium.wrappers.TransformAction(env, lambda i: pushes[i], spaces.Discrete(len(pushes)))
    result = es.train(
        env, "lsvi-ae", constraint=lambda *step: -1.0, features=features.centres(3), horizon=3, length=3, episodes=2
    )
    assert len(result.columns["return"]) == 2


def test_an_environment_that_breaks_leaves_everything_until_then():
    learner = es.Learner(Ring(breaks_at=13), "lsvi-ae", constraint=harm, horizon=5)
    with pytest.raises(
        BrokenError, match=r"episode 3, step 3: the environment's step raised RuntimeError: a wheel"
    ) as caught:
        learner.train(10)
    result = caught.value.result
    assert list(result.columns["length"]) == [5, 5, 2]
    assert result.policy(0) in (0, 1)
    assert len(learner.train(2).columns["return"]) == 5  # and it can go on


@pytest.mark.parametrize(
    ("constraint", "words"),
    [
        (lambda *step: 1 / 0, "constraint function raised ZeroDivisionError"),
        (lambda *step: float("nan"), "constraint function returned nan"),
        (lambda *step: "much", "constraint function returned much"),
        (lambda x, a, after, info: [0.0] * (1 + after), "there are . constraints, and . before; give the same number"),
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


def test_the_optimum_of_a_published_table_is_reached_by_training_on_its_environment():
    env = gymnasium.make("FrozenLake-v1", is_slippery=False, max_episode_steps=8)
    problem = es.gym.from_toy_text(env, horizon=8)
    fell = lambda obs, a, after, info: 1.0 if after in (5, 7, 11, 12) else -1.0
    result = es.train(env, "lsvi-ae", constraint=fell, horizon=8, episodes=60)
    assert result.columns["return"][-3:].mean() == pytest.approx(planner.solve(problem).value)


# --- folders ----------------------------------------------------------------------------------------------------------
def test_a_policy_of_another_format_is_refused_in_a_sentence(tmp_path):
    es.train(Ring(), "lsvi-ae", constraint=harm, horizon=5, episodes=2).policy.save(tmp_path)
    content = json.loads((tmp_path / "policy.json").read_text(encoding="utf-8"))
    (tmp_path / "policy.json").write_text(json.dumps(content | {"format": 7}), encoding="utf-8")
    with pytest.raises(EverystepError, match=r"has format 7, and this version reads format 1; load it"):
        Policy.load(tmp_path)


def test_the_spec_of_a_training_run_has_its_kind_and_is_not_read_as_an_experiment(tmp_path):
    result = es.train(Ring(), agents.lsvi_ae(radius="paper"), constraint=harm, horizon=5, episodes=2)
    result.save(tmp_path / "run")
    result.save(tmp_path / "run")  # the same run again
    spec = json.loads((tmp_path / "run" / "spec.json").read_text(encoding="utf-8"))
    assert (spec["kind"], spec["format"], spec["confidence"]) == ("training", 2, 0.05)
    assert spec["guarantee"] == result.policy.confidence
    with pytest.raises(EverystepError, match=r"holds a training, not an experiment"):
        run_folder.check_run(tmp_path / "run")

"""gymnasium: problems as environments, environments' tables as problems, six-value steps, names and pictures."""

import subprocess
import sys

import numpy as np
import pytest
from environments_for_tests.wrappers import CostOfSixValues

gymnasium = pytest.importorskip("gymnasium", reason="gymnasium is not installed: environments are not tested")
from gymnasium.utils.env_checker import check_env  # noqa: E402

import everystep as es  # noqa: E402
from everystep.environments.finite import rendering  # noqa: E402
from everystep.errors import EverystepError  # noqa: E402
from everystep.mdp import planner  # noqa: E402
from everystep.mdp.cmdp import Noise  # noqa: E402
from everystep.mdp.world import start_state, step  # noqa: E402
from everystep.problems import REGISTERED  # noqa: E402

pytestmark = pytest.mark.quick

IDS = [problem.gym_id for problem in REGISTERED.values()]
TAXI = max(name for name in gymnasium.registry if name.startswith("Taxi-v"))
CLIFF = next(name for name in ("CliffWalking-v1", "CliffWalking-v0") if name in gymnasium.registry)


@pytest.fixture(autouse=True)
def _no_screen(monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")


def random_problem(seed=0, S=6, A=3, H=4, m=2, **more):
    rng = np.random.default_rng(seed)
    g = rng.uniform(-1, 1, (m, S, A))
    g[:, :, 0] = -np.abs(g[:, :, 0])
    given = {"horizon": H, "noise": Noise(reward_sigma=0.1, cost_sigma=[0.2, 0.3][:m])} | more
    return es.FiniteCMDP(rng.dirichlet(np.ones(S), (S, A)), rng.random((S, A)), g, **given)


def played(env, seed, actions):
    """All that an environment gives while the actions are played, resetting when an episode is over."""
    given = [env.reset(seed=seed)]
    for action in actions:
        given.append(env.step(action))
        if given[-1][2] or given[-1][3]:
            given.append(env.reset())
    return repr(given)


# --- ids ------------------------------------------------------------------------------------------------------
def fresh(code):
    """What a new Python prints: names are registered on import, so that a used one shows nothing."""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_every_registered_problem_has_an_environment():
    assert None not in IDS
    assert {gymnasium.spec(gym_id).kwargs["problem"] for gym_id in IDS} == set(REGISTERED)


ORDERS = ["everystep, gymnasium", "gymnasium, everystep"]


@pytest.mark.parametrize("order", ORDERS)
def test_ids_are_registered_whichever_package_is_imported_first(order):
    code = f"import {order}\nprint(all(name in gymnasium.registry for name in {IDS}))"
    assert fresh(code) == "True"


@pytest.mark.parametrize("order", ORDERS)
def test_environments_are_made_after_register_envs_in_either_order(order):
    code = f"import {order}\ngymnasium.register_envs(everystep)\nenv = gymnasium.make('{IDS[0]}')"
    code += "\nprint(env.unwrapped.problem.name)"
    assert fresh(code) == "frozen-lake"


@pytest.mark.parametrize("imports", ["gymnasium", *ORDERS])
def test_environments_are_made_by_module_and_id(imports):
    modules = "'everystep', 'everystep.environments.finite.gym'"
    code = f"import {imports}\nfor module in {modules}: gymnasium.make(module + ':{IDS[0]}')"
    assert fresh(code) == ""


def test_es_gym_registers_the_ids_by_importing_gymnasium():
    code = f"import everystep as es\nes.gym\nimport gymnasium\nprint('{IDS[0]}' in gymnasium.registry)"
    assert fresh(code) == "True"


def test_importing_the_package_imports_neither_gymnasium_nor_numpy():
    code = "import sys, everystep\nprint({'gymnasium', 'numpy', 'jax', 'minari'} & set(sys.modules))"
    assert fresh(code) == "set()"


def test_finding_gymnasium_without_importing_it_does_not_lose_the_ids():
    """importlib.util.find_spec finds a module without importing it; a later import must still register the ids."""
    code = (
        "import sys, everystep, importlib.util\nassert importlib.util.find_spec('gymnasium')\n"
        f"import gymnasium\nprint('{IDS[0]}' in gymnasium.registry, *map(type, sys.meta_path))"
    )
    printed = fresh(code)
    assert printed.startswith("True")
    assert "RegisterOnImport" not in printed


def test_without_gymnasium_the_rest_of_the_package_works():
    hidden = "class Hide:\n  def find_spec(name, *_):\n    if name == 'gymnasium': raise ModuleNotFoundError(name)\n"
    code = f"import sys, everystep\n{hidden}sys.meta_path.insert(1, Hide)\n"
    code += "try: import gymnasium\nexcept ModuleNotFoundError: print(everystep.problems.bandit().name)"
    assert fresh(code) == "bandit-0"


def test_without_gymnasium_a_sentence_names_the_extra():
    code = "import sys, everystep\nsys.modules['gymnasium'] = None\ntry: everystep.gym"
    code += "\nexcept ValueError as e: print(e)"
    assert fresh(code).endswith("install it with pip install 'everystep[gym]'.")


# Gymnasium's checker takes an episode of one step for a mistake, which in a bandit it is not.
BANDITS = [name for name in IDS if "Bandit" in name]


@pytest.mark.parametrize("name", [name for name in IDS if name not in BANDITS])
def test_registered_environments_pass_gymnasiums_own_checks(name):
    check_env(gymnasium.make(name).unwrapped)  # warnings are errors here


@pytest.mark.parametrize("name", BANDITS)
def test_an_episode_of_a_bandit_is_one_step(name):
    env = gymnasium.make(name)
    assert env.reset(seed=0)[0] == 0
    _, reward, terminated, truncated, info = env.step(3)
    assert np.isfinite(reward)
    assert info["constraint"].shape == (1,)
    assert (terminated, truncated) == (False, True)


def test_settings_reach_the_problem():
    env = gymnasium.make(IDS[0], horizon=20, cost="realised")
    assert env.unwrapped.problem.horizon == 20
    assert env.unwrapped.problem.noise.cost_on_arrival is not None


# --- a problem as an environment --------------------------------------------------------------------------------
def test_a_seed_repeats_everything_and_another_does_not(lake):
    env = es.gym.make_env(random_problem())
    actions = np.random.default_rng(0).integers(0, 3, 30)
    assert played(env, 1, actions) == played(env, 1, actions)
    assert played(env, 1, actions) != played(env, 2, actions)


@pytest.mark.parametrize("start", [2, [0, 3, 5], np.full(6, 1 / 6)])
def test_the_environment_takes_the_steps_of_the_problem(start):
    """The same function on the same draws: a uniform one for the start, then uniform, normal, normals for each step."""
    problem = random_problem(start=start)
    env, rng = es.gym.make_env(problem), np.random.default_rng(7)
    for k in (1, 2, 3, 4):
        x, info = env.reset(seed=7 if k == 1 else None)
        assert x == start_state(problem.world, k, rng.random())
        assert info["constraint"].tolist() == info["mean_constraint"].tolist() == [0, 0]
        assert info["cost"] == 0
        for h in range(problem.horizon):
            assert env.h == h
            a = (x + h) % 3
            want = step(problem.world, h, x, a, rng.random(), rng.standard_normal(), rng.standard_normal(2))
            x, reward, terminated, truncated, info = env.step(a)
            assert (x, reward) == (want.x_next, want.reward)
            assert info["constraint"].tolist() == want.cost.tolist()
            assert info["cost"] == np.maximum(want.cost, 0).sum()
            assert (terminated, truncated) == (False, h == problem.horizon - 1)


def test_info_has_the_true_means_of_the_constraints():
    problem = random_problem()
    env = es.gym.make_env(problem)
    x, _ = env.reset(seed=0)
    info = env.step(2)[-1]
    assert info["mean_constraint"].tolist() == problem.g[:, 0, x, 2].tolist()
    assert info["constraint"].tolist() != info["mean_constraint"].tolist()


def test_problems_that_depend_on_the_step_are_stepped_through():
    P = np.zeros((3, 2, 1, 2))
    P[:, :, 0, 1] = 1
    r = np.arange(6.0).reshape(3, 2, 1)
    env = es.gym.make_env(es.FiniteCMDP(P, r, -np.ones((3, 2, 1)), horizon=3))
    env.reset(seed=0)
    assert [env.step(0)[1] for _ in range(3)] == [0, 3, 5]


def test_playing_the_safe_optimum_earns_its_value_without_violations(lake):
    best = planner.solve(lake)
    env = es.gym.make_env(lake)
    earned, harmed = np.zeros(600), 0.0
    x, _ = env.reset(seed=0)
    for k in range(len(earned)):
        for h in range(lake.horizon):
            x, reward, _, _, info = env.step(best.policy[h, x])
            earned[k] += reward
            harmed += info["cost"]
        x, _ = env.reset()
    assert harmed == 0
    assert abs(earned.mean() - best.value) < 4 * earned.std() / np.sqrt(len(earned))


def test_an_episode_may_start_in_any_state(lake):
    env = es.gym.make_env(lake)
    assert env.reset(options={"start": 42})[0] == 42
    assert env.reset(options={"start": np.int64(7)})[0] == 7
    assert env.reset(options={"minari_autoseed": False})[0] == 0


def test_what_an_environment_gives_is_not_changed_by_what_comes_later():
    env = es.gym.make_env(random_problem(noise=Noise()))
    env.reset(seed=0)
    info = env.step(1)[-1]
    info["constraint"][:] = 99
    assert (env.problem.world.g < 2).all()


@pytest.mark.parametrize("action", [-1, 3, 0.5, "left", None, np.array([0, 1])])
def test_an_unknown_action_is_refused_in_a_sentence(action):
    env = es.gym.make_env(random_problem())
    env.reset(seed=0)
    with pytest.raises(EverystepError, match=r"^action is .*; give a whole number from 0 to 2\.$"):
        env.step(action)


@pytest.mark.parametrize("action", [1, True, np.int32(1), np.array(1)])
def test_numbers_of_any_kind_are_actions(action):
    env = es.gym.make_env(random_problem())
    assert played(env, 0, [action]) == played(env, 0, [1])
    assert played(env, 0, [action]) != played(env, 0, [0])


def test_stepping_before_or_after_an_episode_is_refused():
    env = es.gym.make_env(random_problem())
    with pytest.raises(EverystepError, match="call reset"):
        env.step(0)
    env.reset(seed=0)
    for _ in range(4):
        env.step(0)
    with pytest.raises(EverystepError, match="over after 4 steps; call reset"):
        env.step(0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"problem": 3}, r"^problem is int; give an es.FiniteCMDP or the name of a problem\.$"),
        ({"problem": "frozen-lak"}, r"^no problem 'frozen-lak'\. Did you mean frozen-lake\?"),
        ({"problem": "frozen-lake", "horizn": 3}, r"^no setting 'horizn'\. Did you mean horizon\?"),
        ({"problem": "frozen-lake", "horizon": 0}, r"^horizon is 0; give a whole number of at least 1\.$"),
        ({"problem": "frozen-lake", "render_mode": "smell"}, r"^render_mode is 'smell'; choose ansi, rgb_array"),
        (
            {"problem": random_problem(), "horizon": 3},
            r"^horizon is not a setting of an environment made from a Finite",
        ),
    ],
)
def test_wrong_arguments_are_refused_in_a_sentence(arguments, message):
    with pytest.raises(EverystepError, match=message):
        es.gym.CMDPEnv(**arguments)


def test_a_wrong_problem_or_start_is_refused():
    with pytest.raises(EverystepError, match="P sums to"):
        es.gym.make_env(es.FiniteCMDP(np.full((2, 1, 2), 0.4), np.zeros((2, 1)), np.zeros((2, 1))))
    env = es.gym.make_env(es.problems.from_map(["S#G"]))
    with pytest.raises(EverystepError, match=r"^start is 3; give a whole number from 0 to 2\.$"):
        env.reset(options={"start": 3})
    with pytest.raises(EverystepError, match=r"^start is 1, which is never entered"):
        env.reset(options={"start": 1})


def test_environments_run_side_by_side():
    vector = gymnasium.make_vec(IDS[0], num_envs=3, vectorization_mode="sync")
    vector.reset(seed=0)
    info = vector.step(np.array([1, 2, 3]))[-1]
    assert info["constraint"].shape == (3, 1)
    assert info["cost"].shape == (3,)
    vector.close()


# --- pictures ---------------------------------------------------------------------------------------------------
def after_steps(problem, mode, actions=()):
    env = es.gym.make_env(problem, render_mode=mode)
    env.reset(seed=0)
    for action in actions:
        env.step(action)
    return env


def test_as_text_a_lake_is_its_map_with_the_agent_in_brackets():
    lines = after_steps(es.problems.from_map(["SFH", "F.G"]), "ansi").render().splitlines()
    assert lines == ["after 0 of 15 steps: the cell in row 1, column 1", "[S] F  H ", " F  .  G "]


def test_the_text_reports_an_unsafe_step():
    lake = es.problems.from_map(["SHF", "FFG"])
    assert "right: reward 0.01, constraint +1.00 (unsafe)" in after_steps(lake, "ansi", [2]).render()
    assert "unsafe" not in after_steps(lake, "ansi", [1]).render()


def test_as_text_a_terrain_shows_its_heights_in_tenths():
    hills = es.problems.terrain_from(np.array([[0.0, 1, 2], [1, 2, 3], [2, 3, 4]]), limit=2)
    text = after_steps(hills, "ansi").render()
    assert {"2", "5", "7"} <= set(text.split("\n", 1)[1])


def test_as_text_other_problems_list_their_actions():
    problem = random_problem(A=20, action_names=tuple("abcdefghijklmnopqrst"))
    text = after_steps(problem, "ansi").render()
    assert f"  b: mean constraint {problem.g[:, 0, 0, 1].max():+.2f}, " in text
    assert text.endswith("and 8 more actions\n")


@pytest.mark.parametrize("problem", [random_problem(), random_problem(S=200, A=14, m=1), "lake", "terrain"])
def test_a_picture_shows_where_the_agent_is(problem, lake):
    problem = {"lake": lake, "terrain": es.problems.terrain()}.get(problem) if isinstance(problem, str) else problem
    env = after_steps(problem, "rgb_array")
    first = env.render()
    assert first.dtype == np.uint8
    assert first.ndim == 3
    assert first.shape[2] == 3
    assert (env.render() == first).all()
    env.reset(options={"start": problem.states - 1})
    there = env.render()
    assert (there != first).any()
    env.reset(options={"start": int(problem.start[0])})
    assert (env.render() == first).all(), "what a frame adds is gone in the next"


def test_the_agent_is_drawn_on_its_cell(lake):
    """Blue is the agent's alone; the middle of its pixels lies in the cell of its state."""
    env = after_steps(lake, "rgb_array")
    for x in (0, 37, 99):
        env.reset(options={"start": x})
        frame = env.render().astype(int)
        rows, columns = np.nonzero((np.abs(frame - [0, 0x72, 0xB2]) < 12).all(-1))
        height, width = frame.shape[:2]
        top = height - width  # the map is square, under the words
        assert int((np.median(rows) - top) / width * 10) == x // 10
        assert int(np.median(columns) / width * 10) == x % 10


def test_a_window_shows_every_step(monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")  # no screen is needed
    pytest.importorskip("pygame", reason="pygame is not installed: the window is not tested")
    env = es.gym.make_env(random_problem(), render_mode="human")
    env.metadata = env.metadata | {"render_fps": 1000}
    env.reset(seed=0)
    env.step(0)
    shown = env._window.pygame.surfarray.array3d(env._window.surface).swapaxes(0, 1)
    assert (shown == env._picture.frame(env._now)).all()
    env.close()
    env.close()


def test_without_pygame_a_sentence_names_the_remedy(monkeypatch):
    monkeypatch.setitem(es.gym.CMDPEnv.metadata, "render_modes", ["ansi", "rgb_array"])
    with pytest.raises(EverystepError, match=r"needs pygame; install it .*, or use 'rgb_array'\.$"):
        es.gym.make_env(random_problem(), render_mode="human")
    monkeypatch.setitem(sys.modules, "pygame", None)
    with pytest.raises(EverystepError, match="needs pygame"):
        rendering.Window("lake", 4)


def test_rendering_too_early_or_without_a_mode_is_refused():
    env = es.gym.make_env(random_problem())
    with pytest.raises(EverystepError, match="call reset"):
        env.render()
    env.reset(seed=0)
    with pytest.raises(EverystepError, match="render_mode is None; make the environment with one of ansi"):
        env.render()


# --- six values -------------------------------------------------------------------------------------------------
def test_six_values_and_back_are_the_same_environment():
    plain = es.gym.make_env(random_problem())
    there_and_back = es.gym.FromSixValueStep(es.gym.SixValueStep(es.gym.make_env(random_problem())))
    actions = np.random.default_rng(0).integers(0, 3, 20)
    assert played(plain, 3, actions) == played(there_and_back, 3, actions)


def test_the_third_of_six_values_is_the_cost():
    env = es.gym.SixValueStep(es.gym.make_env(random_problem()))
    env.reset(seed=0)
    obs, reward, cost, terminated, truncated, info = env.step(1)
    assert cost == info["cost"] == np.maximum(info["constraint"], 0).sum()
    assert obs in env.observation_space
    assert isinstance(reward, float)
    assert (terminated, truncated) == (False, False)


def test_the_cost_of_six_values_becomes_a_signed_constraint():
    env = es.gym.FromSixValueStep(CostOfSixValues(es.gym.make_env(random_problem())), limit=1.5)
    env.reset(seed=0)
    infos = [env.step(action)[-1] for action in (0, 1, 2)]
    assert [info["constraint"].tolist() for info in infos] == [[-1.5], [-0.5], [0.5]]
    assert [info["cost"] for info in infos] == [0, 0, 0.5]


def test_wrappers_name_what_is_missing():
    bare = es.gym.SixValueStep(gymnasium.make("FrozenLake-v1"))
    bare.reset(seed=0)
    with pytest.raises(EverystepError, match=r"^info has neither 'constraint' nor 'cost' \(it has prob\)"):
        bare.step(0)
    five = es.gym.FromSixValueStep(es.gym.make_env(random_problem()))
    five.reset(seed=0)
    with pytest.raises(EverystepError, match="returns 5 values, not six"):
        five.step(0)
    with pytest.raises(EverystepError, match="limit is nan"):
        es.gym.FromSixValueStep(es.gym.make_env(random_problem()), limit=np.nan)


# --- an environment's table as a problem -------------------------------------------------------------------------
def optimum(table, start, horizon, unsafe=lambda x, a: False):
    """The optimum straight from a table as gymnasium publishes it: early ends are early ends here."""
    V = np.zeros(len(table))
    for _ in range(horizon):
        V = np.array(
            [
                max(
                    sum(p * (r + (0 if end else V[y])) for p, y, r, end in table[x][a])
                    for a in table[x]
                    if not unsafe(x, a)
                )
                for x in range(len(table))
            ]
        )
    return start @ V


def chance_of(table, x, a, what):
    return sum(line[0] for line in table[x][a] if what(line))


@pytest.mark.parametrize("settings", [{}, {"map_name": "8x8"}, {"is_slippery": False}, {"success_rate": 0.8}])
def test_gymnasiums_lake_becomes_a_problem_with_the_same_optima(settings):
    env = gymnasium.make("FrozenLake-v1", **settings).unwrapped
    problem = es.gym.from_toy_text(env, horizon=30)
    holes = (env.desc.reshape(-1) == b"H").tolist()
    falls = lambda x, a: not holes[x] and chance_of(env.P, x, a, lambda line: holes[line[1]]) > 0.5
    start = env.initial_state_distrib
    assert planner.solve(problem, safe=False).value == pytest.approx(optimum(env.P, start, 30), abs=1e-12)
    assert planner.solve(problem).value == pytest.approx(optimum(env.P, start, 30, falls), abs=1e-12)
    assert problem.grid.rows == tuple("".join(row) for row in env.desc.astype(str))


def test_the_holes_of_a_lake_are_its_constraint():
    env = gymnasium.make("FrozenLake-v1", is_slippery=False)
    problem = es.gym.from_toy_text(env, horizon=10)
    assert problem.g[0, 0, 1].tolist() == [-1, 1, -1, -1]  # the hole at row 2, column 2 is below cell 1
    assert (problem.g[0, 0, 5] == -1).all()
    assert problem.dense_P[0, 5, :, 5].tolist() == [1, 1, 1, 1]
    assert (problem.r[0, [5, 15]] == 0).all()


def test_tolerance_is_the_allowed_probability_of_a_fall():
    env = gymnasium.make("FrozenLake-v1")
    into_a_hole = lambda line: line[1] in (5, 7, 11, 12)
    falls = np.array([[chance_of(env.unwrapped.P, x, a, into_a_hole) for a in range(4)] for x in (0, 4, 6, 10)])
    for tolerance in (0.4, 0.5, 0.8):
        g = es.gym.from_toy_text(env, horizon=5, tolerance=tolerance).g[0, 0, [0, 4, 6, 10]]
        assert ((g > 0) == (falls > tolerance)).all()
        assert np.abs(g).max() <= 1
    strict = es.gym.from_toy_text(env, horizon=5, tolerance=0.2)
    assert "1 state has no safe action (the cell in row 2, column 3)" in strict.check()[0]


def test_what_is_seen_in_the_problem_is_what_happens_in_the_lake():
    env = es.gym.make_env(es.gym.from_toy_text(gymnasium.make("FrozenLake-v1", is_slippery=False), horizon=6))
    env.reset(seed=0)
    down, right = 1, 2
    seen = [env.step(action)[:2] + (env._now.cost[0],) for action in (right, down, down)]
    assert seen == [(1, 0, -1), (5, 0, 1), (5, 0, -1)]  # into the hole, and there it stays without further violations


@pytest.mark.parametrize("slippery", [False, True])
def test_the_cliff_becomes_a_problem(slippery):
    """Slipping, one action may lead to the start both by the cliff and by standing still: means are kept."""
    env = gymnasium.make(CLIFF, is_slippery=slippery).unwrapped
    cliff = lambda obs, action, obs_next, info: info["reward"] <= -100 or -1
    problem = es.gym.from_toy_text(env, horizon=25, constraint=cliff)
    falls = lambda x, a: x not in range(37, 48) and chance_of(env.P, x, a, lambda line: line[2] <= -100) > 0.5
    start = env.initial_state_distrib
    assert planner.solve(problem).value == pytest.approx(optimum(env.P, start, 25, falls))
    assert planner.solve(problem, safe=False).value == pytest.approx(optimum(env.P, start, 25))
    assert slippery or planner.solve(problem).value == -13


def test_the_taxi_becomes_a_problem_with_two_constraints():
    env = gymnasium.make(TAXI).unwrapped
    rules = lambda obs, action, obs_next, info: [1.0 if info["reward"] == -10 else -1.0, -0.5]
    problem = es.gym.from_toy_text(env, horizon=20, constraint=rules)
    assert (problem.states, problem.constraints) == (500, 2)
    assert planner.solve(problem).value == pytest.approx(optimum(env.P, env.initial_state_distrib, 20))


class Tabular:
    """A custom environment that is only a table."""

    def __init__(self, P, **more):
        self.P = P
        vars(self).update(more)


SAFE = lambda obs, action, obs_next, info: -1.0
GOOD = {0: {0: [(1.0, 1, 1.0, True)]}, 1: {0: [(1.0, 1, 0.0, True)]}}


def test_a_custom_table_needs_only_a_start():
    problem = es.gym.from_toy_text(Tabular(GOOD), horizon=3, constraint=SAFE, start=0)
    assert planner.solve(problem).value == 1


@pytest.mark.parametrize(
    ("env", "more", "message"),
    [
        (object(), {}, r"^object publishes no table P .* with es\.train\.$"),
        (Tabular({0: {0: []}, 1: {}}), {}, r"^the table P of Tabular is incomplete"),
        (Tabular({0: {0: [(1.0, 2, 0.0, False)]}}), {}, r"^P\[0\]\[0\] has the outcome \(1\.0, 2, 0\.0, False\); give"),
        (Tabular({0: {0: [(1.0, 0)]}}), {}, r"^P\[0\]\[0\] has the outcome"),
        (Tabular(GOOD), {"start": None}, r"^Tabular has no initial_state_distrib; give start="),
        (Tabular(GOOD), {"start": 2}, r"^start is 2; give a state from 0 to 1"),
        (Tabular(GOOD), {"start": 1}, r"^state 1 ends an episode on one arrival and not on another"),
        (Tabular(GOOD), {"constraint": None}, r"has no map with holes; give constraint="),
        (Tabular(GOOD), {"constraint": 3}, r"^constraint is 3; give a function"),
        (Tabular(GOOD), {"constraint": lambda *_: np.nan}, r"^the constraint function returned nan at observation 0"),
        (Tabular(GOOD), {"constraint": lambda *_: 1 / 0}, r"^the constraint function raised ZeroDivisionError"),
        (Tabular(GOOD), {"constraint": lambda *_: 7}, r"^g is 7 at state 0"),
        (Tabular(GOOD), {"horizon": "long"}, r"^horizon is long; give a whole number"),
        (Tabular({0: {0: [(0.5, 0, 0.0, False)]}}), {}, r"^P sums to 0\.5"),
    ],
)
def test_a_wrong_table_is_refused_in_a_sentence(env, more, message):
    with pytest.raises(EverystepError, match=message):
        es.gym.from_toy_text(env, **({"horizon": 3, "constraint": SAFE, "start": 0} | more))


def test_a_wrong_tolerance_is_refused():
    with pytest.raises(EverystepError, match=r"^tolerance is 2; give a probability"):
        es.gym.from_toy_text(gymnasium.make("FrozenLake-v1"), horizon=3, tolerance=2)

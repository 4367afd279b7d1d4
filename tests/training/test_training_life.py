"""The life of a training: saved, loaded, killed, damaged and continued. Resumed is uninterrupted, bit for bit."""

import json
import multiprocessing
import os
import shutil
import signal

import drifting
import gymnasium
import jax
import numpy as np
import pytest
import seeds
from drifting import EPISODES, Drift, check_same, options, train
from sklearn.tree import DecisionTreeRegressor

import everystep as es
from everystep import agents, files
from everystep.errors import EverystepError
from everystep.experiments import runner, summary
from everystep.experiments.folder import finished, run_folder
from everystep.reports.training import learnt
from everystep.training.folder import checkpoint, env_state, plain_values, training_folder
from everystep.training.folder.plain_values import UnknownContentError, from_plain, to_plain
from everystep.training.result import BrokenError

LAKE = es.problems.from_map(["SFG", "FHF"], horizon=4)
STARTS = es.FiniteCMDP(
    np.ones((3, 2, 3)) / 3, np.eye(3)[:, :2], np.array([[-1, 1], [-1, -1], [1, -1]]) / 2, start=[0, 2, 1, 1], horizon=4
)

RARE = agents.lsvi_ae(switch=1000)


@pytest.fixture
def checkpoint_after_every_episode(monkeypatch):
    monkeypatch.setattr(training_folder, "EVERY", 0)
    monkeypatch.setattr(training_folder, "COST", 0)


@pytest.fixture(scope="module")
def whole():
    """The training of `drifting`, uninterrupted."""
    with jax.enable_x64(True):
        return train(None)


@pytest.fixture
def saved(tmp_path):
    """A learner after three episodes, in a folder."""
    learner = es.Learner(Drift(), "lsvi-ae", **options())
    learner.play(3)
    return learner.save(tmp_path / "learner")


# --- save and load ----------------------------------------------------------------------------------------------------
def everything(learner):
    """All that a learner holds but its arguments and the plan in force, as arrays; texts and numbers as their bytes."""
    arrays, agent = {}, learner.agent
    held = {f"agent.{name}": value for name, value in vars(agent).items()} | vars(learner)
    made_again = {
        "recipe",
        "stage",
        "resolved",
        "requested",
        "agent",
        "agent.resolved",
        "agent.agent",
        "agent.plan_in_force",
        "_as_arrays",
    }
    plain = {name: to_plain(value, arrays, name) for name, value in held.items() if name not in made_again}
    return arrays | {"plain": np.frombuffer(json.dumps(plain).encode(), np.uint8)}


def check_resumed(tmp_path, make, given, agent="lsvi-ae", **arguments):
    """Train on after saving and loading, twice, and compare with a learner that was never saved."""
    uninterrupted, learner = (es.Learner(make(), agent, **arguments) for _ in range(2))
    learner.play(2)
    learner.save(tmp_path / "learner")
    learner = es.Learner.load(tmp_path / "learner", make(), **given)
    learner.play(3)
    learner.save(tmp_path / "learner")
    learner = es.Learner.load(tmp_path / "learner", make(), **given)
    uninterrupted.play(5)
    check_same(learner.train(4), uninterrupted.train(4))
    one, other = everything(learner), everything(uninterrupted)
    assert one.keys() == other.keys()
    for name, array in one.items():
        assert array.dtype == other[name].dtype
        np.testing.assert_array_equal(array, other[name], err_msg=name)
    return learner


@pytest.mark.parametrize(
    ("agent", "memory"),
    [("lsvi-ae", None), (agents.lsvi_ahead(), 16), (RARE, None)],
    ids=["every-episode", "look-ahead-merged", "rare"],
)
def test_crossed_features_go_on_as_if_never_stopped(tmp_path, agent, memory):
    resumed = check_resumed(tmp_path, Drift, {}, agent=agent, **options(memory=memory))
    assert resumed.agent.merged == (memory is not None)
    assert 1 < resumed.plans < 6 if agent == RARE else resumed.plans == 9


def test_one_hot_features_and_a_sequence_of_starts_go_on_as_if_never_stopped(tmp_path):
    check_resumed(tmp_path, lambda: es.gym.make_env(STARTS), {}, agent="lsvi-ae")


def test_copies_and_custom_functions_go_on_as_if_never_stopped(tmp_path):
    make = lambda: gymnasium.vector.SyncVectorEnv([Drift, Drift])
    given = {
        "constraint": lambda obs, action, obs_next, info: obs_next[0] - 0.5,
        "features": es.features.function(lambda x: np.array([1.0, *x]) / 2, crossed=True),
    }
    check_resumed(tmp_path, make, given, cost_features=es.features.polynomial(1), **options(**given))


def test_an_environment_with_a_generator_of_its_own_is_restored_or_it_is_said(tmp_path):
    class Hidden(Drift):
        """Draws from a generator that nothing can find."""

        hidden = np.random.default_rng(0)

        def reset(self, *, seed=None, options=None):
            self.x = self.hidden.uniform(-0.5, 0.5, 2)
            return self.x.copy(), {}

        np_random = hidden

    class Own(Hidden):
        """Draws from one among its attributes."""

        def reset(self, *, seed=None, options=None):
            if seed is not None:
                self.__dict__["np_random"] = self.own = np.random.default_rng(seed)
            self.x = self.own.uniform(-0.5, 0.5, 2)
            return self.x.copy(), {}

    check_resumed(tmp_path, Own, {}, **options())
    learner = es.Learner(Hidden(), "lsvi-ae", **options())
    learner.play(2)
    learner.save(tmp_path / "hidden")
    found = (
        es.Learner.load(
            tmp_path / "hidden",
            Hidden(),
        )
        .result()
        .remarks
    )
    assert any("no generator of NumPy was found in it): the episodes after resuming differ" in each for each in found)


@pytest.mark.quick
def test_an_environment_that_never_drew_is_not_trusted():
    class Still(Drift):
        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self._np_random = np.random.default_rng(seed)
            return np.zeros(2), {}

    stage, arrays = es.Learner(Still(), "lsvi-ae", **options()).stage, {}
    stage.reset(1)
    state = env_state.save(stage, arrays)
    assert "never drew from its np_random; if it draws elsewhere" in env_state.restore(stage, state, arrays)


def test_with_reseed_an_episode_depends_on_the_seed_and_its_number(tmp_path):
    seeds_given = []

    class Noted(Drift):
        def reset(self, *, seed=None, options=None):
            seeds_given.append(seed)
            return super().reset(seed=seed)

    check_resumed(tmp_path, Noted, {}, **options(reseed=True))
    first, then = seeds_given[:5], seeds_given[10:14]
    assert len({*first, *then}) == 9
    assert seeds_given == [*first, *first, *then, *then]  # resumed twice, uninterrupted; and both again


def test_a_saved_learner_is_replaced_and_its_old_arrays_are_removed(saved):
    es.Learner.load(saved, Drift()).save(saved)
    assert len(list(saved.iterdir())) == 3
    learner = es.Learner.load(saved, Drift())
    learner.play(1)
    learner.save(saved)
    assert len(list(saved.iterdir())) == 3


def test_a_learner_without_data_is_saved_with_its_seed(tmp_path):
    es.Learner(Drift(), "lsvi-ae", **options()).save(tmp_path / "learner")
    loaded, fresh = es.Learner.load(tmp_path / "learner", Drift()), es.Learner(Drift(), "lsvi-ae", **options())
    check_same(loaded.train(2), fresh.train(2))


# --- what does not fit, and damage ------------------------------------------------------------------------------------
def sentence(call, *given, **named):
    with pytest.raises(EverystepError) as caught:
        call(*given, **named)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_another_environment_agent_or_features_are_refused_by_name(saved):
    load = es.Learner.load
    assert "environment 'Drift', not 'CMDPEnv'" in sentence(
        load, saved, es.gym.make_env(LAKE), features=es.features.one_hot()
    )
    assert "agent 'lsvi-ae', not 'lsvi'" in sentence(load, saved, Drift(), "lsvi")
    assert "setting beta 0.4, not 0.7" in sentence(load, saved, Drift(), agents.lsvi_ae(beta=0.7))
    assert "with features 'kind=" in sentence(load, saved, Drift(), features=es.features.fourier(6, seed=1))
    assert "constraint 'read from info', not 'a function'" in sentence(load, saved, Drift(), constraint=lambda *_: 0)

    class Other(Drift):
        observation_space = gymnasium.spaces.Box(-2, 2, (2,), np.float64)

    Other.__name__ = "Drift"  # the environment is known by its id, else by its class
    assert "observation space 'Box(-1.0, 1.0" in sentence(load, saved, Other())


@pytest.mark.quick
def test_another_problem_or_other_settings_of_an_environment_are_told_apart():
    of = lambda env: checkpoint.identity(es.Learner(env, "lsvi-ae", horizon=4))["environment settings"]
    assert of(es.gym.make_env(LAKE)) == of(es.gym.make_env(es.problems.from_map(["SFG", "FHF"], horizon=4)))
    assert of(es.gym.make_env(LAKE)) != of(es.gym.make_env(es.problems.from_map(["SFG", "FFF"], horizon=4)))
    lake = lambda **given: gymnasium.make("FrozenLake-v1", **given)
    assert of(lake(is_slippery=False)) == of(lake(is_slippery=False, render_mode="ansi")) != of(lake())


def test_another_format_or_version_is_refused(saved):
    path = saved / "learner.json"
    text = path.read_text()
    for field, new, words in (("format", 99, "has format 99"), ("versions", {"everystep": "9"}, "by everystep 9")):
        path.write_text(json.dumps(json.loads(text) | {field: new}))
        assert words in sentence(es.Learner.load, saved, Drift())
    content = json.loads(text)
    del content["checksum"]
    content["versions"]["numpy"] = "1.0"
    path.write_text(json.dumps(content | {"checksum": checkpoint._checksum(content)}))
    assert "numpy 1.0 before" in str(es.Learner.load(saved, Drift()).result())
    del content["agent"]["plans"]
    path.write_text(json.dumps(content | {"checksum": checkpoint._checksum(content)}))
    assert "by another version, whose state differs" in sentence(es.Learner.load, saved, Drift())


def test_a_learner_whose_content_has_another_form_shows_no_transitions(saved):
    path = saved / "learner.json"
    content = json.loads(path.read_text())
    del content["checksum"]
    content["learner"]["recent"] = {"list": {"records": "Batch", "columns": 1.5, "count": 1}}
    path.write_text(json.dumps(content | {"checksum": checkpoint._checksum(content)}))
    assert learnt._recent(saved) == ()
    assert "by another version, whose state differs" in sentence(es.Learner.load, saved, Drift())


def test_every_damage_is_found(saved):
    rng = seeds.generator()
    for path in (each for each in saved.iterdir() if not each.name.startswith(".")):
        whole = path.read_bytes()
        damaged = [b"", whole[: len(whole) // 2], whole[:-2], whole + b"x"]
        for at in rng.integers(0, len(whole), 10):
            damaged.append(whole[:at] + b"#" + whole[at + 1 :])
        for content in damaged:
            if content != whole:
                path.write_bytes(content)
                assert "learner '" in sentence(es.Learner.load, saved, Drift())
        path.unlink()
        assert "cannot be read" in sentence(es.Learner.load, saved, Drift())
        path.write_bytes(whole)
    assert es.Learner.load(saved, Drift()).number == 4


def test_regressors_are_refused_and_functions_must_be_passed_again(tmp_path):
    trees = agents.lsvi_ae(value=es.regression(DecisionTreeRegressor))
    assert "regressors cannot be saved" in sentence(es.Learner(Drift(), trees, **options()).save, tmp_path / "learner")
    assert "regressors cannot be saved" in sentence(train, tmp_path / "out", agent=trees)
    kernel = es.kernels.Custom(lambda y, z: 1.0, on="observation") * es.kernels.read("categorical(on=action)")
    learner = es.Learner(Drift(), agents.lsvi_ae(cost=es.gp(kernel)), constraint=lambda *_: 0, **options())
    learner.save(tmp_path / "learner")
    assert "give agent= again" in sentence(es.Learner.load, tmp_path / "learner", Drift())
    assert "give constraint= again" in sentence(es.Learner.load, tmp_path / "learner", Drift(), learner.recipe)
    assert es.Learner.load(tmp_path / "learner", Drift(), learner.recipe, constraint=lambda *_: 0).number == 1


# --- in a folder ------------------------------------------------------------------------------------------------------
def test_a_folder_holds_the_result_and_more_episodes_go_on(tmp_path, whole, checkpoint_after_every_episode):
    out = tmp_path / "out"
    train(out, episodes=5)
    check_same(train(out), whole)
    played = []
    check_same(train(out, progress=played.append), whole)
    assert not played
    assert {each.name for each in out.iterdir()} == {
        ".everystep.sha256", "episodes.parquet", "learner", "policy", "spec.json",
    }  # fmt: skip
    check_same(es.Learner.load(out / "learner", Drift()).result(), whole)
    assert es.Policy.load(out / "policy")(np.zeros(2)) == whole.policy(np.zeros(2))
    assert f"holds {EPISODES - 2} episodes more than asked for" in str(train(out, episodes=2))


def test_the_last_episodes_without_exploration_go_on_as_such(tmp_path, checkpoint_after_every_episode):
    def stop(_):
        raise ValueError("enough")

    uninterrupted = train(None, without_exploration=4)
    for _ in range(EPISODES):
        with pytest.raises(ValueError, match="enough"):
            train(tmp_path / "out", without_exploration=4, progress=stop)
    check_same(train(tmp_path / "out", without_exploration=4), uninterrupted)


def test_other_arguments_are_refused_by_name(tmp_path):
    out = tmp_path / "out"
    train(out, episodes=2)
    assert "seed 3, not 4; give the same, or choose another folder" in sentence(train, out, seed=4)
    logged = es.logged.from_env(Drift(), None, episodes=1)
    assert "warm_start None, not 'logged data" in sentence(train, out, warm_start=logged)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").touch()
    assert "holds other files" in sentence(train, tmp_path / "other")
    (tmp_path / "bare" / ".work").mkdir(parents=True)
    assert "without its spec.json" in sentence(train, tmp_path / "bare")
    train(None, episodes=1).save(tmp_path / "saved")
    assert "without its learner" in sentence(train, tmp_path / "saved")


def test_logged_data_are_learnt_once(tmp_path, checkpoint_after_every_episode):
    def stop(_):
        raise ValueError("enough")

    logged = es.logged.from_env(Drift(), None, episodes=2)
    for _ in range(2):
        with pytest.raises(ValueError, match="enough"):
            train(tmp_path / "out", warm_start=logged, progress=stop)
    check_same(train(tmp_path / "out", warm_start=logged), train(None, warm_start=logged))


def test_a_folder_in_use_or_with_a_changed_file_is_refused(tmp_path):
    out = tmp_path / "out"
    result = train(out, episodes=2)
    with files.held(out, out / "pid"):
        assert "is in use by another process" in sentence(train, out)
    (out / "episodes.parquet").write_text("mine")
    check_same(train(out, episodes=2), result)  # nothing has to be written
    assert "changed since; move it away, or choose another folder" in sentence(train, out)


def test_ctrl_c_while_the_finished_folder_is_written_waits(tmp_path, monkeypatch, whole):
    finish, before = training_folder._Keeper.finish, signal.signal(signal.SIGINT, signal.default_int_handler)

    def interrupted(*given):
        os.kill(os.getpid(), signal.SIGINT)
        finish(*given)

    monkeypatch.setattr(training_folder._Keeper, "finish", interrupted)
    try:
        check_same(train(tmp_path / "out"), whole)
    finally:
        signal.signal(signal.SIGINT, before)
    assert not run_folder.is_unfinished(tmp_path / "out")


def test_ctrl_c_keeps_everything_and_the_same_call_goes_on(tmp_path):
    calls = iter(range(1000))

    def stop():
        if next(calls) == 9:
            raise KeyboardInterrupt

    out = tmp_path / "out"
    result = train(out, Drift(stop))
    assert len(result.columns["return"]) == 3
    assert "stopped by Ctrl-C" in str(result)
    assert "goes on" in str(result)
    for read in (result.save, summary.text, finished.read, runner.check_unfinished):
        assert "holds an unfinished training" in sentence(read, out)
    after = train(out)
    assert len(after.columns["return"]) == EPISODES
    for read in (summary.text, finished.read, runner.check_unfinished):
        assert "holds a training run, not an experiment" in sentence(read, out)
    for name, column in result.columns.items():
        np.testing.assert_array_equal(after.columns[name][:3], column)


def test_an_error_of_the_environment_keeps_everything(tmp_path):
    calls = iter(range(1000))

    def stop():
        if next(calls) == 9:
            raise RuntimeError("a wheel came off")

    with pytest.raises(BrokenError, match="a wheel came off") as caught:
        train(tmp_path / "out", Drift(stop))
    kept = caught.value.result.columns["return"]
    np.testing.assert_array_equal(train(tmp_path / "out").columns["return"][: len(kept)], kept)


def test_a_full_disk_stops_training_with_its_result(tmp_path, monkeypatch, checkpoint_after_every_episode):
    def full(*given):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint, "write", full)
    with pytest.raises(BrokenError, match="No space left") as caught:
        train(tmp_path / "out")
    assert len(caught.value.result.columns["return"]) == 1


def test_a_damaged_checkpoint_costs_the_episodes_since_the_one_before(
    tmp_path, whole, capsys, checkpoint_after_every_episode
):
    played = iter(range(EPISODES))

    def stop(_):
        if next(played) == 4:
            raise ValueError("enough")

    out = tmp_path / "out"
    with pytest.raises(ValueError, match="enough"):
        train(out, progress=stop)
    checkpoints = sorted((out / ".work").glob("checkpoint-*"))
    assert len(checkpoints) == 2
    (checkpoints[1] / "learner.json").write_text("{}")
    shutil.copytree(out, tmp_path / "copy")
    check_same(train(out), whole)
    assert "The one before it is used" in capsys.readouterr().err
    (tmp_path / "copy" / ".work" / checkpoints[0].name / "learner.json").unlink()
    assert "to start again" in sentence(train, tmp_path / "copy")


class Killed(BaseException):
    """Nothing catches it, and after it nothing reaches the disk."""


class Deadline:
    """Ends a training at a given moment: a step of the environment, or an operation on files, of which half is done."""

    def __init__(self, monkeypatch):
        self.moment, self.last = 0, None
        for module, names in ((os, ("replace", "unlink", "mkdir", "rmdir", "fsync")), (shutil, ("rmtree",))):
            for name in names:
                monkeypatch.setattr(module, name, self.watched(name, getattr(module, name)))

    def watched(self, name, operation):
        def watch(*given, **named):
            try:
                self.tick()
            except Killed:
                if name == "fsync" and self.moment == self.last and not os.path.isdir(f"/proc/self/fd/{given[0]}"):
                    os.truncate(given[0], os.fstat(given[0]).st_size // 2)  # not all of it was on the disk
                raise
            return None if name == "fsync" else operation(*given, **named)

        return watch

    def tick(self):
        self.moment += 1
        if self.last is not None and self.moment >= self.last:
            raise Killed

    def set(self, last):
        self.moment, self.last = 0, last


def test_twenty_kills_at_random_moments_lose_nothing(tmp_path, whole, monkeypatch):
    rng, deadline = seeds.generator(), Deadline(monkeypatch)
    monkeypatch.setattr(training_folder._Keeper, "commit_if_due", drifting.commit_at_random(rng))
    check_same(train(tmp_path / "undisturbed", Drift(deadline.tick)), whole)
    life, kills, number = deadline.moment, 0, 0
    while kills < 20:
        out = tmp_path / str(number)
        deadline.set(int(rng.integers(1, life)))
        try:
            result = train(out, Drift(deadline.tick))
        except Killed:
            kills += 1
        else:
            check_same(result, whole)
            number += 1
    deadline.set(None)
    for each in range(number + 1):
        check_same(train(tmp_path / str(each)), whole)
        names = {str(path.relative_to(tmp_path / str(each))) for path in (tmp_path / str(each)).rglob("*")}
        left = {str(path.relative_to(tmp_path / "undisturbed")) for path in (tmp_path / "undisturbed").rglob("*")}
        assert names == left


def test_two_processes_killed_with_sigkill(tmp_path, whole):
    multiprocessing.set_forkserver_preload(["everystep.training.folder.training_folder", "drifting"])
    rng = seeds.generator()
    for most in (20, 30):
        assert drifting.kill_after(int(rng.integers(1, most)), tmp_path / "out", EPISODES) is not None
    check_same(train(tmp_path / "out"), whole)


# --- values as JSON and arrays ----------------------------------------------------------------------------------------
@pytest.mark.quick
@pytest.mark.parametrize(
    "value",
    [
        None, True, -3, 0.1, float("inf"), "text", [], (), {}, [1, 2], [1.5, None], (1, "a", [2.0]), [True, False],
        {"a": [1], "b": {"c": 2}}, {b"ab": 1, b"abc": 2}, {1: "x"}, [2**70, 1], [None, None], [[], [1]],
    ],
    ids=str,
)  # fmt: skip
def test_plain_values_come_back(value):
    arrays = {}
    found = from_plain(json.loads(json.dumps(to_plain(value, arrays, "x"))), arrays)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.quick
@pytest.mark.parametrize(
    "value",
    [
        np.arange(3), np.zeros((2, 0)), np.array(4), [np.arange(2), np.arange(3)], [np.ones(2)] * 3, [np.array(1)] * 2,
        [np.int64(3), np.int64(4)], [None, np.ones((2, 2)), np.ones((1, 2))], [np.ones(1), np.ones((2, 2))],
    ],
    ids=str,
)  # fmt: skip
def test_arrays_come_back(value):
    arrays = {}
    found = from_plain(json.loads(json.dumps(to_plain(value, arrays, "x"))), arrays)
    assert str(found) == str(value)
    assert jax.tree.map(lambda x: x.dtype, found) == jax.tree.map(lambda x: x.dtype, value)


@pytest.mark.quick
def test_nothing_else_is_saved():
    for value in (object(), lambda: 0, [object()], np.array([object()]), Drift()):
        with pytest.raises(UnknownContentError):
            to_plain(value, {}, "x")
    for content in ({"record": "Path", "fields": {}}, {"generator": {"bit_generator": "seed"}}, {"list": {"each": 1}}):
        with pytest.raises((KeyError, ValueError, TypeError)):
            from_plain(content, {})


@pytest.mark.quick
@pytest.mark.parametrize("wrong", ["x", True, 1.5, [1], {}])
def test_a_restored_value_is_of_the_kind_of_the_one_just_made(wrong):
    assert plain_values.alike(3, 2) == 3
    assert plain_values.alike((1, 2.0), (0.5, 0.5)) == (1, 2.0)
    assert plain_values.alike(wrong, None) is wrong
    with pytest.raises(ValueError, match="another kind"):
        plain_values.alike(wrong, 2)
    with pytest.raises(ValueError, match="another kind"):
        plain_values.alike((1.0, "x" if wrong == 1.5 else wrong), (0.5, 0.5))


@pytest.mark.quick
@pytest.mark.parametrize("wrong", [["x", 1.0], [1.0], [[1.0], [2.0]], [None, 1.0]])
def test_columns_of_a_restored_learner_are_numbers_as_many_in_each(wrong):
    learner = es.Learner(es.gym.make_env(LAKE), "lsvi-ae")
    sizes = checkpoint._sizes(learner)
    learner._columns = {name: [1.0, 2.0] for name in learner._columns}
    checkpoint._check_rows(learner, sizes)
    with pytest.raises(ValueError, match="other observations"):
        checkpoint._check_rows(learner, sizes[:-1])
    learner._columns["length"] = wrong
    with pytest.raises(ValueError, match="other columns"):
        checkpoint._check_rows(learner, sizes)

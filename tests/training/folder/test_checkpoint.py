"""Learners that are saved and go on as if never stopped."""

import json

import gymnasium
import numpy as np
import pytest
import seeds
from helpers.resumed import check_resumed, sentence
from soak.drifting import Drift, check_same, options

import everystep as es
from everystep import agents
from everystep.files import store
from everystep.reports.training import learnt
from everystep.training.folder import checkpoint

LAKE = es.problems.from_map(["SFG", "FHF"], horizon=4)

STARTS = es.FiniteCMDP(
    np.ones((3, 2, 3)) / 3, np.eye(3)[:, :2], np.array([[-1, 1], [-1, -1], [1, -1]]) / 2, start=[0, 2, 1, 1], horizon=4
)

RARE = agents.lsvi_ae(switch=1000)


@pytest.fixture
def saved(tmp_path):
    """A learner after three episodes, in a folder."""
    learner = es.Learner(Drift(), "lsvi-ae", **options())
    learner.play(3)
    return learner.save(tmp_path / "learner")


@pytest.mark.parametrize(
    ("agent", "memory"),
    [("lsvi-ae", None), (agents.lsvi_ahead(), 16), (RARE, None)],
    ids=["every-episode", "look-ahead-merged", "rare"],
)
def test_crossed_features_go_on_as_if_never_stopped(tmp_path, agent, memory):
    resumed = check_resumed(tmp_path, Drift, {}, agent=agent, **options(memory=memory))
    assert bool(resumed.agent.remarks) == (memory is not None)
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
    path.write_text(json.dumps(json.loads(text) | {"format": "everystep 9"}))
    assert "has format everystep 9, and this version reads" in sentence(es.Learner.load, saved, Drift())
    content = json.loads(text)
    del content["checksum"]
    content["versions"]["numpy"] = "1.0"
    path.write_text(json.dumps(content | {"checksum": store.checksum(content)}))
    assert "numpy 1.0 before" in str(es.Learner.load(saved, Drift()).result())
    del content["agent"]["fields"]["plans"]
    path.write_text(json.dumps(content | {"checksum": store.checksum(content)}))
    assert "by another version, whose state differs" in sentence(es.Learner.load, saved, Drift())


def test_a_learner_whose_content_has_another_form_shows_no_transitions(saved):
    path = saved / "learner.json"
    content = json.loads(path.read_text())
    del content["checksum"]
    content["learner"]["recent"] = {"list": {"records": "Batch", "columns": 1.5, "count": 1}}
    path.write_text(json.dumps(content | {"checksum": store.checksum(content)}))
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


def test_functions_must_be_passed_again(tmp_path):
    kernel = es.kernels.Custom(lambda y, z: 1.0, on="observation") * es.kernels.read("categorical(on=action)")
    learner = es.Learner(Drift(), agents.lsvi_ae(cost=es.gp(kernel)), constraint=lambda *_: 0, **options())
    learner.save(tmp_path / "learner")
    assert "give agent= again" in sentence(es.Learner.load, tmp_path / "learner", Drift())
    assert "give constraint= again" in sentence(es.Learner.load, tmp_path / "learner", Drift(), learner.recipe)
    assert es.Learner.load(tmp_path / "learner", Drift(), learner.recipe, constraint=lambda *_: 0).number == 1


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

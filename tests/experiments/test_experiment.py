"""An experiment is prepared: names of agents, and wrong arguments."""

import numpy as np
import pytest

import everystep as es
from everystep.experiments.engines import local
from everystep.mdp.cmdp import FiniteCMDP


@pytest.fixture(scope="module")
def pond():
    return es.problems.from_map(("SFF", "FHF", "FFG"), horizon=6)


def test_the_same_agent_with_other_settings_has_a_name_of_its_own(pond):
    result = es.run(pond, ["lsvi-ae", es.agents.lsvi_ae(beta=0.3)], episodes=5, seeds=4)
    assert list(result.columns) == ["lsvi-ae", "lsvi-ae(beta=0.3)"]
    with pytest.raises(es.EverystepError, match="given twice"):
        es.run(pond, ["lsvi-ae", "lsvi-ae"], episodes=5, seeds=1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"episodes": 0}, "episodes is 0"),
        ({"episodes": -3}, "episodes is -3"),
        ({"seeds": 0}, "seeds is 0"),
        ({"seeds": [1, 1]}, "give at least one seed, and each once"),
        ({"agents": []}, "agents is empty"),
        ({"agents": "lsvi-a"}, "Did you mean lsvi-ae"),
        ({"agents": es.agents.lsvi_ae(cap=0.01)}, "below the unconstrained optimum"),
    ],
)
def test_a_wrong_argument_is_named_with_its_value(pond, arguments, message):
    with pytest.raises(es.EverystepError, match=message):
        es.run(pond, **({"agents": "lsvi-ae", "episodes": 5, "seeds": 1} | arguments))


@pytest.mark.quick
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"bta": 1}, "Did you mean beta"),
        ({"beta": "many"}, "setting beta of lsvi-ae is 'many'"),
        ({"lam": 0}, "above 0"),
        ({"optimism": 2}, "at most 1"),
        ({"radius": "wide"}, "choose tuned, paper or coordinate"),
        ({"floor": "k2"}, "choose k, sqrt or a number"),
        ({"share_costs": "perhaps"}, "choose true or false"),
        ({"features": np.ones((2, 2))}, "shape"),
    ],
)
def test_a_wrong_setting_is_named_with_its_value_and_remedy(settings, message):
    with pytest.raises(es.EverystepError, match=message):
        es.agents.lsvi_ae(**settings)


def test_sharing_is_refused_where_the_steps_differ_and_coordinate_widths_where_features_are_dense():
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(2), size=(3, 2, 2))
    stepped = FiniteCMDP(P, rng.random((2, 2)), np.full((2, 2), -1.0), start=0, horizon=3)
    assert es.agents.lsvi_ae().resolve(stepped, 5)["share_values"] is False
    for key in ("share_values", "share_costs"):
        with pytest.raises(es.EverystepError, match=f"setting {key} of lsvi-ae is true"):
            es.run(stepped, es.agents.lsvi_ae(**{key: True}), episodes=5, seeds=1)
    phi = np.full((2, 2, 3), 0.1)
    for key in ("radius", "radius_cost"):
        with pytest.raises(es.EverystepError, match="needs one-hot features"):
            es.run(stepped, es.agents.lsvi_ae(features=phi, **{key: "coordinate"}), episodes=5, seeds=1)
    with pytest.raises(es.EverystepError, match="norm of"):
        es.run(stepped, es.agents.lsvi_ae(features=phi * 30), episodes=5, seeds=1)


def test_an_agent_may_be_called_what_one_likes(pond):
    result = es.run(pond, [es.agents.lsvi_ae(beta=0.3).called("wide"), "lsvi-ae"], episodes=2, seeds=4)
    assert list(result.columns) == ["wide", "lsvi-ae"]
    assert result.spec["agents"][0]["settings"]["beta"] == 0.3


def test_a_run_in_a_folder_is_the_run_in_memory_and_is_not_repeated(pond, tmp_path, monkeypatch):
    agents = ["lsvi-ae", "uniform"]
    here = es.run(pond, agents, episodes=20, seeds="3:6", certify=True)
    there = es.run(pond, agents, episodes=20, seeds=[3, 4, 5], certify=True, out=tmp_path / "pond")
    monkeypatch.setattr(local, "advance", None)
    again = es.run(pond, agents, episodes=20, seeds=range(3, 6), certify=True, out=tmp_path / "pond")
    for found in (there, again):
        assert found.spec == here.spec
        assert found.summary == here.summary
        for one, other in ((found.visits, here.visits), (found.certificates, here.certificates)):
            assert one.keys() == other.keys()
            assert all(np.array_equal(one[name], other[name]) for name in one)
        for label in here.columns:
            assert found.columns[label].keys() == here.columns[label].keys()
            for name, column in here.columns[label].items():
                np.testing.assert_array_equal(found.columns[label][name], column)
                assert found.columns[label][name].dtype == column.dtype
    with pytest.raises(es.EverystepError, match="already holds a different run"):
        es.run(pond, agents, episodes=21, seeds=3, out=tmp_path / "pond")

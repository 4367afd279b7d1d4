"""The card of a policy, and what a training found: in the folder, true, and never in the way."""

import json
from dataclasses import replace

import numpy as np
import pytest

import everystep as es
from everystep import agents, files
from everystep.experiments import statistics, tables
from everystep.reports.training import results as training_results
from everystep.training.learner import Learner
from everystep.training.policy import card as policy_card
from everystep.training.policy import evaluation_file as training_evaluation

LAKE = es.problems.from_map(["SFG", "FHF"], horizon=4)


def near(obs, action, obs_next, info):
    return -1.0 if obs_next < 3 else 1.0


@pytest.fixture(scope="module")
def result():
    learner = Learner(es.gym.make_env(LAKE), "lsvi-ae", constraint=near, seed=3)
    return learner.train(6, lambda n: None)


@pytest.fixture(scope="module")
def folder(result, tmp_path_factory):
    return result.save(tmp_path_factory.mktemp("card") / "out")


def card_of(folder):
    return (folder / "policy" / "CARD.md").read_text(encoding="utf-8")


def test_the_card_holds_the_numbers_of_the_rows(result, folder):
    text, columns = card_of(folder), result.columns
    assert f"6 episodes, {columns['length'].sum():.0f} steps" in text
    assert columns["violation"].sum() > 0
    assert f"total violation {tables.number(columns['violation'].sum())} (" in text
    assert f"{columns['unsafe_steps'].sum():.0f} unsafe steps" in text
    assert "test_card:near`, safe at every step" in text
    assert "| features | one-hot features for each action, " in text
    assert "tuned, not proved" in text
    assert "Actions are chosen by the estimated cost itself (optimism 0); labels use both ends" in text
    assert "policy(observation, step=t)" in text
    assert "None was made" in text


def test_the_card_the_summary_and_the_printed_result_have_one_return_at_the_end(result, folder):
    (seed,) = training_results.read(folder).seeds
    lengths = result.columns["length"]
    last = statistics.episodes_at_the_end(lengths)
    at_the_end = result.columns["return"][-last:].mean()
    assert 1 <= last < len(lengths)
    assert seed.last_episodes() == last
    assert seed.numbers()[2] == at_the_end
    assert f"mean return {tables.number(at_the_end)} in the last {last} episodes" in card_of(folder)
    assert f"mean return {at_the_end:.4g} in the last {last}, while it explored" in str(result)


@pytest.mark.quick
def test_the_end_of_a_training_is_its_last_steps_and_at_most_100_episodes():
    ends = {(): 0, (5,): 1, (10, 20, 10, 60): 1, (10,) * 10: 3, (1,) * 1000: 100, (90, 1, 1): 2}
    assert {each: statistics.episodes_at_the_end(np.array(each)) for each in ends} == ends


@pytest.mark.parametrize(
    ("agent", "words"),
    [(agents.lsvi_ae(radius_cost="paper"), "with probability 0.95"), (agents.lsvi(), "certifies nothing")],
)
def test_the_card_says_what_certificates_are_worth(agent, words, tmp_path):
    trained = Learner(es.gym.make_env(LAKE), agent, constraint=near).train(2, lambda n: None)
    out = trained.save(tmp_path / "out")
    assert words in card_of(out)
    assert ("The radius of the cost intervals is that of the paper" in card_of(out)) == ("probability" in words)


def test_an_evaluation_is_added_unless_the_card_was_changed_by_hand(result, tmp_path):
    folder = result.save(tmp_path / "out")
    out, before = folder / "policy", card_of(folder)
    columns = {name: np.array([1.0, 3.0]) for name in training_evaluation.COLUMNS}
    saved = training_evaluation.Saved("lake", None, 2, {3: 6}, {3: columns}, 7, {"everystep": "1"})
    policy_card.add_evaluation(out, replace(saved, own=False), 3)  # of another constraint
    assert card_of(folder) == before
    policy_card.add_evaluation(out, saved, 3)
    card = card_of(folder)
    assert "2 episodes without exploration: return 2.000" in card
    assert "4 of 4 steps were unsafe" in card
    assert "None was made" not in card
    headings = lambda text: [line for line in text.splitlines() if line.startswith("#")]
    assert headings(card) == headings(before)
    assert files.altered(out, "CARD.md") is None  # the record knows the new one
    assert es.Policy.load(out)(0) == result.policy(0)
    (out / "CARD.md").write_text("mine", encoding="utf-8")
    policy_card.add_evaluation(out, replace(saved, episodes=3), 3)
    assert card_of(folder) == "mine"


def test_the_card_of_another_policy_does_not_stay(result, tmp_path):
    out = result.save(tmp_path / "out") / "policy"
    replace(result.policy, spec={**result.policy.spec, "seed": 4}).save(out)
    assert not (out / "CARD.md").exists()
    assert es.Policy.load(out).spec["seed"] == 4


def test_what_was_found_is_saved_and_a_result_may_be_saved_again(result, folder):
    found = json.loads((folder / "spec.json").read_text(encoding="utf-8"))["found"]
    assert found["remarks"] == list(result.remarks)
    late = result.columns["length"][3:]
    assert found["fit"]["steps"] == late.sum()
    assert found["fit"]["unsafe"] == result.columns["unsafe_steps"][3:].sum()
    assert found["seen"] is None  # observations are integers
    assert replace(result, found={}).save(folder) == folder  # the same training, however much it found


def test_custom_functions_are_passed_again_in_the_example(result):
    described = {"kind": "Crossed", "psi": {"kind": "CustomStateFeatures"}}
    custom = replace(result, spec=result.spec | {"cost": described})
    assert 'es.Policy.load("policy", cost_features=cost_features)' in policy_card.text(custom, None)
    assert 'es.Policy.load("policy")' in policy_card.text(result, None)

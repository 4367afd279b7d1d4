"""Findings about networks, from figures that show each problem."""

from types import SimpleNamespace

import pytest

from everystep.training.diagnosis import learnt

pytestmark = pytest.mark.quick

FIGURES = {
    "steps": [500, 1000],
    "tolerance": 0.01,
    "late": [0.9, 0.95, 0.9, 0.8],
    "constraints": [{}],
    "violations": [[0.001, 0.001, 60], [0.2, 0.3, 40]],
    "labels": {"safe": [60, 59], "unknown": [10, 5], "unsafe": [30, 3]},
}


def learner(called=False, **changes):
    agent = SimpleNamespace(figures=lambda: FIGURES | changes, limit_agrees=called)
    environment = SimpleNamespace(coordinates=2)
    resolved = SimpleNamespace(learns_at_every_step=True, environment=environment)
    return SimpleNamespace(agent=agent, resolved=resolved, name="CartPole-v1")


def test_networks_that_predict_well_have_no_finding_but_their_coverage():
    assert learnt.findings(learner()) == []
    (labels,) = learnt.certificates(learner())
    assert labels.about == "certificates"
    assert "59 of 60 heuristic labels safe ahead" in labels.sentence
    assert "(98.3%), and 27 of 30 labels unsafe ahead" in labels.sentence
    assert list(learnt.certificates(learner(labels={key: [9, 9] for key in ("safe", "unknown", "unsafe")}))) == []
    (none,) = learnt.certificates(learner(labels=FIGURES["labels"] | {"safe": [0, 0]}))
    assert "none of 40 judged steps was labelled safe ahead, and 27 of 30 labels unsafe ahead held" in none.sentence


def test_labels_that_did_not_hold_are_a_note_and_named_once():
    few = learner(labels=FIGURES["labels"] | {"safe": [15, 10]})
    assert learnt.findings(few) == []
    poor = learner(labels=FIGURES["labels"] | {"safe": [60, 40]})
    assert [each.about for each in learnt.findings(poor)] == ["certificates"]
    assert list(learnt.certificates(poor)) == []


def test_changes_that_are_not_predicted_are_found_with_their_coordinates():
    (found,) = learnt.findings(learner(late=[0.5, 0.02, None, None]))
    assert found.about == "model"
    assert "26% of the variance of the changes" in found.sentence
    assert "least of observation[1]" in found.sentence
    assert learnt.findings(learner(late=[None, None, None, None])) == []


def test_a_constraint_that_is_not_predicted_is_found_unless_it_is_called():
    (found,) = learnt.findings(learner(late=[0.9, 0.9, 0.9, 0.1]))
    assert "10% of the variance of the constraint" in found.sentence
    assert "function of observations" in found.setting
    assert learnt.findings(learner(late=[0.9, 0.9, 0.9, 0.1], called=True)) == []


def test_violations_that_were_not_imagined_are_found():
    (found,) = learnt.findings(learner(violations=[[0.001, 0.5, 100]]))
    assert found.about == "imagined"
    assert "5e+02 times the imagined one, after 100 steps" in found.sentence
    assert learnt.findings(learner(violations=[[0.001, 0.5, 20]])) == []  # too few
    assert learnt.findings(learner(violations=[[0.001, 0.05, 100]])) == []  # within ten tolerances


def test_short_trainings_and_other_agents_have_no_findings():
    assert learnt.findings(learner(steps=[100], late=[0.0, 0.0, 0.0, 0.0])) == []
    other = SimpleNamespace(resolved=SimpleNamespace(learns_at_every_step=False))
    assert learnt.figures(other) is None
    assert learnt.findings(other) == list(learnt.certificates(other)) == []

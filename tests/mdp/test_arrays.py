"""A problem as named arrays: nothing is missing in a file, in the digest, or in the list of fields."""

import dataclasses

import numpy as np
import pytest

from everystep.mdp.arrays import DESCRIPTIVE, FIELDS, digest, read_problem, save_problem
from everystep.mdp.cmdp import Factored, FiniteCMDP, Grid, Known, Noise, Successors

pytestmark = pytest.mark.quick

S, A, H, m, d = 2, 2, 3, 2, 2
PARTS = {"noise": Noise, "grid": Grid, "known": Known}


def everything(**changes):
    """A problem with every optional field, of numbers that are exact in binary."""
    P = np.array([[[0.5, 0.5], [0.25, 0.75]], [[1.0, 0.0], [0.0, 1.0]]])
    reward, cost = np.arange(8.0).reshape(S, A, S) / 8, -np.arange(1.0, 17.0).reshape(m, 1, S, A, S) / 16
    given = {
        "P": P,
        "r": (P * reward).sum(-1),
        "g": (P * cost).sum(-1),
        "start": np.array([0.25, 0.75]),
        "horizon": H,
        "noise": Noise(reward, cost, 0.5, [0.25, 0.125]),
        "features": np.arange(8.0).reshape(S, A, d),
        "name": "everything",
        "state_names": ("left", "right"),
        "action_names": ("stay", "go"),
        "exempt": [False, True],
        "grid": Grid(("SG",), np.array([[1.0, 2.0]]), np.array([1, 0]), np.arange(8.0).reshape(S, A, 2)),
        "remarks": ("unusual",),
        "coordinates": {"slope": np.arange(4.0).reshape(S, A)},
        "kernel": "rbf(2)",
        "linear_costs": False,
        "known": Known([0.5, 0.25], np.array([0, 1]), np.arange(16.0).reshape(S, A, S, d)),
    }
    return FiniteCMDP(**(given | changes))


FACTORS = Factored(phi=np.full((S, A, d), 0.5), mu=np.array([[0.25, 0.75], [1.0, 0.0]]))


def by_factors(**changes):
    return everything(**({"P": FACTORS, "noise": Noise(), "features": None} | changes))


def with_path(path, value, make=everything):
    """`make()` with the field at `path` replaced."""
    field, _, attribute = path.partition(".")
    if not attribute:
        return make(**{field: value})
    if field == "P":
        given = FACTORS if make is by_factors else everything().P
        return make(P=given._replace(**{attribute: value}))
    return make(**{field: dataclasses.replace(getattr(make(), field), **{attribute: value})})


# Another value for every field of the list, and the problem to put it in.
CHANGES = {
    "P": (everything, np.array([[[0.5, 0.5], [0.25, 0.75]], [[1.0, 0.0], [2**-40, 1.0 - 2**-40]]])),
    "P.states": (everything, np.array([[[0, 1], [0, 1]], [[1, 0], [0, 1]]])),
    "P.probabilities": (everything, np.array([[[0.5, 0.5], [0.25, 0.75]], [[1.0, 0.0], [2**-40, 1.0 - 2**-40]]])),
    "P.phi": (by_factors, np.array([[[0.5, 0.5]] * A, [[0.25, 0.75]] * A])),
    "P.mu": (by_factors, np.array([[0.5, 0.5], [1.0, 0.0]])),
    "r": (by_factors, np.full((S, A), 0.125)),
    "g": (by_factors, np.full((m, S, A), -0.125)),
    "start": (everything, np.array([0.5, 0.5])),
    "horizon": (everything, H + 1),
    "noise.reward_on_arrival": (everything, None),
    "noise.cost_on_arrival": (everything, None),
    "noise.reward_sigma": (everything, 0.25),
    "noise.cost_sigma": (everything, 0.25),
    "scale": (everything, np.array([2.0, 1.5])),
    "features": (everything, np.ones((S, A, d))),
    "exempt": (everything, [False, False]),
    "known.threshold": (everything, 0.5),
    "known.safe_action": (everything, np.array([1, 1])),
    "known.triples": (everything, None),
    "coordinates": (everything, {"height": np.arange(4.0).reshape(S, A)}),
    "grid.rows": (everything, ("SH",)),
    "grid.heights": (everything, None),
    "grid.cells": (everything, np.array([1, 1])),
    "grid.moves": (everything, None),
    "kernel": (everything, None),
    "linear_costs": (everything, True),
    "name": (everything, "another"),
}


def test_the_list_knows_every_field_of_a_problem():
    names = {each.name for each in dataclasses.fields(FiniteCMDP)}
    paths = {f"{name}.{each.name}" for name, part in PARTS.items() for each in dataclasses.fields(part)} | {
        f"P.{name}" for form in (Factored, Successors) for name in form._fields
    }
    assert sorted(each.path for each in FIELDS) == sorted((names - set(PARTS) - set(DESCRIPTIVE)) | paths)
    assert set(DESCRIPTIVE) < names


def test_every_field_of_the_list_is_tried_here():
    assert set(CHANGES) == {each.path for each in FIELDS}


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: field.path)
def test_the_digest_changes_with_every_field_that_decides_what_happens(field):
    make, value = CHANGES[field.path]
    assert (digest(with_path(field.path, value, make)) != digest(make())) == field.hashed


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: field.path)
def test_every_field_returns_from_a_file_as_it_was(field, tmp_path):
    make, value = CHANGES[field.path]
    for problem in (make(), with_path(field.path, value, make)):
        save_problem(problem, tmp_path / "problem.npz")
        again = read_problem(tmp_path / "problem.npz")
        assert digest(again) == digest(problem)
        np.testing.assert_equal(field.value(again), field.value(problem))


def test_the_digest_is_that_of_earlier_versions():
    # spec.json of a run folder holds it: with another digest no earlier run could be resumed. It changed once, when
    # transitions became lists; that of factors did not.
    assert digest(everything()) == "7344c614e626f9c8e73493054e72c3fe8dd1efd332e48a21bdee48849362612b"
    assert digest(by_factors()) == "012c2e89556539105281446eee94cd52ebe7b928b39e1373e5662451709cfeac"

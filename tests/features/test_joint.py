"""Features of observation and action together, against the same features of all coordinates in one space."""

from types import SimpleNamespace

import numpy as np
import pytest

import everystep as es
from everystep.errors import EverystepError
from everystep.features import automatic, joint, maps

fs = es.features
pytestmark = pytest.mark.quick

rng = np.random.default_rng(3)
LOW, HIGH = np.array([-1.0, 0.0]), np.array([2.0, 5.0])
PLANE = SimpleNamespace(low=LOW, high=HIGH, shape=(2,))
WHOLE = SimpleNamespace(low=np.r_[LOW, -1, -1], high=np.r_[HIGH, 1, 1], shape=(4,))
ACTIONS = np.array([[-1.0, 0.5], [0.0, 0.0], [1.0, -0.3], [0.7, 1.0]])
SPECS = {
    "fourier": fs.fourier(6, (0.5, 1.0, 0.7, 2.0), seed=4),
    "constant": fs.fourier(3, constant=True),
    "polynomial": fs.polynomial(3),
    "centres": fs.centres((3, 2, 4, 2)),
    "wide centres": fs.centres(2, lengthscale=(0.3, 0.4, 0.5, 0.6)),
    "tiles": fs.tiles(3, (2, 3, 2, 4)),
    "joined": fs.joined(fs.fourier(2), fs.joined(fs.polynomial(1), fs.tiles(2, 2))),
}


@pytest.mark.parametrize("name", SPECS)
def test_they_are_the_features_of_all_coordinates(name):
    x = LOW + rng.random((5, 2)) * (HIGH - LOW)
    phi = fs.bind(SPECS[name], PLANE, ACTIONS)
    direct = fs.bind(SPECS[name], WHOLE, 1)
    expected = np.stack([direct.state(np.c_[x, np.tile(a, (5, 1))]) for a in ACTIONS], 1)
    assert phi.joint
    assert phi.d == expected.shape[2]
    np.testing.assert_allclose(phi(x), expected, rtol=0, atol=1e-12)
    taken = np.array([3, 0, 1, 2, 3])
    np.testing.assert_allclose(phi.rows(x, taken), expected[np.arange(5), taken], rtol=0, atol=1e-12)
    again = fs.rebuild(phi.to_json(), phi.arrays())
    assert (again(x) == phi(x)).all()
    assert maps.example(phi).shape == (1, 2)
    assert (phi.other[phi.other] == np.arange(phi.d)).all()


def test_features_without_coordinates_keep_a_copy_for_each_action():
    for spec in (
        fs.function(lambda x: x / 10, crossed=True),
        fs.joined(fs.fourier(2), fs.function(lambda x: x / 10, crossed=True)),
    ):
        assert fs.bind(spec, PLANE, ACTIONS).crossed
    assert fs.bind(fs.one_hot(), SimpleNamespace(n=3, shape=()), ACTIONS).crossed


WRONG = {
    "centres are given as points of the observation": lambda: fs.bind(fs.centres(np.zeros((2, 2))), PLANE, ACTIONS),
    "lengthscale of fourier has 2 numbers for 4 coordinates": lambda: fs.bind(fs.fourier(2, (1, 2)), PLANE, ACTIONS),
    "actions are .*": lambda: fs.bind(fs.fourier(2), PLANE, 2 * ACTIONS),
    "numbers for 2000 actions": lambda: fs.bind(fs.fourier(6000), PLANE, np.linspace(-1, 1, 2000)[:, None]),
}


@pytest.mark.parametrize("words", WRONG)
def test_what_cannot_be_made_is_refused(words):
    with pytest.raises(EverystepError, match=words):
        WRONG[words]()


def test_evidence_finds_the_length_scale_of_the_action(monkeypatch):
    """A target that oscillates in the action alone has short length scales there, and long ones elsewhere."""
    monkeypatch.setattr(automatic, "FREQUENCIES_OF_BOTH", 30)
    n, points = 300, np.linspace(-1, 1, 9)[:, None]
    x, a = LOW + rng.random((n, 2)) * (HIGH - LOW), rng.integers(0, 9, n)
    seen = automatic.Seen(x, a, np.sin(5 * points[a]))
    chosen = automatic.choose(PLANE, points, seen, (LOW, HIGH), seed=0, polynomials=False)
    plain = automatic.to_plain(chosen.spec)
    assert len(plain["lengths"]) == 3
    assert plain["lengths"][2] < min(plain["lengths"][:2])
    assert "fourier(100" not in automatic.described(chosen.spec)
    assert automatic.from_plain(plain, 0) == chosen.spec


# --- sizes and places -------------------------------------------------------------------------------------------------
def test_a_grid_spans_its_box_and_the_last_coordinate_varies_fastest():
    np.testing.assert_array_equal(joint.grid((2, 3)), [[-1, -1], [-1, 0], [-1, 1], [1, -1], [1, 0], [1, 1]])
    np.testing.assert_array_equal(joint.grid((1, 2)), [[0, -1], [0, 1]])


@pytest.mark.parametrize(("o", "degree"), [(1, 4), (2, 3), (3, 2)])
def test_powers_are_those_of_every_product_up_to_the_degree_once(o, degree):
    powers = joint.powers(o, degree)
    everywhere = [p for p in np.ndindex(*(degree + 1,) * o) if sum(p) <= degree]
    assert sorted(map(tuple, powers)) == sorted(everywhere)


@pytest.mark.parametrize("tilings", [2, 4, 7])
def test_tilings_are_shifted_by_different_parts_of_a_tile(tilings):
    offsets = joint.offsets(tilings, 2)
    assert offsets.shape == (tilings, 2)
    assert ((offsets >= 0) & (offsets < 1)).all()
    assert len({tuple(row) for row in offsets}) == tilings


def test_one_number_stands_for_every_coordinate_and_any_other_count_is_refused():
    assert joint.fits("tiles", "bins", 5, 3) == (5, 5, 5)
    assert joint.fits("tiles", "bins", (1, 2, 3), 3) == (1, 2, 3)
    with pytest.raises(EverystepError, match="bins of tiles has 2 numbers for 3 coordinates"):
        joint.fits("tiles", "bins", (1, 2), 3)


def test_more_features_than_fit_are_refused_with_a_remedy():
    joint.few("tiles", joint.LARGEST, "use fewer")
    with pytest.raises(EverystepError, match="use fewer"):
        joint.few("tiles", joint.LARGEST + 1, "use fewer")

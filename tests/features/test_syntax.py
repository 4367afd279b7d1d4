"""Features as text."""

import numpy as np
import pytest
from helpers.features import PLANE, inside

from everystep import features as fs

pytestmark = pytest.mark.quick


def test_mirrored_features_as_text_are_those_of_the_function():
    from everystep.features import syntax

    spec = syntax.read("mirrored(fourier(20, lengthscale=0.5), actions=[1, 0], signs=[-1, 1])")
    again = fs.mirrored(fs.fourier(20, lengthscale=0.5), [1, 0], [-1, 1])
    np.testing.assert_array_equal(fs.bind(spec, PLANE, 2)(inside(4)), fs.bind(again, PLANE, 2)(inside(4)))
    assert str(again) == "mirrored(spec=fourier(size=20, lengthscale=0.5, seed=0), actions=(1, 0), signs=(-1.0, 1.0))"

"""A finding is data; its sentences are made from it."""

import pytest

from everystep.training.diagnosis.finding import Diagnosis, Finding

pytestmark = pytest.mark.quick


def test_findings_print_as_one_line_each():
    finding = Finding("optimism", "too little", "set beta to 1")
    assert finding.remark == "too little: set beta to 1"
    assert str(Diagnosis((finding, finding))) == "\n".join(["optimism: too little: set beta to 1"] * 2)
    assert str(Diagnosis(())) == "No problem was found."

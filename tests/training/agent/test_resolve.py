"""Settings of an agent on an environment."""

import pytest

import everystep as es
from everystep import agents

pytestmark = pytest.mark.quick


def test_a_percentage_is_refused_on_tables_and_where_it_is_none():
    problem = es.problems.from_map(("SFF", "FHF", "FFG"), horizon=5)
    with pytest.raises(es.EverystepError, match=r"switch of lsvi-ae is 5%"):
        agents.lsvi_ae(switch="5%").resolve(problem, 10)
    with pytest.raises(es.EverystepError, match=r"percentage such as 5%"):
        agents.lsvi_ae(switch="-5%")

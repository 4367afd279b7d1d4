"""Few rounds when scales are chosen again: the tests ask what is learnt when, not how well."""

import pytest

from everystep.training.learnt import agent


@pytest.fixture(autouse=True, scope="package")
def few_rounds():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(agent, "REFRESHED", 16)
        yield

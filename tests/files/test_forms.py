"""The form of JSON."""

import pytest

from everystep.files import forms


@pytest.mark.quick
def test_forms_find_what_is_missing_or_of_another_type():
    form = {"name": str, "agents": [{"label": str, "p?": forms.Maybe(forms.NUMBER)}], "by": forms.Each(forms.COUNT)}
    right = {"name": "x", "agents": [{"label": "y"}, {"label": "z", "p": None}], "by": {"a": 0}, "more": [[]]}
    assert forms.fault(right, form) is None
    wrong = {
        "name": right | {"name": 3},
        "agents": right | {"agents": {}},
        "agents[1].label": right | {"agents": [{"label": "y"}, {}]},
        "agents[0].p": right | {"agents": [{"label": "y", "p": True}]},
        "by['a']": right | {"by": {"a": -1}},
        "by": {key: value for key, value in right.items() if key != "by"},
    }
    for where, content in wrong.items():
        assert forms.fault(content, form) == where
    assert forms.fault([], form) == "it"

"""Native code and Python mean the same causes."""

from opscope import _native
from opscope.analysis.account.causes import Cause


def test_causes_have_the_same_numbers():
    assert _native.account_causes() == {cause.name: int(cause) for cause in Cause}

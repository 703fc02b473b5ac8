"""Every table in docs/compatibility.md has a test that checks its rows one by one."""

from __future__ import annotations

from tests.adapters.compat import test_ffrecord_table
from tests.adapters.torch import test_tfrecord_table
from tests.checkout import CHECKOUT
from tests.schema import test_tfdv_table
from tests.tfrecord import test_tf_table

TESTED = (test_ffrecord_table, test_tf_table, test_tfrecord_table, test_tfdv_table)


def test_every_row_is_of_a_table_with_a_test() -> None:
    lines = (CHECKOUT / "docs/compatibility.md").read_text().splitlines()
    table = [line for line in lines if line.startswith("|")]
    titles = [line for line in table if line.startswith(("| original ", "|---"))]
    assert len(table) - len(titles) == sum(len(tests.ROWS) for tests in TESTED)

"""Reading columns of Parquet files."""

import io
import threading

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from opscope.storage.parquet import ParquetColumns


class Watched(io.BytesIO):
    """A file that knows which threads read it."""

    def __init__(self, content):
        super().__init__(content)
        self.threads = set()

    def read(self, *size):
        self.threads.add(threading.get_ident())
        return super().read(*size)


@pytest.mark.parametrize("rows", [100, 300_000])
def test_no_thread_of_arrows_has_to_do_with_python(rows):
    written = io.BytesIO()
    numbers = pa.array(range(rows))
    pq.write_table(pa.table(dict.fromkeys("abcdefgh", numbers)), written, row_group_size=10_000)
    file = Watched(written.getvalue())
    columns = ParquetColumns(file, rows, "it")
    assert columns["h"].equals(pa.chunked_array([numbers]))
    assert file.threads == {threading.get_ident()}

"""Arguments of annotations, however they fall into the blocks they are kept in."""

import opscope
from support.recorded import record


def test_texts_of_every_length_come_back_whole():
    texts = [f"{i}:" + "x" * (37 * i % 5000) for i in range(600)]

    def program():
        for text in texts:
            with opscope.record_function("annotated", text):
                pass

    trace = record(program, record_shapes=True)

    scalars = trace.table("scalars")
    assert [trace.names[value] for value in scalars["value"]] == texts
    assert trace.ledger["arguments"]["dropped: unreadable"] == 0

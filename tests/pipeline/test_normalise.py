import copy

import nbformat
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nbformat import v4

from readout.pipeline.normalise import as_text, normalise

NAMES = {"/srv/p/main": ".", "/srv/p/main/.venv": "$PREFIX", "/u/me": "~"}


def stream(text, name="stdout"):
    return v4.new_output("stream", name=name, text=text)


def executed(*outputs, **metadata):
    cell = v4.new_code_cell("f()", id="a", execution_count=1, outputs=list(outputs), metadata=metadata)
    return v4.new_notebook(cells=[cell])


def outputs_of(notebook):
    return normalise(notebook, NAMES).cells[0].outputs


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("/srv/p/main/lib/a.py", "./lib/a.py"),
        ("/srv/p/main/.venv/lib/b.py:3", "$PREFIX/lib/b.py:3"),
        ("'/u/me', /u/me/x", "'~', ~/x"),
        ("file:///srv/p/main/a", "file://./a"),
        ("/srv/p/main2 /data/srv/p/main /u/melissa", "/srv/p/main2 /data/srv/p/main /u/melissa"),
        ("/tmp/ipykernel_123/456.py:2: UserWarning", "ipykernel/456.py:2: UserWarning"),
        ("[<Line2D at 0x7f12aa34bb56>] 0x10", "[<Line2D at 0x0>] 0x10"),
    ],
)
def test_what_differs_between_machines_and_runs_is_replaced_in_every_kind_of_text(text, clean):
    html = v4.new_output("display_data", data={"text/html": text, "text/plain": text, "image/png": text})
    error = v4.new_output("error", ename="E", evalue=text, traceback=[text])
    first, data, last = outputs_of(executed(stream(text), html, error))
    assert first.text == data.data["text/html"] == data.data["text/plain"] == clean
    assert (last.evalue, last.traceback) == (clean, [clean])
    assert data.data["image/png"] == text


def test_streams_are_merged_in_one_order_and_do_not_cross_other_outputs():
    figure = v4.new_output("display_data", data={"text/plain": "x"})
    a = executed(stream("1\n"), stream("w", "stderr"), stream("2\n"), figure, stream("3\n"))
    b = executed(stream("w", "stderr"), stream("1\n2\n"), figure, stream("3\n"))
    assert as_text(normalise(a, NAMES)) == as_text(normalise(b, NAMES))
    assert [output.get("text") for output in outputs_of(a)] == ["1\n2\n", "w", None, "3\n"]


def test_a_progress_bar_goes_and_a_warning_stays():
    assert outputs_of(executed(stream("\r 0%|  | [00:01\r50%| | [00:02\nUserWarning: x\r\n", "stderr")))[
        0
    ].text == ("UserWarning: x\r\n")
    assert outputs_of(executed(stream("\r 0%| ", "stderr"))) == []


def test_metadata_keeps_the_parameters_and_loses_times_paths_and_the_release():
    notebook = executed(papermill={"duration": 1.0}, execution={"iopub": "t"}, tags=[])
    notebook.metadata = nbformat.from_dict(
        {
            "papermill": {"duration": 2.0, "input_path": "/x", "parameters": {"n": 3}},
            "language_info": {"name": "python", "version": "3.11.7"},
            "widgets": {"state": {}},
        }
    )
    clean = normalise(notebook, NAMES)
    assert clean.metadata == {"papermill": {"parameters": {"n": 3}}, "language_info": {"name": "python"}}
    assert clean.cells[0].metadata == {}
    notebook.metadata.papermill.parameters = {}
    assert "papermill" not in normalise(notebook, NAMES).metadata


def test_every_cell_has_one_stable_id():
    injected = v4.new_code_cell("n = 1", metadata={"tags": ["injected-parameters"]})
    notebook = v4.new_notebook(cells=[v4.new_code_cell(), v4.new_code_cell(), injected, v4.new_code_cell()])
    notebook.cells[0].id = notebook.cells[1].id = "a"
    del notebook.cells[3]["id"]
    notebook.nbformat_minor = 4
    clean = normalise(notebook, NAMES)
    assert [cell.id for cell in clean.cells] == ["a", "cell-1", "injected-parameters", "cell-3"]
    assert clean.nbformat_minor == 5
    nbformat.validate(clean)


TEXT = st.lists(
    st.sampled_from([*NAMES, "/", "~", "2", "\r", "\n", " at 0x", "deadbeef", "/ipykernel_1", "a"])
).map("".join)


@given(texts=st.lists(st.tuples(TEXT, st.sampled_from(["stdout", "stderr"]))))
def test_doing_it_twice_changes_nothing_and_the_argument_is_left_alone(texts):
    notebook = executed(*(stream(text, name) for text, name in texts), papermill={})
    before = copy.deepcopy(notebook)
    once = normalise(notebook, NAMES)
    assert notebook == before
    assert as_text(normalise(once, NAMES)) == as_text(once)
    assert as_text(normalise(nbformat.reads(as_text(once), as_version=4), NAMES)) == as_text(once)

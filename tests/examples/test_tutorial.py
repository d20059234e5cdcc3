"""The tutorial notebook runs from top to bottom, and is committed with what it shows."""

from __future__ import annotations

import pytest

from tests.examples import notebook

STORED = notebook.read()
CELLS = [c for c in STORED["cells"] if c["cell_type"] == "code"]
WORDS = (
    "<strong>Schema fair</strong>",
    "runner-up",
    "<svg",
    "spent epsilon 1",
    "cost nothing",
)


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    return notebook.run_all(notebook.code(STORED), tmp_path_factory.mktemp("tutorial") / "here")


def test_every_cell_runs_and_the_rich_ones_are_html(outputs):
    text = "\n".join(map(notebook.texts, outputs))
    for words in WORDS:
        assert words in text
    assert notebook.texts(outputs[-1]).strip() == "True"


def test_the_wish_is_of_a_statistic_that_costs_something(outputs):
    [wish] = [o for o in outputs if "±" in notebook.texts(o) and "years'," in notebook.texts(o)]
    assert "exact" not in notebook.texts(wish)


def test_it_runs_in_a_plain_jupyter_kernel(tmp_path):
    """One without ipywidgets, which DuckDB asks for as soon as its progress bar is mentioned."""
    pytest.importorskip("nbclient", reason="the extra `test` brings nbclient and ipykernel")
    pytest.importorskip("ipykernel", reason="the extra `test` brings nbclient and ipykernel")
    found = notebook.run_in_kernel(notebook.code(STORED), tmp_path / "here")
    assert [kinds(c["outputs"]) for c in CELLS] == [kinds(o) for o in found]
    assert notebook.texts(found[-1]).strip() == "True"


def test_a_broken_cell_is_noticed():
    with pytest.raises(NameError):
        notebook.run("nowhere", {})


def kinds(outputs):
    return [(o["output_type"], sorted(o.get("data", ()))) for o in outputs]


def test_the_tutorial_is_committed_with_the_outputs_of_a_run(outputs):
    """`python -m tests.examples.notebook` stores them; noise differs, what is shown does not."""
    assert STORED["nbformat"] == 4
    assert [kinds(c["outputs"]) for c in CELLS] == [kinds(o) for o in outputs]
    assert [c["execution_count"] for c in CELLS] == list(range(1, len(CELLS) + 1))
    text = "\n".join(notebook.texts(c["outputs"]) for c in CELLS)
    for words in WORDS:
        assert words in text
    for place in ("/tmp", "/home", "/root", "/work"):  # the machine that ran it
        assert place not in text

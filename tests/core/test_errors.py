"""Errors: five parts, what was spent, stable codes and exit statuses."""

from __future__ import annotations

import pickle

import pytest

from dprelease import errors as caught
from dprelease.cli.terminal import show_error
from dprelease.core import errors
from dprelease.core.errors import ConfigError, DpreleaseError
from tests.sizes import some

CLASSES = [
    getattr(errors, name)
    for name in caught.__all__
    if issubclass(getattr(errors, name), DpreleaseError)
]
TABLE = {
    "ConfigError": ("DPR100", "nothing", 2),
    "PlanError": ("DPR200", "nothing", 1),
    "BudgetError": ("DPR300", "nothing", 1),
    "LedgerError": ("DPR400", "nothing", 1),
    "SourceError": ("DPR500", "nothing", 1),
    "ArgumentError": ("DPR600", "nothing", 2),
    "WithheldError": ("DPR700", "charged", 3),
    "VerificationError": ("DPR800", "nothing", 1),
    "InternalError": ("DPR900", "unknown", 3),
    "DpreleaseError": ("DPR900", "unknown", 3),
}


@pytest.mark.parametrize("cls", CLASSES)
def test_code_spent_and_exit_status_never_change(cls: type[DpreleaseError]) -> None:
    error = cls("it failed")
    assert (error.code, error.spent, error.exit_status) == TABLE[cls.__name__]


@pytest.mark.parametrize("cls", CLASSES)
def test_errors_survive_pickling(cls: type[DpreleaseError]) -> None:
    error = cls("it failed", where="f.yaml:3", why="because", fix="do this", code="DPR123")
    error.add_note("what was added")
    again = pickle.loads(pickle.dumps(error))
    assert again.__notes__ == error.__notes__
    assert type(again) is cls
    assert again.as_dict() == error.as_dict()
    assert str(again) == str(error)


def test_the_text() -> None:
    error = ConfigError("it failed", where="f.yaml:3", fix="do this", code="DPR123")
    assert str(error).splitlines() == [
        "it failed",
        "  where  f.yaml:3",
        "  fix    do this",
        "  code   DPR123",
    ]
    assert error.as_dict()["why"] is None


def test_a_notebook_shows_the_parts_and_what_was_spent_instead_of_a_traceback():
    error = errors.WithheldError("it is withheld", where="here", why="why", fix="mend it")
    lines = error._render_traceback_()
    assert lines[0] == "WithheldError: it is withheld"
    assert "  fix    mend it" in lines
    assert lines[-1] == "  spent  the budget is spent; nothing is published"


def test_a_published_folder_that_differs_is_not_said_to_be_unpublished():
    error = errors.WithheldError("it differs", code="DPR713")
    assert (
        error.spent_in_words() == "the budget is spent; the folder that is there is left as it is"
    )


LONG = ("x" * 100_000, "é" * 60_000, "€" * 50_000, "\N{GRINNING FACE}" * 40_000, "a\nb" * 30_000)


@pytest.mark.parametrize("cls", some(CLASSES, 4))
@pytest.mark.parametrize("text", LONG, ids=lambda text: ascii(text[0]))
def test_a_message_is_at_most_two_kilobytes_and_keeps_its_parts(cls, text, capsys):
    error = cls(
        f"what {text} END",
        where=f"f {text}:7",
        why=f"why {text} END",
        fix=f"fix {text} END",
        code="DPR123",
    )
    show_error(error)
    shown = capsys.readouterr().err
    for said in (str(error), shown, "\n".join(error._render_traceback_())):
        assert len(said.encode()) <= 2048
        for part in (
            "what ",
            "  where  f ",
            ":7",
            "  why    why ",
            "  fix    fix ",
            " END",
            "  code   DPR123",
            " … ",
        ):
            assert part in said
        assert "\N{REPLACEMENT CHARACTER}" not in said
    assert pickle.loads(pickle.dumps(error)).as_dict() == error.as_dict()


@pytest.mark.parametrize("size", range(6, 40))
def test_a_text_is_cut_between_characters(size):
    for text in ("abcdefghijklmnop" * 3, "é" * 40, "€" * 40, "\N{GRINNING FACE}" * 40):
        cut = errors.shortened(text, size)
        assert len(cut.encode()) <= size
        assert set(cut) <= {*text, " ", "…"}
    assert errors.shortened("é" * 20, 40) == "é" * 20  # control: what fits stays


def test_a_message_that_fits_is_not_touched():
    why = "w" * 1500
    assert ConfigError("short", why=why).why == why

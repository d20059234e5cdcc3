"""What every command prints the same way: errors, JSON, consoles.

Exit status: 0 done; 1 refused or not verified, nothing spent; 2 usage or a faulty file; 3 the
budget is spent and nothing is published; 130 Ctrl-C.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable
from errno import EIO, EPIPE
from io import TextIOWrapper
from pathlib import Path
from textwrap import TextWrapper
from typing import TYPE_CHECKING, Annotated, Any, ParamSpec, TextIO

import typer

from dprelease.core.caller import cannot_write, outside_published
from dprelease.core.errors import DpreleaseError, InternalError
from dprelease.core.strict_json import json_text
from dprelease.schema.paths import is_marked

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from dprelease.pipeline.budget_config import BudgetConfig
    from dprelease.pipeline.config import PipelineConfig

P = ParamSpec("P")

AsJson = Annotated[bool, typer.Option("--json", help="Print one machine-readable object.")]


def console(*, stderr: bool = False) -> Console:
    """Return a rich console; plain text when not a terminal, at least 100 columns wide there."""
    from rich.console import Console

    made = Console(stderr=stderr, highlight=False, soft_wrap=False)
    if not made.is_terminal and "COLUMNS" not in os.environ:
        made.width = 140
    return made


def save(to: Path, data: bytes) -> None:
    """Write a file, and the folder that it is to be in.

    Raises:
        ArgumentError: it cannot be written, or lies in a published folder (DPR668).
    """
    outside_published(to)
    try:
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes(data)
    except OSError as problem:
        fix = "name a file in a folder that you may write to"
        raise cannot_write(to, problem.strerror, fix) from None


def say(text: str, style: str = "") -> None:
    """Print a text as it is, in lines that flow: nothing in it is markup, and no pipe breaks it."""
    out = console()
    out.print(flowing(out, text), style=style, markup=False, soft_wrap=True)


def flowing(out: Console, text: str, head: int = 0) -> Text:
    """Return lines for `out`, broken between words where it is a narrow screen; their head is bold.

    A command between backticks stays whole, so that it can be pasted.
    """
    from rich.text import Text

    if out.is_terminal:
        whole = re.sub("`[^`]*`", lambda found: found[0].replace(" ", "\0"), text)
        words = TextWrapper(
            out.width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
        )
        text = "\n".join(map(words.fill, whole.split("\n"))).replace("\0", " ")
    made = Text(text)
    made.stylize("bold", 0, head)
    return made


def loaded(pipeline: Path) -> PipelineConfig:
    """Return a checked pipeline; say where paths may lead if only the working directory says so."""
    from dprelease.pipeline.config import load_pipeline

    config = load_pipeline(pipeline)
    _say_root(config.root, pipeline)
    return config


def loaded_budget(pipeline: Path) -> tuple[BudgetConfig, Path]:
    """Return a pipeline's budget and public folder, whatever else it says; say the same."""
    from dprelease.pipeline.budget_config import load_budget

    budget, public, root = load_budget(pipeline)
    _say_root(root, pipeline)
    return budget, public


@functools.cache
def _say_root(root: Path, pipeline: Path) -> None:
    """Say where paths may lead if only the working directory says so; once in a command."""
    if root != pipeline.resolve().parent and not is_marked(root):
        said = f"project root: {root}, the working directory; a `.dprelease` folder marks another"
        console(stderr=True).print(said, markup=False)


def print_json(value: Any) -> None:
    """Print strict JSON on standard output."""
    typer.echo(json_text(value, indent=2))


def guarded(command: Callable[P, None], *, spends: bool = False) -> Callable[P, None]:
    """Turn errors into messages and exit codes.

    Of an exception that is not ours only the type and the place in our code are shown.

    Args:
        spends: whether the command may have charged the ledger when something unforeseen fails.
    """

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            _say_root.cache_clear()
            command(*args, **kwargs)
        except DpreleaseError as error:
            show_error(error, as_json=bool(kwargs.get("as_json")))
            raise typer.Exit(error.exit_status) from None
        except KeyboardInterrupt:
            said = "cancelled; the budget may be spent: `dprelease ledger show` tells"
            typer.echo(said if spends else "cancelled", err=True)
            raise typer.Exit(130) from None
        except (typer.Exit, typer.Abort):
            raise
        except Exception as error:  # noqa: BLE001 - its text may quote a row
            show_error(
                InternalError.unforeseen(error),
                as_json=bool(kwargs.get("as_json")),
                spent="unknown" if spends else "nothing",
            )
            raise typer.Exit(3 if spends else 1) from None

    return wrapped


def drop_unread(stream: TextIO | None) -> None:
    """Drop, from then on, what is written to a pipe that nobody reads, or to a terminal that is gone.

    The exit status is that of the work: a reader that goes away ends no run that has paid.
    """
    if not isinstance(stream, TextIOWrapper):  # closed from the start, or a test's
        return
    raw: Any = getattr(stream.buffer, "raw", stream.buffer)
    gone, write = {EPIPE, EIO} if raw.isatty() else {EPIPE}, raw.write

    def written(data: bytes) -> Any:
        try:
            return write(data)
        except OSError as error:
            if error.errno not in gone:
                raise
            with Path(os.devnull).open("wb") as nothing:
                os.dup2(nothing.fileno(), raw.fileno())
            return len(data)

    raw.write = written


def show_error(error: DpreleaseError, *, as_json: bool = False, spent: str | None = None) -> None:
    """Print an error on standard error, or as JSON; `spent` overrides what its class says."""
    state = spent or error.spent
    if as_json:
        print_json({**error.as_dict(), "spent": state})
        return
    from rich.text import Text

    lines = str(error).splitlines()
    out = console(stderr=True)
    out.print(Text.assemble(("error: ", "bold red"), (lines[0], "bold")), soft_wrap=True)
    for line in lines[1:]:
        out.print(Text(line), soft_wrap=True)
    out.print(Text(f"  spent  {error.spent_in_words(state)}"), soft_wrap=True)

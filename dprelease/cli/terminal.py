"""What every command prints the same way: errors, JSON, consoles.

Exit status: 0 done; 1 refused or not verified, nothing spent; 2 usage or a faulty file; 3 the
budget is spent and nothing is published.
"""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, ParamSpec

import typer

from dprelease.errors import DpreleaseError

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["AsJson", "console", "guarded", "print_json"]

P = ParamSpec("P")

AsJson = Annotated[bool, typer.Option("--json", help="Print one machine-readable object.")]


def console(*, stderr: bool = False) -> Console:
    """Return a rich console; plain text when not a terminal, at least 100 columns wide there."""
    from rich.console import Console

    made = Console(stderr=stderr, highlight=False, soft_wrap=False)
    if not made.is_terminal and "COLUMNS" not in os.environ:
        made.width = 140
    return made


def print_json(value: Any) -> None:
    """Print strict JSON on standard output."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


def guarded(command: Callable[P, None]) -> Callable[P, None]:
    """Turn dprelease errors into messages and exit codes; never a traceback for a user's mistake."""

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except DpreleaseError as error:
            _show(error, as_json=bool(kwargs.get("as_json")))
            raise typer.Exit(error.exit_status) from None
        except BrokenPipeError:
            sys.stderr.close()
            raise typer.Exit(1) from None
        except KeyboardInterrupt:
            typer.echo("cancelled", err=True)
            raise typer.Exit(130) from None

    return wrapped


def _show(error: DpreleaseError, *, as_json: bool) -> None:
    if as_json:
        print_json(error.as_dict())
        return
    from rich.text import Text

    lines = str(error).splitlines()
    out = console(stderr=True)
    out.print(Text.assemble(("error: ", "bold red"), (lines[0], "bold")), soft_wrap=True)
    for line in lines[1:]:
        out.print(Text(line), soft_wrap=True)
    spent = {
        "nothing": "nothing was spent",
        "charged": "the budget is spent; nothing is published",
        "unknown": "the budget may be spent: `dprelease ledger show` tells",
    }[error.spent]
    out.print(Text(f"  spent  {spent}"), soft_wrap=True)

"""Check a published release with Great Expectations: the table it looks at, and a small program.

`validate.gx_project` copies this file into the projects it writes, where it runs without
dprelease: it needs Great Expectations and pandas only. There it is a command as well,

    python gx/plugins/dprelease_release.py PUBLISHED_FOLDER

which reads `data.parquet` (or `data.csv`) of a published folder, makes the long table that the
suite is written for, runs the checkpoint and says which rules held. Exit status 0: all held.

The long table has one row per (group, statistic): `group` (the key as a JSON list), `statistic`,
`value`, `lower`, `upper`, `consistent` and `status`. Everything in it is published already; nothing
here sees a private row.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd

NAME = "dprelease"
"""What data source, asset, batch definition, suite, validation and checkpoint are called."""

CONTRACT = "dprelease_release.json"
"""Beside this file in a project: `{"by": [key columns], "plan_hash": …}`."""

COUNTS = {"result_format": "BASIC", "partial_unexpected_count": 0}
"""What is asked of a check: results with rows that fail stay where they are."""

COLUMNS = ("statistic", "value", "lower", "upper", "consistent", "status")
_NUMBERS = ("value", "lower", "upper", "consistent")


def group_labels(keys: Iterable[Sequence[str]]) -> list[str]:
    """Return groups' keys as the texts that the suite knows them by, JSON lists: what repeats is written once."""
    listed = [tuple(key) for key in keys]
    texts = {
        label: json.dumps(label, ensure_ascii=False) for label in {t for key in listed for t in key}
    }
    known = {
        key: f"[{', '.join([texts[label] for label in key])}]" for key in dict.fromkeys(listed)
    }
    return [known[key] for key in listed]


def long_table(frame: pd.DataFrame, groups: Any) -> pd.DataFrame:
    """Return the suite's table.

    Args:
        frame: the tidy table; tables that add up have no `consistent`.
        groups: one label per row.
    """
    out = frame[[name for name in COLUMNS if name in frame]].copy()
    out.insert(0, "group", groups)
    return out


def read_release(folder: Path, by: Sequence[str]) -> pd.DataFrame:
    """Return the tidy table of a published folder; keys are text, numbers are doubles."""
    parquet = folder / "data.parquet"
    if parquet.is_file():
        return pd.read_parquet(parquet)
    frame = pd.read_csv(folder / "data.csv", dtype=str, keep_default_na=False)
    # one apostrophe in front guards text that a spreadsheet would run
    frame.columns = frame.columns.str.removeprefix("'")
    for name in (*by, "statistic"):
        frame[name] = frame[name].str.removeprefix("'")
    for name in (name for name in _NUMBERS if name in frame):
        frame[name] = [float(cell) if cell else math.nan for cell in frame[name]]
    return frame


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the project's checkpoint on a published folder; return the exit status."""
    parser = argparse.ArgumentParser(description="Check a published release.")
    parser.add_argument("folder", type=Path, help="the folder of one period")
    parser.add_argument("--data-docs", action="store_true", help="build the Data Docs site, too")
    options = parser.parse_args(arguments)

    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    import great_expectations as gx

    plugins = Path(__file__).resolve().parent
    context = gx.get_context(mode="file", project_root_dir=plugins.parent.parent)
    import_module("dprelease_expectations")  # the suite's own expectation, beside this file
    contract = json.loads((plugins / CONTRACT).read_text(encoding="utf-8"))
    tidy = read_release(options.folder, contract["by"])
    keys = [tidy[name].astype(str) for name in contract["by"]]
    labels = group_labels(zip(*keys, strict=True) if keys else [()] * len(tidy))
    frame = long_table(tidy, labels)
    place = options.folder.resolve()  # `latest` is a link to a period
    run = gx.RunIdentifier(run_name=f"{place.parent.name} {place.name}")
    result = context.checkpoints.get(NAME).run(batch_parameters={"dataframe": frame}, run_id=run)
    for text in _lines(result):
        print(text)  # noqa: T201 - a command of its own
    if options.data_docs:
        for where in context.build_data_docs().values():
            print(f"open  {where}")  # noqa: T201
    print("valid" if result.success else "NOT valid")  # noqa: T201
    return 0 if result.success else 1


def _lines(result: Any) -> list[str]:
    out = []
    for run in result.run_results.values():
        for one in run.results:
            config = one.expectation_config
            failed = (one.result or {}).get("unexpected_count", 0)
            state = "ok  " if one.success else "FAIL"
            more = f", {failed} rows" if failed else ""
            out.append(f"{state}  {config.meta['rule']} ({config.type}{more})")
    return out


if __name__ == "__main__":
    sys.exit(main())

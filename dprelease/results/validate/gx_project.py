"""A plan's suite as a Great Expectations project on disk, for houses that run their own checks.

    gx/great_expectations.yml          the project: no analytics, no progress bars
    gx/expectations/, checkpoints/, …  suite, validation and checkpoint, all called `dprelease`
    gx/plugins/dprelease_expectations.py   the custom expectation, as dprelease itself runs it
    gx/plugins/dprelease_release.py        reads a published folder, runs the checkpoint
    README.md                          how to use it

The project is made from the plan alone: it reads no row and holds public text only. It needs
Great Expectations to run, not dprelease. Great Expectations is imported inside its guard only.
"""

from __future__ import annotations

import json
from pathlib import Path

from dprelease.core.errors import ArgumentError
from dprelease.release_plan.plan import ReleasePlan
from dprelease.results.validate.gx import expectations
from dprelease.results.validate.gx_process import undisturbed
from dprelease.results.validate.gx_release import CONTRACT, COUNTS, NAME

_QUIET = (
    "analytics_enabled: false",
    "progress_bars: {globally: false, metric_calculations: false}",
)

_README = """\
# Expectations of {schema}

A Great Expectations project made from a dprelease plan ({hash}): what every released value must
satisfy. It needs `pip install great_expectations pyarrow`, not dprelease.

    python gx/plugins/dprelease_release.py PUBLISHED_FOLDER
    python gx/plugins/dprelease_release.py PUBLISHED_FOLDER --data-docs

In a program of your own:

    import great_expectations as gx
    context = gx.get_context(mode="file", project_root_dir=".")
    import dprelease_expectations                 # in gx/plugins, on the path by now
    suite = context.suites.get("dprelease")

The table it looks at is made by `long_table` in `gx/plugins/dprelease_release.py`. A failure means
that the release is broken or is not one of this plan. Never draw again because of a failure: that
changes the law of the noise. Data Docs load their styles, and the script that lists the runs, from the
network; the page of each run below gx/uncommitted/data_docs/local_site/validations reads without it.
"""


def export_project(plan: ReleasePlan, to: Path, *, data_docs: bool = False) -> tuple[Path, ...]:
    """Write the project below `to` and return its files.

    Args:
        plan: whose suite; `data_docs`: build the Data Docs site of the suite, too.

    Raises:
        ArgumentError: `to` holds a project already (DPR615); then nothing is written.
    """
    if (to / "gx").exists() or (to / "README.md").exists():
        raise ArgumentError(
            f"{to} holds a project already",
            why="an export never replaces expectations that somebody may have edited",
            fix="choose another folder with --to, or remove this one",
            code="DPR615",
        )
    with undisturbed():
        _write(plan, to, data_docs=data_docs)
    plugins = to / "gx" / "plugins"
    for name in ("expectations", "release"):
        text = Path(__file__).with_name(f"gx_{name}.py").read_text(encoding="utf-8")
        (plugins / f"dprelease_{name}.py").write_text(text, encoding="utf-8")
    contract = {"by": list(plan.by), "plan_hash": plan.hash}
    (plugins / CONTRACT).write_text(json.dumps(contract, indent=2) + "\n", encoding="utf-8")
    readme = _README.format(schema=plan.schema, hash=plan.hash[:12])
    (to / "README.md").write_text(readme, encoding="utf-8")
    return tuple(sorted(p for p in to.rglob("*") if p.is_file()))


def _write(plan: ReleasePlan, to: Path, *, data_docs: bool) -> None:
    import great_expectations as gx

    import dprelease.results.validate.gx_expectations  # noqa: F401 - the suite's own expectation

    to.mkdir(parents=True, exist_ok=True)
    context = gx.get_context(mode="file", project_root_dir=to)
    batch = (
        context.data_sources.add_pandas(NAME)
        .add_dataframe_asset(NAME)
        .add_batch_definition_whole_dataframe(NAME)
    )
    suite = gx.ExpectationSuite(name=NAME, expectations=expectations(plan))
    added = context.suites.add(suite)
    validation = context.validation_definitions.add(
        gx.ValidationDefinition(name=NAME, data=batch, suite=added)
    )
    context.checkpoints.add(
        gx.Checkpoint(name=NAME, validation_definitions=[validation], result_format=COUNTS)
    )
    if data_docs:
        context.build_data_docs()
    # Last, since Great Expectations writes its settings anew and leaves these out.
    settings = to / "gx" / "great_expectations.yml"
    lines = settings.read_text(encoding="utf-8").splitlines()
    others = [x for x in lines if not x.startswith(("analytics_enabled", "progress_bars"))]
    settings.write_text("\n".join([*others, *_QUIET]) + "\n", encoding="utf-8")

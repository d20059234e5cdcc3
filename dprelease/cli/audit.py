"""`dprelease audit`: evidence for a plan's guarantee, on made-up rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dprelease.cli.terminal import AsJson, console, loaded, print_json

if TYPE_CHECKING:
    from rich.console import Group

    from dprelease.audit.plan import Evidence, Finding
    from dprelease.pipeline.config import PipelineConfig

SECTIONS = {
    "A exact laws": "what each law can draw, all answers against all outputs, from its own integers",
    "A exact pairs": "the whole plan between made-up tables that differ in one protected unit",
    "B draws": "what the samplers draw, against their own tables",
    "C black box": "draws of two such tables, told apart by a test that knows no mechanism",
}
"""Layers in the order of their strength, and what each one does."""


def audit(
    pipeline: Annotated[Path, typer.Argument(help="A pipeline file.")],
    draws: Annotated[
        int, typer.Option(min=100, max=10_000_000, help="Draws per law and per made-up table.")
    ] = 20_000,
    as_json: AsJson = False,
) -> None:
    """Try to break what a pipeline's plan claims: exact losses, draws, a black box.

    Reads no private row, spends nothing: rows are made up from the schema's public numbers.

    Example: dprelease audit pipelines/flights_weekly.yaml --draws 20000

    Exit status: 0 nothing breaks its claim; 1 something does; 2 usage or a faulty file.
    """
    from dprelease.audit.plan import audit_plan
    from dprelease.pipeline.planned import plan_pipeline

    config = loaded(pipeline)
    engine, engine_name = _engine(config)
    plan = plan_pipeline(config)
    out = console(stderr=as_json)
    with out.status("auditing") as status:

        def report(done: str) -> None:
            status.update(f"auditing: {done.replace('[', '(')}")

        evidence = audit_plan(plan, engine, draws=draws, engine_name=engine_name, progress=report)
    if as_json:
        print_json(evidence.to_json())
    else:
        out.print(renderable(evidence))
    if not evidence.ok:
        raise typer.Exit(1)


def _engine(config: PipelineConfig) -> tuple[Any, str]:
    """Return what sums the made-up rows, and its name.

    They are in memory. An engine that reads no such rows is not asked: an audit starts no cluster and writes
    no table, and what engines of this library answer is the same (`dprelease.testing.check_engine`).
    """
    from dprelease.engines.engine import DEFAULT, reads
    from dprelease.pipeline.preflight import engine_named

    if not reads(config.engine, "arrow"):
        return engine_named(DEFAULT), f"{DEFAULT} ({config.engine} reads no rows in memory)"
    return engine_named(config.engine, config.limits, config.engine_options()), config.engine


def renderable(evidence: Evidence) -> Group:
    """Return the evidence for a terminal: a table per layer, then the verdict."""
    from rich.console import Group
    from rich.text import Text

    parts: list[Any] = [
        Text(evidence.guarantee, style="bold"),
        Text(
            f"plan {evidence.plan_hash[:12]}; rows are made up, none is read, nothing is spent",
            style="dim",
        ),
    ]
    for layer, meaning in SECTIONS.items():
        found = [f for f in evidence.findings if f.layer == layer]
        if found:
            parts += [
                Text(),
                Text.assemble((layer, "bold"), (f"  {meaning}", "dim")),
                _table(found),
            ]
    count = len(evidence.findings)
    summary = f"{count} findings in {evidence.seconds:.1f} s"
    unknown = sum(f.ok is None for f in evidence.findings)
    if unknown:
        summary += f", {unknown} not audited"
    if evidence.ok:
        verdict = Text.assemble(("nothing breaks its claim", "bold green"), f"; {summary}")
        verdict.append("\nevidence, not proof: the proof is recomputed by every run", style="dim")
    else:
        broken = sum(f.ok is False for f in evidence.findings)
        verdict = Text.assemble(("a claim is BROKEN", "bold red"), f"; {broken} of {summary}")
        verdict.append(
            "\ndo not release with this plan; please report it, with the plan's hash", style="dim"
        )
    return Group(*parts, Text(), verdict)


def _table(findings: list[Finding]) -> Any:
    """Return one layer's findings; what all of them share is said once, below."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    marks = {True: Text("ok", "green"), False: Text("FAIL", "bold red"), None: Text("--", "yellow")}
    shared = len(findings) > 1 and len({f.size for f in findings}) == 1
    named = any(f.how for f in findings)
    names = ["", "subject", "claimed", "found", *(["told apart by"] if named else [])]
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0), pad_edge=False)
    for name in names if shared or named else [*names, "summary at"]:
        table.add_column(name, overflow="fold")
    for f in findings:
        last = [Text(f.how)] if named else [] if shared else [Text(f.size, "dim")]
        table.add_row(marks[f.ok], Text(f.subject), Text(f.claimed), Text(f.found), *last)
    return Group(table, Text(f"each: {findings[0].size}", "dim")) if shared or named else table

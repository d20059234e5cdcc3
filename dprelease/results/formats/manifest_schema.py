"""The shape of `release.json` (release/2), for readers in other languages and for tests: a JSON Schema.

`dprelease schema json-schema --of manifest` prints it. Keys may be added within a
version, so readers pass over what they do not know; none is removed or changes its meaning.
Exact numbers are "p/q" strings. The shape says nothing about truth: `dprelease verify` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Shape = Mapping[str, Any]

ANY: Shape = {}
NULL: Shape = {"type": "null"}
TEXT: Shape = {"type": "string"}
COUNT: Shape = {"type": "integer"}
OBJECT: Shape = {"type": "object", "additionalProperties": True}


def _text(pattern: str) -> Shape:
    return {**TEXT, "pattern": pattern}


def _list(items: Shape) -> Shape:
    return {"type": "array", "items": items}


def _by_name(values: Shape) -> Shape:
    return {"type": "object", "additionalProperties": values}


def _either(*shapes: Shape) -> Shape:
    return {"anyOf": list(shapes)}


def _part(name: str) -> Shape:
    return {"$ref": f"#/$defs/{name}"}


def _said(shape: Shape, description: str) -> Shape:
    return {**shape, "description": description}


def _may(shape: Shape, description: str = "", default: object = None) -> Shape:
    """Return the shape of a key that may be left out: then its value is `default`."""
    found = {**(_either(shape, NULL) if default is None else shape), "default": default}
    return _said(found, description) if description else found


def _object(description: str, **keys: Shape) -> Shape:
    """Return the shape of an object that may gain keys within this version."""
    titles = {key: key.replace("_", " ").title() for key in keys}
    properties = {k: s if "$ref" in s else {"title": titles[k], **s} for k, s in keys.items()}
    required = [key for key, shape in keys.items() if "default" not in shape]
    return {**OBJECT, "description": description, "properties": properties, "required": required}


RATIONAL = _said(_text(r"^-?\d+(/[1-9]\d*)?$"), "Exact: p or p/q.")
DECIMAL = _text(r"^\d+(\.\d+)?(e-?\d+)?(/[1-9]\d*)?$")
WHOLE = _text(r"^-?\d+$")
DAY = _text(r"^\d{4}-\d\d-\d\d$")
INSTANT = _text(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
SHA256 = _text(r"^[0-9a-f]{64}$")
POSITIVE: Shape = {**COUNT, "minimum": 1}

PARTS: Mapping[str, Shape] = {
    "PersonModel": _object(
        "What one person in every interval loses at most.",
        epsilon=RATIONAL,
        delta=RATIONAL,
        rho=_may(RATIONAL, "Where losses add up by zCDP."),
    ),
    "GuaranteeModel": _object(
        "What is promised, to whom.",
        statement=_said(TEXT, "The guarantee in one sentence."),
        epsilon=RATIONAL,
        delta=RATIONAL,
        adjacency={**TEXT, "enum": ["add_remove", "substitution"]},
        unit=_said(_either(TEXT, OBJECT), "The protected unit, as schemas declare it."),
        protects=_said(TEXT, "How two neighbouring tables differ, in words."),
        time=_may(
            OBJECT,
            "Column, timezone, dates, immutable: by what losses are added up over time.",
        ),
        window=_may(
            _list(_either(TEXT, NULL)),
            "First instant of the rows that were read, and the first one after; null: open.",
        ),
        person=_may(
            _part("PersonModel"),
            "Where the unit is a person's rows of an interval: what the whole person loses "
            "by this release; null: no bound.",
        ),
    ),
    "StatisticModel": _object(
        "One statistic of the plan.",
        name=TEXT,
        statistic=_said(TEXT, "As it was asked for, `mean(age)`."),
        function=TEXT,
        block=TEXT,
        columns=_said(
            _either(_list(TEXT), _by_name(TEXT)),
            "Published columns; more than 64 bins by their `name` and `edges`.",
        ),
        domain=_said(ANY, "Allowed values: exact ends and forbidden intervals."),
        step=RATIONAL,
        measure=TEXT,
        mechanism=TEXT,
        error_text=TEXT,
    ),
    "BlockModel": _object(
        "One draw: a law over integers, charged once.",
        name=TEXT,
        family=TEXT,
        cells=_either(_list(TEXT), _by_name(TEXT)),
        epsilon=RATIONAL,
        mechanism=TEXT,
        measurement=OBJECT,
        law=_said(OBJECT, "Exact weights, or what they are recomputed from."),
        certificate=_said(OBJECT, "`epsilon_upper` is the proved loss, p/q."),
    ),
    "PlanModel": _object(
        "Everything that was decided before any row was read.",
        by=_said(_list(TEXT), "Key columns."),
        keys=_said(_list(_list(TEXT)), "Every group, from declarations."),
        window=_said(_either(_list(TEXT), NULL), "First instant, and the first one after."),
        where=_either(TEXT, NULL),
        loss=TEXT,
        statistics={**_list(_part("StatisticModel")), "minItems": 1},
        blocks=_list(_part("BlockModel")),
        allow=_may(_list(TEXT), "What is observed and not proved, allowed by name.", []),
        notes=_list(TEXT),
    ),
    "AnchorModel": _object(
        "The ledger's head right after the debit.",
        ledger_id=TEXT,
        seq=POSITIVE,
        head_hash=SHA256,
    ),
    "BudgetModel": _object(
        "The data set's budget as of the debit.",
        spent=RATIONAL,
        total=RATIONAL,
        history=_may(_list(RATIONAL), "Spent after each debit, the newest last.", []),
        composition=_may({**TEXT, "enum": ["basic", "zcdp"]}, "How debits add up.", "basic"),
        delta=_said(RATIONAL, "Spent, like epsilon; the total one where debits add up by zCDP."),
        person=_may(
            _part("PersonModel"),
            "What a whole person has lost by all debits so far; null: no bound.",
        ),
        member=_may(
            OBJECT,
            "Of a population's member: `spent` of `total` over `tables`, `delta` of `total_delta`.",
        ),
    ),
    "ApprovalModel": _object(
        "Who let this be released: an event of the ledger, and what it approved.",
        event=_said(POSITIVE, "The ledger's event that records the approval."),
        request=_said(SHA256, "Of the request without its period's name, zone tables and words."),
    ),
    "ReceiptModel": _object(
        "What was paid, under which key, and where that is written down. Given, not derived.",
        epsilon=DECIMAL,
        delta=DECIMAL,
        protects=TEXT,
        pipeline=_either(TEXT, NULL),
        period=_either(TEXT, NULL),
        dataset=_either(TEXT, NULL),
        scheduled=_may(INSTANT),
        published=_may(DAY),
        early=_may(INSTANT),
        ledger=_either(_part("AnchorModel"), NULL),
        budget=_either(_part("BudgetModel"), NULL),
        approval=_may(_part("ApprovalModel"), "Where the pipeline needed one."),
    ),
    "RequestModel": _object(
        "What was asked: everything else that is derived follows from it, the draw and the receipt.",
        schema=_said(OBJECT, "A schema, as schema/1 files say it."),
        release=_said(OBJECT, "A release block; `keys` are a key file's groups."),
        period=_said(
            _either(_by_name(TEXT), NULL), "Column, length, zone, name, zone tables, delay."
        ),
        view=_said(_either(OBJECT, NULL), "The curator's view, and its tables."),
        formats=_said(_list(TEXT), "What was to be written."),
        report=_may(COUNT, "Edition of the report, where there is one."),
    ),
    "DrawModel": _object(
        "What was drawn, from the laws in `plan.blocks`. Given, not derived.",
        cells=_said(_by_name(_list(_list(WHOLE))), "Noisy integers: block, group, cell."),
        fits=_may(
            OBJECT,
            "Of several tables: values in steps by statistic and table, and proofs of them.",
        ),
    ),
    "OtherBudgetModel": _object(
        "What the plan would expect at another epsilon.",
        epsilon=RATIONAL,
        errors=_said(_by_name({"type": "number"}), "Expected error per statistic, in its unit."),
    ),
    "FileModel": _object("One file of the folder.", sha256=SHA256, bytes={**COUNT, "minimum": 0}),
}
"""The parts of a manifest, by the names that the schema has for them."""

MANIFEST = {
    "$defs": {name: {"title": name, **part} for name, part in PARTS.items()},
    **_object(
        "`release.json`: everything a stranger needs to check a release.",
        dprelease=_said({**TEXT, "const": "release/2"}, "Format and version of this file."),
        request=_either(_part("RequestModel"), NULL),
        draw=_part("DrawModel"),
        receipt=_part("ReceiptModel"),
        pipeline=_either(TEXT, NULL),
        period=_either(TEXT, NULL),
        scheduled=_may(INSTANT, "When the period was due, by its calendar."),
        published=_may(DAY, "The day of publication (UTC), as committed to the ledger."),
        early=_may(
            INSTANT,
            "When the period closes, if it was released before that: later rows are missing.",
        ),
        dataset=_either(TEXT, NULL),
        guarantee=_part("GuaranteeModel"),
        plan=_part("PlanModel"),
        plan_hash=SHA256,
        validation=OBJECT,
        ledger=_either(_part("AnchorModel"), NULL),
        budget=_either(_part("BudgetModel"), NULL),
        what_if=_may(_list(_part("OtherBudgetModel")), "The same plan at other budgets.", []),
        over_time=_said(
            _either(TEXT, NULL),
            "What one unit, and a whole person, have lost as of this release, in words.",
        ),
        software=_by_name(TEXT),
        files=_said(_by_name(_part("FileModel")), "Every other file of the folder."),
    ),
}
"""The schema of the file."""

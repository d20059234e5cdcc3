"""`registry.yaml`: a draft record for the public registry of differential privacy deployments.

The record says in the registry's own fields (`registry_schema`) what this release is: variant of
privacy, unit, loss, trust model, composition, mechanisms. It is a function of the plan and the
manifest, so `verify` makes it again. What only the publisher knows (curators, intended use, region,
authors) says so in its place, because the registry requires an answer and a made-up one would be
worse than none; the first comment names these fields.

Losses are printed as numbers rounded up to 9 digits, and exactly in words beside them. The date of
publication is the manifest's `published`.

Source  see `registry_schema`. A record is reviewed by hand there, so a draft is what it takes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import yaml

from dprelease.core.numeric import counted, plain
from dprelease.release_plan.plan import ReleasePlan
from dprelease.release_plan.promise import ledger_window, timeline_of
from dprelease.release_plan.weak import weak_sentence
from dprelease.results.draw import Draw
from dprelease.results.formats.format import several_tables
from dprelease.results.formats.public_words import PublicWords, public_words
from dprelease.results.formats.words import mechanism_words, period_words

FILE = "registry.yaml"
_NOTE = (
    "# Draft record for github.com/opendp/deployments-registry-data. Only the publisher knows, and\n"
    "# fills in under `basic`: data_curators, intended_use, data_product_region, data_product_sector;\n"
    "# under `administrative`: sources, registry_authors. `url_slug` then follows from name, curators\n"
    "# and year.\n"
)
OPEN = "To be filled in by the publisher"
"""Stands where the registry wants what only the publisher knows."""


@several_tables("all")
def write(noised: Draw, manifest: Mapping[str, Any]) -> dict[str, bytes]:
    """Return `{"registry.yaml": bytes}`."""
    text: str = yaml.safe_dump(
        record(noised.plan, manifest), sort_keys=False, allow_unicode=True, width=100
    )
    return {FILE: (_NOTE + text).encode("utf-8")}


def record(plan: ReleasePlan, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record as YAML data; `manifest` gives names and the day of publication."""
    period, words = manifest.get("period") or "", public_words(manifest)
    day, about = manifest.get("published"), words.about
    title = " · ".join(t for t in (words.title, period_words(period)) if t)
    curator = OPEN if about.publisher is None else about.publisher.name
    return {
        "url_slug": _slug(title, curator, (day or "").partition("-")[0]),
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "basic": {
                "name": title,
                "data_curators": [curator],
                "intended_use": OPEN,
                "data_product_type": "Summary statistics",
                "data_product_region": OPEN,
                "description": _description(plan, words),
                **({"publication_date": day} if day else {}),
            },
            "dp_variant": _variant(plan),
            "privacy_loss": _loss(plan, manifest, words),
            "deployment_model": _model(plan),
            "accounting": _accounting(plan),
            "implementation": _implementation(plan, manifest["software"]),
            "administrative": {
                "notes": f"Drafted from release.json, plan {manifest['plan_hash']}."
                + (f" Licence: {about.licence}." if about.licence else "")
                + (f" Contact: {about.contact}." if about.contact else "")
                + (f" Keywords: {', '.join(about.keywords)}." if about.keywords else ""),
                "registry_authors": [OPEN],
            },
        },
    }


def _slug(*parts: str) -> str:
    """Return the registry's address for a record: its words in lower case, joined by hyphens."""
    return "-".join(re.sub(r"[\W_]+", "-", part.lower()) for part in parts if part)


def _description(plan: ReleasePlan, words: PublicWords) -> str:
    listed = ", ".join(dict.fromkeys(words.heading(s) for s in plan.statistics))
    by = ", ".join(words.column(name) for name in plan.by)
    groups = f" for {counted(len(plan.keys), 'group')} by {by}" if plan.by else ""
    taken = (words.condition(plan.where) or plan.where) if plan.where else None
    where = f", of {words.counted} with {taken}" if taken else ""
    own = f"{words.about.description} " if words.about.description else ""
    return (
        f"{own}{listed}{groups}{where}. Values carry noise, and a 95 % interval where one is known."
    )


def _variant(plan: ReleasePlan) -> dict[str, Any]:
    added = plan.adjacency.value == "add_remove"
    keys = "" if plan.query.groups.found else " group keys,"
    unprotected = f"The declared ranges,{keys} limits and row caps; all are public inputs."
    if not added:
        unprotected += " The number of protected units is public: neighbours have the same number."
    return {
        "variant_name": "Approximate DP" if plan.delta else "Pure DP",
        "data_domain": f"Tables of the schema `{plan.schema}`: any rows with its declared columns.",
        "unprotected_quantities": unprotected,
    }


def _loss(plan: ReleasePlan, manifest: Mapping[str, Any], words: PublicWords) -> dict[str, Any]:
    guarantee, over = manifest["guarantee"], manifest["over_time"]
    over = f" Over time, as of this release: {over}." if over else ""
    weak = weak_sentence(plan.epsilon, words.data)
    parameters = {"epsilon": _up(plan.epsilon)}
    observed = "".join(f" Note: {note}" for note in plan.notes if note.startswith("observed"))
    if plan.delta:
        parameters["delta"] = _up(plan.delta)
    return {
        "privacy_unit": words.protected,
        "privacy_unit_details": f"Two tables are adjacent if they differ by "
        f"{guarantee['protects']}. {guarantee['statement'][:1].upper()}{guarantee['statement'][1:]}.",
        "privacy_parameters": parameters,
        "privacy_parameters_details": f"Exactly epsilon = {_text(plan.epsilon)}"
        + (f" and delta = {_text(plan.delta)}" if plan.delta else "")
        + f", for this one release. A ledger adds up all releases of the data set.{over}{weak}{observed}",
    }


def _model(plan: ReleasePlan) -> dict[str, Any]:
    many = plan.window is not None
    return {
        "model_name": "Central",
        "actors": "The curator holds the rows and runs the release; readers see released values only "
        "and need no trust.",
        "release_type": "Many releases" if many else "One release",
        "release_type_details": "One release per period; each is charged to one ledger, and "
        + _over_periods(plan)
        if many
        else "Published once, charged to a ledger.",
        "data_source_type": "Dynamic" if many else "Static",
        "access_type": "Non-interactive",
        "access_type_details": "Readers get the published files; nobody queries the data.",
    }


def _over_periods(plan: ReleasePlan) -> str:
    line = timeline_of(plan)
    if not line.apart or ledger_window(plan) == (None, None):
        return "losses of periods add up for a unit that is in several."
    if line.pairs:
        return "disjoint periods cost together at most the two largest of their losses."
    return (
        "losses of disjoint periods do not add up for one unit, which lies in one interval of time."
    )


def _accounting(plan: ReleasePlan) -> dict[str, Any]:
    parts = "; ".join(f"{b.name}: {_text(b.epsilon)}" for b in plan.blocks)
    how = "Sequential, over blocks of one draw each"
    method = "" if plan.composition is None else plan.composition.method.partition("/")[0]
    if method not in ("", "basic"):
        how = f"Tighter than the sum, by `{method}`, over blocks of one draw each"
    return {
        "post_processing": "Statistics, intervals and files are functions of the noisy integers in "
        "release.json. Values outside a declared domain do not occur: the noise is made so.",
        "composition": f"{how} ({parts}).",
    }


def _implementation(plan: ReleasePlan, software: Mapping[str, str]) -> dict[str, Any]:
    used = dict.fromkeys(mechanism_words(b.mechanism) for b in plan.blocks)
    return {
        "preprocessing_and_hyperparameter_tuning": "Rows per unit are limited by a secret hash, "
        "values are clamped to declared ranges. Nothing was tuned on the data: the plan is made "
        "before any row is read.",
        "mechanisms": f"{', '.join(used)}; drawn in exact integer arithmetic with the operating "
        "system's random bits, so floating point cannot leak. Implemented by dprelease "
        f"{software.get('dprelease', '')}".rstrip()
        + ". Timing is not protected.",
        "justification": "Of all mechanisms with a proved loss the plan took the one with the "
        f"smallest expected {plan.loss} error; release.json lists the runners-up.",
    }


def _text(value: Fraction) -> str:
    return str(plain(value))


def _up(value: Fraction) -> float | int:
    """Return a number not below `value`: nine digits, the last one rounded up."""
    if value.denominator == 1:
        return value.numerator
    places = 8 - math.floor(math.log10(float(value)))
    rounded = Fraction(math.ceil(value * Fraction(10) ** places)) / Fraction(10) ** places
    near = float(rounded)
    return near if Fraction(near) >= value else math.nextafter(near, math.inf)

"""Forged folders, each with what it claims: what a verifier must not believe.

A forgery is a function of an honest folder. Most forgers here are careful: they make every hash fit
(`sealed`), and the better ones run our own writers on their numbers (`remade`), so that nothing in
the folder disagrees with anything else in it but for the derivation.
"""

from __future__ import annotations

import base64
import io
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dprelease.measurements.law import draw_from_json
from dprelease.planning.again import plan_again
from dprelease.results.formats.json_ import FILE, manifest_bytes
from dprelease.results.formats.parquet import ROWS_PER_GROUP
from dprelease.verification.derivation import Derivation
from tests.folders import Files, manifest_of, remade, sealed

__all__ = ["FORGERIES", "ONLY_THE_LEDGER", "Forgery"]

Manifest = dict[str, Any]


@dataclass(frozen=True)
class Forgery:
    """`claims`: what the folder says and is not true; `make`: honest files to forged ones.

    `place` acts on the written folder, for what is not a content of a file.
    """

    claims: str
    make: Callable[[Files], Files] = dict
    place: Callable[[Path], None] | None = None


FORGERIES: dict[str, Forgery] = {}


def forged(name: str, claims: str, *, again: bool = False) -> Callable[..., Any]:
    """Register a change of the manifest; `again`: all other files are made to agree with it."""

    def register(change: Callable[[Manifest], object]) -> Callable[[Manifest], object]:
        def make(files: Files) -> Files:
            manifest = manifest_of(files)
            change(manifest)
            return remade(manifest) if again else sealed(files, manifest)

        FORGERIES[name] = Forgery(claims, make)
        return change

    return register


def scaled(text: str, factor: Fraction) -> str:
    return str(Fraction(text) * factor)


# --- the price --------------------------------------------------------------------------------


@forged(
    "a padding block of -1,000,000 rows", "a true epsilon of 50 is paid back by a negative loss"
)
def padding(m: Manifest) -> None:
    plan = m["plan"]
    block = json.loads(json.dumps(plan["blocks"][0]))
    block["name"] = "padding"
    block["epsilon"] = block["share"]["epsilon"] = "-48"
    block["measurement"]["max_rows"] = -1_000_000
    place = len(plan["query"]["primitives"])
    plan["query"]["primitives"].append({**plan["query"]["primitives"][0], "max_rows": -1_000_000})
    block["measurement"]["primitives"] = [place]
    plan["blocks"].append(block)
    m["draw"]["cells"]["padding"] = [["0"]] * len(plan["keys"])


@forged("a unit of a thousandth of a row", "epsilon is a tenth of what it is")
def small_unit(m: Manifest) -> None:
    for unit in (m["plan"]["unit"], m["guarantee"]["unit"], m["request"]["schema"]["unit"]):
        unit["max_rows"] = 0.0001


for _name, _value in {
    "minus one": -1,
    "none": 0,
    "half of one": 0.5,
    "a true one": True,
    "text": "1",
}.items():

    def _group_bound(m: Manifest, value: Any = _value) -> None:
        m["request"]["schema"]["unit"]["max_groups"] = value
        m["plan"]["unit"]["max_groups"] = m["plan"]["query"]["max_groups"] = value

    forged(f"at most {_name} groups per person", "contributions are bounded")(_group_bound)


@forged("certificates of a millionth", "each law is proved to lose 0.000001", again=True)
def certificates(m: Manifest) -> None:
    for block in m["plan"]["blocks"]:
        block["certificate"]["epsilon_upper"] = "1/1000000"


@forged("a law with half the noise", "the law's loss is what its certificate states", again=True)
def weaker(m: Manifest) -> None:
    noise = next(
        law["noise"]
        for law in (b["law"].get("law", {}) for b in m["plan"]["blocks"])
        if "rate" in law.get("noise", {})
    )
    noise["rate"] = scaled(noise["rate"], Fraction(2))


@forged("a law with a little more noise", "the stated errors are those of the law", again=True)
def noisier(m: Manifest) -> None:
    for block in m["plan"]["blocks"]:
        noise = block["law"].get("law", {}).get("noise", {})
        if "rate" in noise and block["law"]["draw"] == "cells":
            noise["rate"] = scaled(noise["rate"], Fraction(999, 1000))
            proved = draw_from_json(block["law"]).noise.certificate  # type: ignore[union-attr]
            block["certificate"] |= {
                "law": proved.to_json(),
                "epsilon_upper": str(proved.epsilon_upper),
            }
            break


@forged("a law with a trifle less noise", "it loses what its block claims", again=True)
def trifle(m: Manifest) -> None:
    """The planner calls its errors equal to the best: only the recomputed loss is above the claim."""
    laws = (b["law"].get("law", {}) for b in m["plan"]["blocks"])
    noise = next(law["noise"] for law in laws if "p" in law.get("noise", {}))
    noise["p"] = str(int(noise["p"]) - 10**12)
    m["plan"] = json.loads(json.dumps(plan_again(Derivation(m).query, m["plan"]).to_json()))


@forged("half the epsilon", "the release costs half of what its laws cost", again=True)
def cheaper(m: Manifest) -> None:
    for place in (m["guarantee"], m["plan"], m["receipt"], m["request"]["release"]):
        place["epsilon"] = 1
    m["guarantee"]["epsilon"] = m["plan"]["epsilon"] = m["receipt"]["epsilon"] = "1"


@forged("a negative share", "one block pays for another", again=True)
def negative(m: Manifest) -> None:
    one, two = m["plan"]["blocks"][:2]
    one["share"]["epsilon"] = one["epsilon"] = "-1"
    two["share"]["epsilon"] = two["epsilon"] = "3"


@forged("a narrower claimed move", "one person moves the count by less", again=True)
def narrower(m: Manifest) -> None:
    law = m["plan"]["blocks"][0]["law"]
    law["sensitivity"] = law["law"]["sensitivity"] = 1
    m["plan"]["blocks"][0]["measurement"]["sensitivity"]["l1_over_groups"] = "1"


@forged("substitution for addition", "neighbours differ in less than they do", again=True)
def adjacency(m: Manifest) -> None:
    m["plan"]["adjacency"] = m["guarantee"]["adjacency"] = "substitution"


@forged("perfect privacy, in words", "the guarantee is perfect privacy")
def words(m: Manifest) -> None:
    m["guarantee"]["statement"] = "perfectly private"


@forged("everybody is protected, in words", "everybody is protected")
def protects(m: Manifest) -> None:
    m["guarantee"]["protects"] = m["receipt"]["protects"] = "everybody, always"


@forged("an unknown way to compose", "losses compose better than is proved", again=True)
def composing(m: Manifest) -> None:
    m["plan"]["composition"] = {
        "method": "magic/1",
        "evidence": {"epsilon_upper": "1/10", "rho": "0"},
    }


# --- what was asked ---------------------------------------------------------------------------


@forged("age >= 65 over a query of 18", "the figures are of people of 65 and more", again=True)
def older(m: Manifest) -> None:
    m["plan"]["where"] = "age >= 65"


@forged("age >= 65 in plan and query", "the request asked for 65 and more", again=True)
def older_yet(m: Manifest) -> None:
    m["plan"]["where"] = m["plan"]["query"]["where"] = "age >= 65"


@forged("age >= 65 in the request alone", "the request asked for 65 and more")
def asked(m: Manifest) -> None:
    m["request"]["release"]["where"] = "age >= 65"


@forged("a format that is asked for twice", "the request names the formats so")
def formats(m: Manifest) -> None:
    m["request"]["formats"].append(m["request"]["formats"][0])


@forged("mean(age) that sums another column", "the mean is of ages", again=True)
def other_column(m: Manifest) -> None:
    for code in m["plan"]["query"]["codes"]:
        if code.get("column") == "age":
            code["column"] = "bmi"


@forged("another title", "the count is of the vaccinated", again=True)
def title(m: Manifest) -> None:
    m["plan"]["statistics"][0]["statistic"] = "count of the vaccinated"


@forged("another name of a column", "what is published as `count` is called `deaths`", again=True)
def renamed(m: Manifest) -> None:
    statistic = m["plan"]["statistics"][0]
    statistic["name"] = "deaths"
    statistic["columns"] = ["deaths"]


@forged("a remark of nobody's", "the publisher adds that all is well", again=True)
def remark(m: Manifest) -> None:
    m["plan"]["statistics"][0]["remark"] = "checked by the regulator"


@forged("a measure that was not declared", "ages are in months", again=True)
def measure(m: Manifest) -> None:
    m["plan"]["statistics"][1]["measure"] = "months"


@forged("windows that are not the period's", "the rows are of another week", again=True)
def window(m: Manifest) -> None:
    for place, at in ((m["plan"]["window"], 0), (m["plan"]["query"]["window"], 1)):
        place[at] = "2020-01-06T00:00:00+00:00"
        place[at + 1] = "2020-01-13T00:00:00+00:00"


@forged("the period's name on another week", "the release is of the receipt's period")
def period(m: Manifest) -> None:
    m["request"]["period"]["name"] = "2026-W45"


@forged("another week's name on these rows", "week 45 was released", again=True)
def receipt_period(m: Manifest) -> None:
    m["period"] = m["receipt"]["period"] = "2026-W45"


@forged("a period on another calendar", "weeks end at midnight in Apia", again=True)
def calendar(m: Manifest) -> None:
    m["request"]["period"]["timezone"] = "Pacific/Apia"


@forged("a forged domain", "counts lie in 0 to 100", again=True)
def domain(m: Manifest) -> None:
    m["plan"]["statistics"][0]["domain"] = {"range": ["0", "100"], "forbidden": []}


@forged("a forged gap", "small counts are suppressed, as the declaration says", again=True)
def gap(m: Manifest) -> None:
    m["plan"]["statistics"][0]["domain"]["forbidden"] = [["0", "50"]]


@forged("a coarser step", "values are published in steps of five", again=True)
def step(m: Manifest) -> None:
    m["plan"]["statistics"][0]["step"] = "5"


@forged("other groups", "the groups are three cities", again=True)
def groups(m: Manifest) -> None:
    m["plan"]["keys"] = [[f"city {i}"] for i, _ in enumerate(m["plan"]["keys"])]


@forged("a group left out", "there is no group of others", again=True)
def fewer(m: Manifest) -> None:
    m["plan"]["keys"].pop()
    for rows in m["draw"]["cells"].values():
        rows.pop()


@forged("two groups swapped", "the south's figures are the north's", again=True)
def swapped(m: Manifest) -> None:
    keys = m["plan"]["keys"]
    keys[0], keys[1] = keys[1], keys[0]


# --- what is said beside ----------------------------------------------------------------------


@forged("better expected errors", "the errors are a third of what they are", again=True)
def errors(m: Manifest) -> None:
    for statistic in m["plan"]["statistics"]:
        for option in statistic["options"]:
            option["expected_error"] = (option["expected_error"] or 3) / 3
        for key in ("expected_error", "planned_error"):
            if statistic.get(key):
                statistic[key] /= 3


@forged("a rival's error made worse", "the runner-up is far worse", again=True)
def rival(m: Manifest) -> None:
    m["plan"]["statistics"][0]["options"][-1]["expected_error"] *= 2


@forged("rivals left out", "nothing else was priced", again=True)
def alone(m: Manifest) -> None:
    for statistic in m["plan"]["statistics"]:
        statistic["options"] = statistic["options"][:1]


@forged("a better error text", "±0.1 years", again=True)
def error_text(m: Manifest) -> None:
    m["plan"]["statistics"][1]["error_text"] = "±0.1 years"


@forged("notes left out", "rows are neither clamped nor bounded", again=True)
def notes(m: Manifest) -> None:
    m["plan"]["notes"] = []
    for statistic in m["plan"]["statistics"]:
        statistic["notes"] = []


@forged("errors at other budgets", "twice the budget would not help", again=True)
def other_budgets(m: Manifest) -> None:
    for point in m["what_if"]:
        point["errors"] = {name: error * 10 for name, error in point["errors"].items()}


@forged("no other budgets", "nothing was planned at other budgets", again=True)
def no_budgets(m: Manifest) -> None:
    m["what_if"] = []


@forged("a verdict of other rules", "a thousand rules were checked", again=True)
def verdict(m: Manifest) -> None:
    m["validation"]["rules"] = [{"rule": "magic", "statistic": "*", "checked": 1000, "failed": 0}]


@forged("a smaller budget spent", "the data set has spent nothing before", again=True)
def spent(m: Manifest) -> None:
    for budget in (m["budget"], m["receipt"]["budget"]):
        budget |= {"spent": "1/100", "history": ["1/100"]}


@forged("a budget that is overspent", "spending fits the total", again=True)
def overspent(m: Manifest) -> None:
    for budget in (m["budget"], m["receipt"]["budget"]):
        budget["total"] = "1"


@forged("a history that falls", "budget was given back", again=True)
def history(m: Manifest) -> None:
    for budget in (m["budget"], m["receipt"]["budget"]):
        budget["history"] = ["50", budget["spent"]]


@forged("a history that fell once", "budget was given back, and spent again", again=True)
def fell(m: Manifest) -> None:
    for budget in (m["budget"], m["receipt"]["budget"]):
        budget["history"] = ["3", "0", *budget["history"]]


@forged("two budgets", "the page shows one budget and the receipt another", again=True)
def two_budgets(m: Manifest) -> None:
    m["budget"]["total"] = "100000"


@forged("a receipt of another price", "half of it was paid")
def paid(m: Manifest) -> None:
    m["receipt"]["epsilon"] = "1"


@forged("a receipt of another pipeline", "another pipeline's key paid", again=True)
def other_key(m: Manifest) -> None:
    m["receipt"]["pipeline"] = "elsewhere"


@forged("a receipt that leaves the folder", "the data set is called ../../etc", again=True)
def escaping(m: Manifest) -> None:
    m["receipt"]["dataset"] = m["dataset"] = "../../etc"


@forged("an entry that is not a number", "entry 4.5 paid", again=True)
def entry(m: Manifest) -> None:
    m["receipt"]["ledger"]["seq"] = m["ledger"]["seq"] = 4.5


@forged("a schedule in words", "it was due soon", again=True)
def schedule(m: Manifest) -> None:
    m["receipt"]["scheduled"] = m["scheduled"] = "soon"


@forged("rows in the software", "the software is a table of patients", again=True)
def software(m: Manifest) -> None:
    m["software"] = {f"patient {i}": "72 years, HIV" for i in range(21)}


@forged("a long text in the software", "a version is a kilobyte", again=True)
def long_software(m: Manifest) -> None:
    m["software"]["dprelease"] = "7" * 1000


# --- the draw ---------------------------------------------------------------------------------


@forged("cells of another shape", "there is one value more")
def shape(m: Manifest) -> None:
    next(iter(m["draw"]["cells"].values())).append(["5"])


@forged("a cell of 10,000 digits", "the noise was very large")
def digits(m: Manifest) -> None:
    next(iter(m["draw"]["cells"].values()))[0][0] = "9" * 10_000


@forged("a cell that is a number", "the noise is a JSON number")
def number(m: Manifest) -> None:
    cells = next(iter(m["draw"]["cells"].values()))
    cells[0][0] = int(cells[0][0])


@forged("a cell with a sign too many", "the same number, written otherwise")
def signed(m: Manifest) -> None:
    cells = next(iter(m["draw"]["cells"].values()))
    cells[0][0] = "+" + cells[0][0].removeprefix("-")


@forged("cells of a block of nobody's", "more was drawn than was asked")
def stray(m: Manifest) -> None:
    m["draw"]["cells"]["raw rows"] = [["72"], ["41"]]


# --- unknown keys -----------------------------------------------------------------------------

for _path in ("", "request", "request.schema", "request.release", "plan", "draw", "receipt", "guarantee",
              "plan.query", "plan.blocks.0", "plan.blocks.0.measurement", "plan.blocks.0.law", "plan.blocks.0.share",
              "plan.statistics.0", "plan.statistics.0.options.0", "validation", "budget"):  # fmt: skip

    def _unknown(m: Manifest, path: str = _path) -> None:
        place: Any = m
        for part in filter(None, path.split(".")):
            place = place[int(part)] if part.isdigit() else place[part]
        place["raw"] = [["p17", 72, "HIV"]]

    forged(
        f"raw rows under an unknown key of {_path or 'the manifest'}", "the folder holds no row"
    )(_unknown)


# --- files ------------------------------------------------------------------------------------


def file(name: str, claims: str, change: Callable[[Files], None], *, seal: bool = True) -> None:
    """Register a change of other files than the manifest."""

    def make(files: Files) -> Files:
        out = dict(files)
        change(out)
        return sealed(out, manifest_of(out)) if seal and FILE in out else out

    FORGERIES[name] = Forgery(claims, make)


def replaced(name: str, old: bytes, new: bytes) -> Callable[[Files], None]:
    def change(files: Files) -> None:
        assert old in files[name], (name, old)
        files[name] = files[name].replace(old, new, 1)

    return change


def table(change: Callable[[pa.Table], pa.Table], **options: Any) -> Callable[[Files], None]:
    def write(files: Files) -> None:
        made = change(pq.read_table(io.BytesIO(files["data.parquet"])))
        sink = io.BytesIO()
        pq.write_table(made, sink, **{"compression": "zstd", "version": "2.6", **options})
        files["data.parquet"] = sink.getvalue()

    return write


def wider(made: pa.Table) -> pa.Table:
    at = made.column_names.index("lower")
    return made.set_column(at, "lower", pc.add(made.column(at), 0.5))


def an_old_version(files: Files) -> None:
    manifest = manifest_of(files)
    manifest["software"]["dprelease"] = "0.0.9"
    files["report.html"] = b"<html>nothing to see</html>"
    files[FILE] = manifest_bytes(manifest)


def dictionary(made: pa.Table) -> pa.Table:
    names = pa.array(
        [*made.column("statistic").to_pylist(), *(f"p{i}, 72, HIV" for i in range(200))]
    )
    coded = names.dictionary_encode().slice(0, made.num_rows)
    at = made.column_names.index("statistic")
    return made.set_column(at, "statistic", coded)


def padded(files: Files) -> None:
    data = files["data.parquet"]
    footer = int.from_bytes(data[-8:-4], "little") + 8
    files["data.parquet"] = data[:-footer] + b"p17, 72, HIV" + data[-footer:]


def stored_schema(
    files: Files,
    change: Callable[[pa.Schema], pa.Schema],
    columns: Callable[[pa.Schema], pa.Schema] = lambda schema: schema,
) -> None:
    """Write the table as it is, with another Arrow schema stored beside it: no longer than the honest one."""
    made = pq.read_table(io.BytesIO(files["data.parquet"]))
    stored = base64.b64encode(change(made.schema).serialize().to_pybytes())
    sink = io.BytesIO()
    plain = made.cast(columns(made.schema.with_metadata(None)))
    options: Any = {"compression": "zstd", "version": "2.6", "store_schema": False}
    with pq.ParquetWriter(sink, plain.schema, **options) as writer:
        writer.write_table(plain, row_group_size=ROWS_PER_GROUP)
        writer.add_key_value_metadata({b"ARROW:schema": stored, **made.schema.metadata})
    files["data.parquet"] = sink.getvalue()


def of_fields(schema: pa.Schema, key: str, text: str) -> pa.Schema:
    """Return the schema with metadata of its columns in the place of its own."""
    return pa.schema([field.with_metadata({key: text}) for field in schema])


file(
    "an old software version and any report",
    "the report is of a version that nobody can check",
    an_old_version,
)
file("any report", "the figures are others", lambda f: f.update({"report.html": b"<html></html>"}))
file(
    "another figure in the report",
    "the figures are others",
    replaced("report.html", b"</td>", b"1</td>"),
)
file("another value", "the north has more rows", replaced("wide.csv", b"north,", b"north,1"))
file("another status", "every value is sound", replaced("data.csv", b"ok", b"fine"))
file(
    "another package",
    "the licence is another one",
    replaced("datapackage.json", b"clinic", b"clinik"),
)
file(
    "another record",
    "epsilon is a tenth",
    replaced("registry.yaml", b"epsilon: 2", b"epsilon: 0.2"),
)
file("no record", "there never was a record", lambda f: f.pop("registry.yaml"))
file("no report", "no report was asked for", lambda f: f.pop("report.html"))
file(
    "an extra listed file",
    "the rows are part of the release",
    lambda f: f.update({"rows.csv": b"p17,72,HIV\n"}),
)
file(
    "an extra file",
    "it is not there",
    lambda f: f.update({"rows.csv": b"p17,72,HIV\n"}),
    seal=False,
)
file(
    "a hidden file",
    "it is not there",
    lambda f: f.update({".rows.csv": b"p17,72,HIV\n"}),
    seal=False,
)
file("a confusable name", "it is data.csv", lambda f: f.update({"data.\u0441sv": f["data.csv"]}))
file(
    "a name with a direction mark",
    "it is data.csv",
    lambda f: f.update({"data\u202e.csv": f["data.csv"]}),
)
file("other intervals in Parquet", "the intervals are narrower", table(wider))
file("rows in Parquet metadata", "the metadata is the release's",
     table(lambda t: t.replace_schema_metadata({**t.schema.metadata, b"rows": b"p17,72,HIV"})))  # fmt: skip
file(
    "no Parquet metadata",
    "the file states no guarantee",
    table(lambda t: t.replace_schema_metadata(None)),
)
file("a guarantee in Parquet metadata", "epsilon is 0.2",
     table(lambda t: t.replace_schema_metadata({b"dprelease": t.schema.metadata[b"dprelease"].replace(b'"2"', b'"1"')})))  # fmt: skip
file("a column more in Parquet", "the rows are a column",
     table(lambda t: t.append_column("raw", pa.array(["HIV"] * t.num_rows))))  # fmt: skip
file("another type in Parquet", "values are single precision",
     table(lambda t: t.set_column(t.column_names.index("value"), "value", t.column("value").cast(pa.float32()))))  # fmt: skip
file("rows in an unused dictionary", "the file holds the table alone", table(dictionary))
file(
    "a sorted Parquet file",
    "the rows stand in the order of their values",
    table(lambda t: t, row_group_size=1 << 20, sorting_columns=[pq.SortingColumn(2)]),
)
file(
    "rows in the metadata of Parquet's columns",
    "the columns say nothing more",
    lambda f: stored_schema(f, lambda s: of_fields(s, "raw", "p17, 72, HIV")),
)
file(
    "numbers as the field ids of Parquet's columns",
    "the columns have no ids",
    lambda f: stored_schema(f, lambda s: s, lambda s: of_fields(s, "PARQUET:field_id", "72")),
)
file(
    "rows in the Arrow schema that Parquet stores",
    "the metadata is the release's",
    lambda f: stored_schema(f, lambda s: s.with_metadata({"raw": "p17, 72, HIV"})),
)
file("bytes between Parquet's pages", "the file holds the table alone", padded)
file("a damaged Parquet file", "it opens", lambda f: f.update({"data.parquet": b"PAR1"}))


# --- the manifest's own text ------------------------------------------------------------------


def text(name: str, claims: str, change: Callable[[bytes], bytes]) -> None:
    def make(files: Files) -> Files:
        return {**files, FILE: change(files[FILE])}

    FORGERIES[name] = Forgery(claims, make)


text("a key twice", "epsilon is 0.1 to one reader and 2 to the other",
     lambda b: b.replace(b'"guarantee":', b'"plan_hash":"x",\n"guarantee":', 1))  # fmt: skip
text("NaN", "the error is not a number", lambda b: b.replace(b'"remark":null', b'"remark":NaN', 1))
text(
    "Infinity",
    "the error is infinite",
    lambda b: b.replace(b'"remark":null', b'"remark":-Infinity', 1),
)
text(
    "a number beyond doubles",
    "the error is 1e999",
    lambda b: b.replace(b'"remark":null', b'"remark":1e999', 1),
)
text("deep nesting", "the remark is nested",
     lambda b: b.replace(b'"remark":null', b'"remark":' + b"[" * 200_000 + b"]" * 200_000, 1))  # fmt: skip
text("nesting just below the limit", "the remark is nested",
     lambda b: b.replace(b'"remark":null', b'"remark":' + b"[" * 900 + b"]" * 900, 1))  # fmt: skip
text("a billion digits", "epsilon is 1e1000000000",
     lambda b: b.replace(b'"epsilon":"2"', b'"epsilon":"1e1000000000"'))  # fmt: skip
text("a whole number of 10,000 digits", "the entry is large",
     lambda b: b.replace(b'"seq":', b'"seq":' + b"9" * 10_000, 1))  # fmt: skip
text("rows after the end", "the file ends with its bracket", lambda b: b + b" " * 17 + b"\n" * 72)
text("rows as white space", "the file is canonical", lambda b: b.replace(b",\n", b",\t\n", 1))
text(
    "the same text otherwise escaped",
    "the file is canonical",
    lambda b: b.replace(b'"cells"', b'"\\u0063ells"', 1),
)
text("not UTF-8", "the file is text", lambda b: b.replace(b"clinic", b"clin\xff", 1))
text("millions of values", "the remark is a list",
     lambda b: b.replace(b'"remark":null', b'"remark":[' + b"[]," * 6_000_000 + b"0]", 1))  # fmt: skip


# --- requests that cost -----------------------------------------------------------------------


@forged("a million groups nobody lists", "three columns of a hundred values each")
def million(m: Manifest) -> None:
    values = [f"v{i}" for i in range(100)]
    for name in ("x", "y", "z"):
        m["request"]["schema"]["columns"][name] = {"kind": "category", "values": values}
    m["request"]["release"]["by"] = ["x", "y", "z"]


@forged("a graph of a billion nodes", "the graph is large")
def nodes(m: Manifest) -> None:
    schema = m["request"]["schema"]
    schema["unit"] = {"edge": {"source": "region", "target": "patient", "k": 1, "nodes": 10**12}}
    m["request"]["release"] = {"epsilon": 1, "statistics": [{"statistic": "degree(3)"}]}


@forged("a grid of 10^300 points", "bmi is exact to 300 decimals")
def fine(m: Manifest) -> None:
    m["request"]["schema"]["columns"]["age"] = {
        "kind": "number",
        "range": [0, 110],
        "step": "1e-300",
    }


@forged("derived columns that double", "sixty columns of sums")
def doubling(m: Manifest) -> None:
    columns = m["request"]["schema"]["columns"]
    columns["d0"] = {"kind": "number", "from": "age + age", "range": [0, 1]}
    for i in range(1, 40):
        columns[f"d{i}"] = {"kind": "number", "from": f"d{i - 1} + d{i - 1}", "range": [0, 1]}


@forged("a request that reads a file of the verifier", "the groups are in /etc/passwd")
def reading(m: Manifest) -> None:
    m["request"]["schema"]["columns"]["region"] = {"kind": "category", "values_from": "/etc/passwd"}


@forged("a request that asks for a thousand medians", "all of it is priced", again=False)
def thousand(m: Manifest) -> None:
    m["request"]["release"]["statistics"] = [
        {"statistic": f"quantile(bmi, 0.{i:03d})", "as": f"q{i}"} for i in range(1, 1000)
    ]


@forged("a statistic of a package that is not there", "verified")
def package(m: Manifest) -> None:
    m["request"]["release"]["statistics"][1] = {"statistic": "wellbeing(age)", "as": "wellbeing"}


@forged("a format of a package that is not there", "verified")
def spreadsheet(m: Manifest) -> None:
    m["request"]["formats"].append("xlsx")


# --- dates that cannot be ---------------------------------------------------------------------


def dated(name: str, claims: str, **said: str) -> None:
    """Register a receipt of other dates, with every file made to agree with it."""

    @forged(name, claims, again=True)
    def _dated(m: Manifest) -> None:
        m["receipt"].update(said)
        m.update(said)


dated("a day that is on no calendar", "it was published on 2026-99-99", published="2026-99-99")
dated("a day before the period's end", "it was published in 1999", published="1999-01-01")
dated(
    "a due instant that is on no calendar",
    "it was due in month 77",
    scheduled="2026-77-01T00:00:00Z",
)
dated(
    "a due instant before the period's end", "it was due in 1999", scheduled="1999-01-01T00:00:00Z"
)
dated("a close that is on no calendar", "the week closes in month 99", early="2026-99-99T99:99:99Z")
dated("a close a minute later", "rows could come for a minute", early="2026-11-15T23:01:00Z")
dated("a close before the period's end", "the week closed in 1999", early="1999-01-01T00:00:00Z")


@forged("rows as the time zone tables", "its zones are of version p17, 72, HIV", again=True)
def tables(m: Manifest) -> None:
    m["request"]["period"]["zone_tables"] = "p17, 72, HIV; p18, 44, none"


# --- the format's version ---------------------------------------------------------------------


@forged("an older format", "the rules of release/1 hold")
def first(m: Manifest) -> None:
    m["dprelease"] = "release/1"


@forged("a format of the future", "the rules of release/99 hold")
def future(m: Manifest) -> None:
    m["dprelease"] = "release/99"


@forged("a plan of another format", "the rules of plan/1 hold")
def plan_format(m: Manifest) -> None:
    m["plan"]["dprelease"] = "plan/1"


# --- places -----------------------------------------------------------------------------------


def place(name: str, claims: str, change: Callable[[Path], None]) -> None:
    FORGERIES[name] = Forgery(claims, dict, change)


def linked(folder: Path) -> None:
    (folder / "data.csv").rename(folder.with_name("elsewhere.csv"))
    (folder / "data.csv").symlink_to(folder.with_name("elsewhere.csv"))


def huge(folder: Path) -> None:
    os.truncate(folder / "data.csv", 50 * 2**30)  # sparse: it takes no room here


def huge_parquet(folder: Path) -> None:
    os.truncate(folder / "data.parquet", 50 * 2**30)


def huge_manifest(folder: Path) -> None:
    os.truncate(folder / FILE, 50 * 2**30)


place("a link to the right bytes", "the folder holds its files", linked)
place("a file of 50 GB", "the table is large", huge)
place("a Parquet file of 50 GB", "the table is large", huge_parquet)
place("a manifest of 50 GB", "the manifest is large", huge_manifest)
place("a folder in the folder", "there is nothing in it", lambda f: (f / "rows").mkdir())
place("a pipe", "it will be read", lambda f: os.mkfifo(f / "rows.csv"))
place(
    "five thousand files", "they are small", lambda f: [(f / f"f{i}").touch() for i in range(5000)]
)  # type: ignore[func-returns-value]


# --- what a folder alone cannot show ----------------------------------------------------------


def drawn_anew(files: Files) -> Files:
    manifest = manifest_of(files)
    rows = manifest["draw"]["cells"][manifest["plan"]["blocks"][0]["name"]]
    rows[0][0] = str(int(rows[0][0]) + 1)
    return remade(manifest)


def dearer(files: Files) -> Files:
    manifest = manifest_of(files)
    for budget in (manifest["budget"], manifest["receipt"]["budget"]):
        budget["total"] = "99999"
    return remade(manifest)


def another_entry(files: Files) -> Files:
    manifest = manifest_of(files)
    for anchor in (manifest["ledger"], manifest["receipt"]["ledger"]):
        anchor["seq"] += 1
    return remade(manifest)


def another_day(files: Files) -> Files:
    manifest = manifest_of(files)
    manifest["receipt"]["scheduled"] = manifest["scheduled"] = "2026-11-18T06:00:00Z"
    return remade(manifest)


ONLY_THE_LEDGER: Mapping[str, Forgery] = {
    "another draw": Forgery("these are the integers that were drawn", drawn_anew),
    "a larger budget": Forgery("the budget is 99999", dearer),
    "another entry": Forgery("another entry paid", another_entry),
    "another instant": Forgery("it was due a day later", another_day),
}
"""Consistent folders of other draws and receipts: without the ledger they are releases like any."""

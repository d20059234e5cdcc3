"""The reference pages, made from the code when the site is built: they cannot go out of date.

MkDocs calls `on_files`. Nothing is written into the repository.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from dprelease.core import registry
from dprelease.query.arguments import syntaxes
from dprelease.schema.json_schema import json_schema

sys.path.insert(0, str(Path(__file__).parent))  # a hook is loaded from its file, without a package
import error_codes
import python_page
import statistics_page


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    for name, make in PAGES.items():
        files.append(File.generated(config, f"reference/{name}.md", content=make()))
    return files


def kinds() -> str:
    """Statistics, mechanisms, engines and formats."""
    out = [
        "# Statistics and mechanisms",
        "",
        "## Statistics",
        "",
        "| written as | what it is |",
        "|---|---|",
    ]
    known = registry.names("aggregates")
    out.append(f"| `count(persons)` | {_first(registry.load('aggregates', 'count_persons'))} |")
    out.append(
        "| any of these `where CONDITION` | the same of the rows where the condition is true |"
    )
    out += [
        f"| `{form.example}` | {_first(registry.load('aggregates', name))} |"
        for name, form in syntaxes().items()
        if name in known
    ]
    for kind in ("mechanisms", "engines", "formats"):
        out += ["", f"## {kind.capitalize()}", "", "| name | what it is |", "|---|---|"]
        out += [f"| `{n}` | {_first(registry.load(kind, n))} |" for n in registry.names(kind)]
    return "\n".join(out) + "\n"


def _first(thing: object) -> str:
    """Return the first sentence of a kind's module: classes are named, modules explain."""
    module = inspect.getmodule(thing)
    text = inspect.getdoc(module) or inspect.getdoc(thing) or ""
    return _cell(text.split("\n\n")[0].replace("\n", " "))


def _cell(text: object) -> str:
    return str(text).replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def fields(kind: Any) -> str:
    """All keys of a schema or pipeline file."""
    model = json_schema(kind)
    out = [f"# {kind.capitalize()} file", "", model.get("description", ""), ""]
    out += [f"`dprelease schema json-schema {kind}` prints the JSON Schema for your editor.", ""]
    sections = {model["title"]: model} | model.get("$defs", {})
    for title, part in sections.items():
        if "properties" not in part:
            continue
        out += [
            f"## {title}",
            "",
            _cell(part.get("description", "")) if part is not model else "",
            "",
        ]
        out += ["| key | type | default | meaning |", "|---|---|---|---|"]
        for name, field in part["properties"].items():
            needed = name in part.get("required", ())
            default = "required" if needed else f"`{json.dumps(field.get('default'))}`"
            meaning = field.get("description") or sections.get(_type(field), {}).get(
                "description", ""
            )
            out.append(f"| `{name}` | {_type(field)} | {default} | {_cell(meaning)} |")
        out.append("")
    return "\n".join(out)


def _type(field: dict[str, Any]) -> str:
    if "enum" in field:
        return _cell(" or ".join(f"`{v}`" for v in field["enum"]))
    if "const" in field:
        return f"`{field['const']}`"
    if "$ref" in field:
        return field["$ref"].rsplit("/", 1)[-1]
    for many in ("anyOf", "oneOf"):
        if many in field:
            return _cell(" or ".join(dict.fromkeys(_type(f) for f in field[many])))
    if field.get("type") == "array":
        return f"list of {_type(field.get('items', {}))}"
    found = field.get("type", "any")
    return found if isinstance(found, str) else " or ".join(found)


def command_line() -> str:
    """Help of every command."""
    from typer.main import get_command

    from dprelease.cli import app

    out = ["# Command line", ""]

    def walk(command: Any, path: str) -> None:
        context = command.context_class(command, info_name=path, parent=None)
        if not hasattr(command, "commands"):
            out.extend([f"## `{path}`", "", _prose(command.help or ""), ""])
            rows = [
                p
                for p in command.params
                if getattr(p, "help", None) or p.param_type_name == "argument"
            ]
            if rows:
                out.extend(["| parameter | meaning |", "|---|---|"])
                out.extend(f"| `{_spelled(p)}` | {_cell(p.help or '')} |" for p in rows)
                out.append("")
            return
        for name in command.list_commands(context):
            walk(command.get_command(context, name), f"{path} {name}")

    walk(get_command(app), "dprelease")
    return "\n".join(out)


def _spelled(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return parameter.name.upper()
    return ", ".join(parameter.opts)


def _prose(text: str) -> str:
    text = inspect.cleandoc(text)
    return re.sub(r"^Example: (.*)$", r"```text\n\1\n```", text, flags=re.MULTILINE)


PAGES = {
    "kinds": kinds,
    "statistics": statistics_page.page,
    "schema": lambda: fields("schema"),
    "pipeline": lambda: fields("pipeline"),
    "cli": command_line,
    "python": python_page.page,
    "errors": error_codes.page,
}

"""`dprelease kinds`: what is registered."""

from __future__ import annotations

from dprelease.cli.terminal import AsJson, console, print_json


def kinds(as_json: AsJson = False) -> None:
    """List the registered mechanisms, aggregates, engines and formats.

    Example: dprelease kinds --json
    """
    from dprelease.core import registry

    found = {
        kind: {
            "built_in": list(registry.names(kind)),
            "installed": list(registry.third_party_names(kind)),
        }
        for kind in registry.KINDS
    }
    if as_json:
        print_json(found)
        return
    out = console()
    for kind, names in found.items():
        out.print(kind, style="bold")
        for name in names["built_in"]:
            out.print(f"  {name}")
        for name in names["installed"]:
            out.print(f"  {name}  (installed package, loaded only when named)")

"""What `df.dp` is, for mypy: in `pyproject.toml`, `[tool.mypy] plugins = ["dprelease.mypy_plugin"]`.

pandas registers accessors at run time, and its type stubs say that every unknown attribute of a
frame is a column, a Series: so no type checker and no editor that reads source can know `df.dp`.
With this plugin mypy does. Notebooks and IPython complete `df.dp.` without it, as they ask the
object. Elsewhere `dp.Accessor(df)` is the same thing, with its type.

Only mypy imports this module.
"""

from __future__ import annotations

from collections.abc import Callable

from mypy.plugin import AttributeContext, Plugin
from mypy.types import Type

_ATTRIBUTE = "pandas.core.frame.DataFrame.dp"
_MODULE = "dprelease.accessor"


class _FrameAccessor(Plugin):
    """Types `df.dp` as `dprelease.Accessor` where dprelease is imported."""

    def get_attribute_hook(self, fullname: str) -> Callable[[AttributeContext], Type] | None:
        return self._accessor if fullname == _ATTRIBUTE else None

    def _accessor(self, context: AttributeContext) -> Type:
        if self.lookup_fully_qualified(f"{_MODULE}.Accessor") is None:
            return context.default_attr_type
        named: Type = context.api.named_generic_type(f"{_MODULE}.Accessor", [])
        return named


def plugin(version: str) -> type[Plugin]:
    """Return the plugin, for mypy."""
    del version  # the hook is older than every mypy that checks Python 3.11
    return _FrameAccessor

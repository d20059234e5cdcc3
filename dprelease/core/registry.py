"""Names of kinds: which class answers to `staircase`, `mean`, `duckdb` or `parquet`.

Built-in kinds are one line each in `_BUILT_IN`, as "module:attribute", imported when first asked
for. A kind of someone else's package is found through its entry point group
(`dprelease.mechanisms`, `dprelease.aggregates`, `dprelease.engines`, `dprelease.formats`) and is
loaded only when it is asked for *by name*: installing a package never changes what a plan does.
A built-in name cannot be taken over.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Iterable
from functools import lru_cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points

from dprelease.core.errors import ArgumentError

_BUILT_IN: dict[str, dict[str, str]] = {
    "mechanisms": {
        "bounded_gaussian": "dprelease.mechanisms.bounded_gaussian:BoundedGaussian",
        "bounded_laplace": "dprelease.mechanisms.bounded_laplace:BoundedLaplace",
        "discrete_laplace": "dprelease.mechanisms.discrete_laplace:DiscreteLaplace",
        "exponential": "dprelease.mechanisms.exponential:Exponential",
        "optimal_grid": "dprelease.mechanisms.optimal_grid:OptimalGrid",
        "permute_and_flip": "dprelease.mechanisms.permute_and_flip:PermuteAndFlip",
        "rectified_gaussian": "dprelease.mechanisms.rectified_gaussian:RectifiedGaussian",
        "rectified_laplace": "dprelease.mechanisms.rectified_laplace:RectifiedLaplace",
        "reflected_laplace": "dprelease.mechanisms.reflected_laplace:ReflectedLaplace",
        "staircase": "dprelease.mechanisms.staircase:Staircase",
        "stochastic_sign": "dprelease.mechanisms.stochastic_sign:StochasticSign",
    },
    "aggregates": {
        "algebraic_connectivity": "dprelease.statistics.graph:connectivity",
        "cdf": "dprelease.statistics.cdf:statistic",
        "correlation": "dprelease.statistics.covariance:correlation",
        "count": "dprelease.statistics.count:statistic",
        "count_distinct": "dprelease.statistics.count_distinct:statistic",
        "count_persons": "dprelease.statistics.count:persons",
        "count_where": "dprelease.statistics.count:some_rows",
        "covariance": "dprelease.statistics.covariance:statistic",
        "eigenvalues": "dprelease.statistics.eigenvalues:statistic",
        "degree": "dprelease.statistics.graph:degree",
        "histogram": "dprelease.statistics.histogram:statistic",
        "histogram_of_ranges": "dprelease.statistics.ranges:statistic",
        "laplacian_eigenvalues": "dprelease.statistics.graph:laplacian",
        "max": "dprelease.statistics.quantile:maximum",
        "mean": "dprelease.statistics.mean:statistic",
        "median": "dprelease.statistics.quantile:median",
        "min": "dprelease.statistics.quantile:minimum",
        "proportion": "dprelease.statistics.mean:proportion",
        "quantile": "dprelease.statistics.quantile:statistic",
        "ratio": "dprelease.statistics.ratio:statistic",
        "std": "dprelease.statistics.variance:std",
        "sum": "dprelease.statistics.sum:statistic",
        "variance": "dprelease.statistics.variance:statistic",
        "weighted_count": "dprelease.statistics.weighted:weighted_count",
        "weighted_mean": "dprelease.statistics.weighted:weighted_mean",
        "weighted_proportion": "dprelease.statistics.weighted:weighted_proportion",
        "weighted_sum": "dprelease.statistics.weighted:weighted_sum",
        "winsorised_from": "dprelease.statistics.winsorised:lower",
        "winsorised_mean": "dprelease.statistics.winsorised:winsorised_mean",
        "winsorised_std": "dprelease.statistics.winsorised:winsorised_std",
        "winsorised_sum": "dprelease.statistics.winsorised:winsorised_sum",
        "winsorised_to": "dprelease.statistics.winsorised:upper",
        "winsorised_variance": "dprelease.statistics.winsorised:winsorised_variance",
    },
    "engines": {
        "duckdb": "dprelease.engines.duckdb:DuckDBEngine",
        "postgres": "dprelease.engines.postgres_engine:PostgresEngine",
        "reference": "dprelease.engines.reference:ReferenceEngine",
        "spark": "dprelease.engines.spark:SparkEngine",
    },
    "formats": {
        "csv": "dprelease.results.formats.csv_:write",
        "datapackage": "dprelease.results.formats.data_package:write",
        "html": "dprelease.results.formats.html:write",
        "parquet": "dprelease.results.formats.parquet:write",
        "registry": "dprelease.results.formats.registry_record:write",
        "sdmx": "dprelease.results.formats.sdmx:write",
    },
}

_OWN: dict[str, dict[str, str]] = {
    "draws": {
        "balanced_cells": "dprelease.measurements.balanced:BalancedLaw",
        "balanced_tree": "dprelease.measurements.binned_tree:BalancedTreeLaw",
        "box": "dprelease.measurements.graph_box:GraphBoxLaw",
        "cells": "dprelease.measurements.cells:CellLaw",
        "centred_cells": "dprelease.measurements.cells:CentredLaw",
        "centred_cells_of_n": "dprelease.measurements.cells:PublicLaw",
        "ending": "dprelease.measurements.ending:EndingLaw",
        "exponential": "dprelease.measurements.ranks:ExponentialLaw",
        "constant": "dprelease.measurements.constant:ConstantLaw",
        "found_keys": "dprelease.measurements.found:FoundLaw",
        "gaussian": "dprelease.measurements.gaussian:GaussianLaw",
        "exponential_interval": "dprelease.measurements.rank_interval:IntervalLaw",
        "joint_exponential": "dprelease.measurements.replaced:JointOfCopies",
        "joint_ranks": "dprelease.measurements.joint_ranks:JointLaw",
        "mean": "dprelease.measurements.truncated_mean:MeanLaw",
        "permute_and_flip": "dprelease.measurements.ranks:PermuteAndFlipLaw",
        "recursive_exponential": "dprelease.measurements.replaced:RecursiveOfCopies",
        "recursive_ranks": "dprelease.measurements.recursive_ranks:RecursiveRanksLaw",
        "ratio_ends": "dprelease.measurements.cells:EndsLaw",
        "scalar": "dprelease.measurements.scalar:ScalarCellLaw",
        "tree_cells": "dprelease.measurements.binned_tree:TreeLaw",
        "winsorised": "dprelease.measurements.winsorised:WinsorisedLaw",
    },
    "column_cells": {
        "bernstein2": "dprelease.statistics.moments:bernstein2",
        "centred_squares": "dprelease.statistics.moments:centred_squares",
        "centred_sums": "dprelease.statistics.moments:centred_sums",
        "ratio_ends": "dprelease.statistics.moments:ratio_ends",
        "ratio_sums": "dprelease.statistics.moments:ratio_sums",
        "two_sums": "dprelease.statistics.moments:two_sums",
    },
    "forms": {
        "binned_tree": "dprelease.statistics.tree_shape:exact",
        "connectivity": "dprelease.statistics.graph_cells:connectivity",
        "cross": "dprelease.statistics.exact:cross",
        "degree": "dprelease.statistics.graph_cells:degree",
        "graph_box": "dprelease.statistics.graph_cells:box",
        "joint_ranks": "dprelease.statistics.joint_ranks:exact",
        "laplacian": "dprelease.statistics.graph_cells:eigenvalues",
        "linear": "dprelease.statistics.exact:linear",
        "matrix": "dprelease.statistics.spectrum_cells:matrix",
        "pairs": "dprelease.statistics.spectrum_cells:pairs",
        "rank_interval": "dprelease.statistics.joint_ranks:exact",
        "ranks": "dprelease.statistics.ranks:exact",
        "recursive_ranks": "dprelease.statistics.joint_ranks:exact",
        "scatter": "dprelease.statistics.exact:scatter",
        "sparse_connectivity": "dprelease.statistics.graph_cells:sparse",
        "spectrum": "dprelease.statistics.spectrum_cells:spectrum",
        "table_set": "dprelease.statistics.table_set:exact",
        "winsorised": "dprelease.statistics.joint_ranks:exact",
    },
    "matrix_cells": {
        "matrix": "dprelease.statistics.eigenvalues:entries",
        "pairs": "dprelease.statistics.eigenvalues:pairs_of_columns",
        "tensor": "dprelease.statistics.eigenvalues:tensor_of_two",
    },
    "removed": {"randomized_response": "dprelease.mechanisms.forms.rows:RowLaw"},
    "second_proofs": {
        "ending": "dprelease.wall.ending_noise:of_cells",
        "found_keys": "dprelease.wall.ending_noise:of_keys",
    },
    "table_fits": {"table_set": "dprelease.results.fitted_margins:MarginFit"},
    "measurements": {
        "bernstein2": "dprelease.measurements.linear:bernstein2",
        "bins": "dprelease.measurements.bins:family",
        "centred_squares": "dprelease.measurements.linear:centred_squares",
        "centred_sums": "dprelease.measurements.linear:centred_sums",
        "constant": "dprelease.measurements.constant:family",
        "graph_box": "dprelease.measurements.graph_box:family",
        "joint_ranks": "dprelease.measurements.joint_ranks:family",
        "laplacian": "dprelease.measurements.laplacian:family",
        "matrix": "dprelease.measurements.several_columns:matrix",
        "pairs": "dprelease.measurements.several_columns:pairs",
        "rank_interval": "dprelease.measurements.rank_interval:family",
        "ranks": "dprelease.measurements.ranks:family",
        "ratio_ends": "dprelease.measurements.linear:ratio_ends",
        "ratio_sums": "dprelease.measurements.linear:ratio_sums",
        "recursive_ranks": "dprelease.measurements.recursive_ranks:family",
        "scalar": "dprelease.measurements.scalar:family",
        "shared_rows": "dprelease.measurements.several_columns:sharing",
        "soft_table": "dprelease.measurements.several_columns:soft_table",
        "spectrum": "dprelease.measurements.several_columns:spectrum",
        "table_set": "dprelease.measurements.table_set:family",
        "tensor": "dprelease.measurements.several_columns:tensor",
        "tree_of_bins": "dprelease.measurements.binned_tree:tree_of_bins",
        "tree_of_shares": "dprelease.measurements.binned_tree:tree_of_shares",
        "truncated_mean": "dprelease.measurements.truncated_mean:family",
        "two_sums": "dprelease.measurements.linear:two_sums",
        "winsorised": "dprelease.measurements.winsorised:family",
    },
}
"""Kinds that the library alone brings: what measures and draws is proved here, by `recompute` too, and
a plan's file names it."""

TABLE_SET = "table_set"
"""The measurement behind all tables of a release of which none is the finest."""

JOINING = ("graph_box", "joint_ranks", "rank_interval", "recursive_ranks", "tensor", "winsorised")
"""The measurements that may hold several statistics of a request together (`MeasurementFamily.together`)."""

REMOVED: dict[str, str] = {
    "randomized_response": "leave `mechanism` out, or write `mechanism: optimal_grid` (up to 64 values) or `staircase`",
}
"""Mechanisms of earlier versions, which verify what they drew: name to what to write instead."""

KINDS: tuple[str, ...] = tuple(_BUILT_IN)
"""The plurals: mechanisms, aggregates, engines, formats."""


def _own_or_open(kind: str) -> dict[str, str]:
    return _OWN[kind] if kind in _OWN else _BUILT_IN[kind]


def names(kind: str) -> tuple[str, ...]:
    """Return the built-in names of `kind`, in alphabetical order; imports nothing."""
    return tuple(sorted(_own_or_open(kind)))


def third_party_names(kind: str) -> tuple[str, ...]:
    """Return the names other installed packages offer for `kind`; loads none of them."""
    found = {point.name for point in _offers(kind)}
    return tuple(sorted(found - set(_BUILT_IN[kind])))


def _offers(kind: str) -> tuple[EntryPoint, ...]:
    return _found(f"dprelease.{kind}", tuple(sys.path), entry_points)


@lru_cache(maxsize=64)
def _found(
    group: str, path: tuple[str, ...], search: Callable[..., Iterable[EntryPoint]]
) -> tuple[EntryPoint, ...]:
    """Return what packages on `path` offer: their files are read once per process and path."""
    del path  # where `search` looks
    return tuple(search(group=group))


def load(kind: str, name: str) -> object:
    """Return what `name` stands for.

    Raises:
        ArgumentError: no built-in and no installed package offers that name (DPR610), or two
            packages do (DPR611).
    """
    target = _own_or_open(kind).get(name)
    if target is not None:
        module, _, attribute = target.partition(":")
        return getattr(import_module(module), attribute)
    offers = [] if kind in _OWN else [point for point in _offers(kind) if point.name == name]
    if len(offers) > 1:
        raise ArgumentError(
            f"two installed packages offer {kind} `{name}`",
            fix="uninstall one of them",
            code="DPR611",
        )
    if offers:
        loaded: object = offers[0].load()
        return loaded
    near = difflib.get_close_matches(name, names(kind), n=1)
    raise ArgumentError(
        f"there is no {kind[:-1]} called `{name}`",
        fix=f"did you mean `{near[0]}`?" if near else f"known names: {', '.join(names(kind))}",
        code="DPR610",
    )

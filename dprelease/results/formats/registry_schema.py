"""What a record of the registry of differential privacy deployments may hold, as JSON Schema.

Written down from the registry's own description of its records: field names, types, enumerations
and what is required, none of its texts. Whoever has that file (`schemas/deployments-schema.yaml`
there) can validate a record with it as well.

Source  github.com/opendp/deployments-registry-data at commit 3e9c812, of 2026-07-15. In that month
        it renamed `product` to `basic`, `dp_flavor` to `dp_variant`, `model` to `deployment_model`,
        `resources` to `administrative` and every `…_description` to `…_details`.
"""

from __future__ import annotations

from typing import Any

DATE = "2026-07-15"
"""The day whose state of the registry this is."""

_TEXT = {"type": "string"}
_TEXTS = {"type": "array", "items": _TEXT, "minItems": 1}
_NUMBER = {"type": "number"}
_ANY: dict[str, Any] = {}


def _one_of(*values: object) -> dict[str, Any]:
    kind = "integer" if isinstance(values[0], int) else "string"
    return {"type": kind, "enum": list(values)}


def _object(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
        "required": list(required),
    }


_BASIC = _object(
    {
        "name": _TEXT,
        "data_curators": _TEXTS,
        "intended_use": _TEXT,
        "data_product_type": _one_of(
            "Summary statistics",
            "Machine learning model",
            "Dataset",
            "Synthetic data",
            "Interactive API",
            "SQL queries",
        ),
        "data_product_region": _TEXT,
        "description": _TEXT,
        "publication_date": {"type": "string", "format": "date"},
        "data_product_sector": _one_of(
            "Technology", "Healthcare", "Education", "Government", "Energy", "Finance"
        ),
    },
    "name",
    "data_curators",
    "description",
    "intended_use",
    "data_product_type",
    "data_product_region",
    "publication_date",
)
_VARIANT = _object(
    {
        "variant_name": _one_of(
            "Pure DP", "Approximate DP", "Zero-concentrated DP", "Renyi DP", "Custom"
        ),
        "data_domain": _TEXT,
        "unprotected_quantities": _TEXT,
    }
)
_LOSS = _object(
    {
        "privacy_unit": _TEXT,
        "privacy_unit_details": _TEXT,
        "privacy_parameters": _object(
            {"epsilon": _NUMBER, "delta": {"type": ["number", "string"]}, "rho": _NUMBER}
        ),
        "privacy_parameters_details": _ANY,
    }
)
_MODEL = _object(
    {
        "model_name": _one_of("Local", "Central", "Shuffle", "Federated", "Varies"),
        "model_name_details": _TEXT,
        "actors": _TEXT,
        "release_type": _one_of("One release", "Many releases"),
        "release_type_details": _TEXT,
        "data_source_type": _one_of("Static", "Dynamic"),
        "data_source_type_details": _ANY,
        "access_type": _one_of("Interactive", "Non-interactive"),
        "access_type_details": _TEXT,
    }
)
_IMPLEMENTATION = _object(
    {
        "preprocessing_and_hyperparameter_tuning": _TEXT,
        "mechanisms": _TEXT,
        "justification": _TEXT,
    }
)
_ADMINISTRATIVE = _object(
    {"sources": _TEXT, "notes": _TEXT, "registry_authors": _TEXTS}, "registry_authors"
)

SCHEMA: dict[str, Any] = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    **_object(
        {
            "url_slug": _TEXT,
            "status": _one_of(
                "Converted",
                "Draft",
                "Pending",
                "Changes Required",
                "Approved",
                "Approved (Update Requested)",
                "Approved (Pending)",
            ),
            "tier": _one_of(1, 2, 3),
            "deployment": _object(
                {
                    "basic": _BASIC,
                    "dp_variant": _VARIANT,
                    "privacy_loss": _LOSS,
                    "deployment_model": _MODEL,
                    "accounting": _object({"post_processing": _TEXT, "composition": _TEXT}),
                    "implementation": _IMPLEMENTATION,
                    "administrative": _ADMINISTRATIVE,
                },
                "basic",
            ),
        },
        "url_slug",
        "status",
        "tier",
        "deployment",
    ),
}

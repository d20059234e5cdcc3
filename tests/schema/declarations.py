"""A schema file that is valid, for tests to break line by line."""

from __future__ import annotations

CLINIC = """\
dprelease: schema/1
name: clinic
unit: {user: patient_id, max_groups: 2, max_rows_per_group: 3}
adjacency: add_remove
rows: {max: 5000000, expected: 40000}
columns:
  patient_id: {kind: identifier}
  region:     {kind: category, values: ["north", "south", "east"], other: drop}
  visited_at: {kind: timestamp}
  age:        {kind: integer, measure: years, range: [0, 120]}
  bmi:        {kind: number, measure: kg/m2, range: [10, 80], forbidden: [[60, 70]], step: 0.1}
  smoker:     {kind: boolean, nulls: {as: "unknown"}}
release:
  epsilon: 1.0
  by: [region]
  where: "age >= 18"
  loss: absolute
  statistics:
    - {statistic: "count", domain: {range: [0, 50000], forbidden: [[0, 10]]}}
    - mean(age)
    - "proportion(age > 65)"
    - {statistic: "variance(bmi)", as: bmi_variance, weight: 2}
"""

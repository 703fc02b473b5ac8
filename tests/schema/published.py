"""Inputs of tests of TensorFlow Data Validation, and the results that these tests expect.

From tensorflow/data-validation on GitHub (Apache License 2.0), values only:
basic_stats_generator_test.py, top_k_uniques_stats_generator_test.py,
sequence_example_e2e_test.py, validation_api_test.py, metrics_test.cc, schema_anomalies_test.cc.
Histograms of equal widths are estimates in TFDV.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from google.protobuf import text_format

from tests.schema.records import FLOATS, INTS, example, sequence


def buckets(*rows: tuple[float, float, float]) -> str:
    return " ".join(
        f"buckets {{ low_value: {low} high_value: {high} sample_count: {count} }}"
        for low, high, count in rows
    )


def parse(text: str, message: Any) -> Any:
    return text_format.Parse(text, message)


Rows = Sequence[tuple[float, float, float]]  # (low, high, count) of buckets


def histogram(name: str, rows: Rows, kind: str = "QUANTILES") -> str:
    """Return a histogram as text; without rows, no text."""
    return f"{name} {{ {buckets(*rows)} type: {kind} }} " if rows else ""


def steps(path: str) -> str:
    return "path { " + " ".join(f'step: "{step}"' for step in path.split(".")) + " }"


def numbers(
    path: str,
    common: str,
    values: str = "",
    *,
    counts: Rows = (),
    widths: Rows = (),
    quantiles: Rows = (),
    of_both: str = "",
) -> str:
    """Statistics of a numeric feature; `path` has its type: "a INT". `counts` are of values."""
    name, kind = path.split()
    common += histogram(" num_values_histogram", counts)
    return (
        f"{steps(name)} type: {kind} num_stats {{ "
        + (f"common_stats {{ {common} }} " if common else "")
        + f"{values} {histogram('histograms', widths, f'STANDARD {of_both}')}"
        + f"{histogram('histograms', quantiles, f'QUANTILES {of_both}')} }}"
    )


def lengths(quantiles: Rows, widths: Rows) -> str:
    """Statistics of the lengths of lists of a SequenceExample."""
    name = "level_2_value_list_length"
    return (
        f' custom_stats {{ name: "{name}_quantiles" {histogram("histogram", quantiles)} }}'
        f' custom_stats {{ name: "{name}_standard" {histogram("histogram", widths, "STANDARD")} }}'
    )


_INF = math.inf
_WIDTHS = ((1, 2.3333333, 3.0049751), (2.3333333, 3.6666667, 1.0049751), (3.6666667, 5, 1.9900498))

# name: (records, numbers of buckets of num_values, widths, quantiles; statistics of features)
STATISTICS: dict[str, tuple[list[bytes], tuple[int, int, int], list[str]]] = {
    "single feature": (
        [example(a=[1.0, 2.0]), example(a=[3.0, 4.0, 5.0]), example(a=[1.0])],
        (4, 3, 4),
        [
            numbers(
                "a FLOAT",
                "num_non_missing: 3 min_num_values: 1 max_num_values: 3 avg_num_values: 2 "
                "tot_num_values: 6",
                "mean: 2.66666666 std_dev: 1.49071198 num_zeros: 0 min: 1 max: 5 median: 3",
                counts=((1, 1, 1), (1, 2, 1), (2, 3, 0.5), (3, 3, 0.5)),
                widths=_WIDTHS,
                quantiles=((1, 1, 2), (1, 3, 2), (3, 4, 1), (4, 5, 1)),
            )
        ],
    ),
    "infinities": (
        [
            example(a=[1.0, 2.0, _INF, _INF, -_INF]),
            example(a=[3.0, 4.0, 5.0, -_INF]),
            example(a=[1.0, _INF, -_INF]),
        ],
        (4, 4, 4),
        [
            numbers(
                "a FLOAT",
                "num_non_missing: 3 min_num_values: 3 max_num_values: 5 avg_num_values: 4 "
                "tot_num_values: 12",
                "mean: nan num_zeros: 0 min: -inf max: inf median: 3",
                counts=((3, 3, 1), (3, 4, 1), (4, 5, 0.5), (5, 5, 0.5)),
                widths=(
                    *((-_INF, -_INF, 3), (1, 2, 3), (2, 3, 1), (3, 4, 1), (4, 5, 1)),
                    (_INF, _INF, 3),
                ),
                quantiles=((-_INF, 1, 5), (1, 3, 2), (3, _INF, 2.5), (_INF, _INF, 2.5)),
            )
        ],
    ),
    "missing": (
        [
            example(b=[1.0, 2.0, 3.0]),
            example(a=None, b=[4.0]),
            example(b=[5.0]),
            example(a=[1, 2]),
            example(),
        ],
        (4, 3, 4),
        [
            numbers(
                "a INT",
                "num_non_missing: 1 num_missing: 4 min_num_values: 2 max_num_values: 2 "
                "avg_num_values: 2 tot_num_values: 2",
                "mean: 1.5 std_dev: 0.5 min: 1 median: 2 max: 2",
                counts=[(2, 2, 0.25)] * 4,
                widths=(
                    *((1, 1.3333333, 1.0016584), (1.3333333, 1.6666667, 0.0016584)),
                    (1.6666667, 2, 0.9966833),
                ),
                quantiles=((1, 1, 1), (1, 2, 1 / 3), (2, 2, 1 / 3), (2, 2, 1 / 3)),
            ),
            numbers(
                "b FLOAT",
                "num_non_missing: 3 num_missing: 2 min_num_values: 1 max_num_values: 3 "
                "avg_num_values: 1.66666698 tot_num_values: 5",
                "mean: 3 std_dev: 1.4142136 min: 1 median: 3 max: 5",
                counts=((1, 1, 1), (1, 1, 1), (1, 3, 0.5), (3, 3, 0.5)),
                widths=(
                    *((1, 2.3333333, 2.0041667), (2.3333333, 3.6666667, 1.0041667)),
                    (3.6666667, 5, 1.9916667),
                ),
                quantiles=((1, 2, 2), (2, 3, 1), (3, 4, 1), (4, 5, 1)),
            ),
        ],
    ),
    "NaN": (
        [
            example(a=[1.0, 2.0]),
            example(a=[3.0, 4.0, 5.0]),
            example(a=[1.0, math.nan, math.nan, math.nan]),
            example(),
        ],
        (4, 3, 4),
        [
            numbers(
                "a FLOAT",
                "num_non_missing: 3 num_missing: 1 min_num_values: 2 max_num_values: 4 "
                "avg_num_values: 3 tot_num_values: 9",
                "mean: 2.66666666 std_dev: 1.49071198 num_zeros: 0 min: 1 max: 5 median: 3",
                counts=((2, 2, 1), (2, 3, 1), (3, 4, 0.5), (4, 4, 0.5)),
                widths=_WIDTHS,
                quantiles=((1, 1, 2), (1, 3, 2), (3, 4, 1), (4, 5, 1)),
                of_both="num_nan: 3",
            )
        ],
    ),
    "strings": (
        [
            example(fa=["a", "b", "c", "e"], fb=["a", "c", "c"]),
            example(fb=["b"]),
            example(fa=["a", "c", "d"]),
            example(fa=["a", "a", "b", "c", "d"]),
            example(fb=["b", "c"]),
        ],
        (10, 10, 10),
        [
            """
            path { step: "fa" } type: STRING
            string_stats {
              unique: 5
              top_values { value: "a" frequency: 4 } top_values { value: "c" frequency: 3 }
              top_values { value: "d" frequency: 2 } top_values { value: "b" frequency: 2 }
              rank_histogram {
                buckets { low_rank: 0 high_rank: 0 label: "a" sample_count: 4 }
                buckets { low_rank: 1 high_rank: 1 label: "c" sample_count: 3 }
                buckets { low_rank: 2 high_rank: 2 label: "d" sample_count: 2 }
              }
            }""",
            """
            path { step: "fb" } type: STRING
            string_stats {
              unique: 3
              top_values { value: "c" frequency: 3 } top_values { value: "b" frequency: 2 }
              top_values { value: "a" frequency: 1 }
              rank_histogram {
                buckets { low_rank: 0 high_rank: 0 label: "c" sample_count: 3 }
                buckets { low_rank: 1 high_rank: 1 label: "b" sample_count: 2 }
                buckets { low_rank: 2 high_rank: 2 label: "a" sample_count: 1 }
              }
            }""",
        ],
    ),
    "SequenceExamples": (
        [
            sequence(
                {"context_bytes": ["0"], "context_int64": INTS, "label": [1.0]},
                {"int64": [None, [1, 2], INTS], "float": [[0.0, 0.0]]},
            ),
            sequence({"context_bytes": ["1"], "label": [2.0]}, {"int64": [[2, 3, 4]]}),
        ]
        * 10,
        (3, 3, 3),
        [
            f"""
            path {{ step: "##SEQUENCE##" }} type: STRUCT
            struct_stats {{
              common_stats {{
                num_non_missing: 20 min_num_values: 1 max_num_values: 1 avg_num_values: 1
                tot_num_values: 20
                {histogram("num_values_histogram", [(1, 1, 20 / 3)] * 3)}
              }}
            }}""",
            numbers(
                "##SEQUENCE##.float FLOAT",
                "num_non_missing: 10 num_missing: 10 min_num_values: 2 max_num_values: 2 "
                "avg_num_values: 2 tot_num_values: 20 "
                "presence_and_valency_stats { num_non_missing: 10 num_missing: 10 "
                "min_num_values: 1 max_num_values: 1 tot_num_values: 10 } "
                "presence_and_valency_stats { num_non_missing: 10 "
                "min_num_values: 2 max_num_values: 2 tot_num_values: 20 }",
                "num_zeros: 20",
                counts=[(2, 2, 10 / 3)] * 3,
                widths=[(0, 0, 20)],
                quantiles=[(0, 0, 20 / 3)] * 3,
            )
            + lengths([(2, 2, 10 / 3)] * 3, [(2, 2, 10)]),
            numbers(
                "##SEQUENCE##.int64 INT",
                "num_non_missing: 20 min_num_values: 2 max_num_values: 3 avg_num_values: 2.5 "
                "tot_num_values: 50 "
                "presence_and_valency_stats { num_non_missing: 20 "
                "min_num_values: 1 max_num_values: 3 tot_num_values: 40 } "
                "presence_and_valency_stats { num_non_missing: 30 num_missing: 10 "
                "max_num_values: 3 tot_num_values: 50 }",
                "mean: 2.4 std_dev: 1.019803902718557 min: 1 median: 2 max: 4",
                counts=((2, 2, 10), (2, 3, 5), (3, 3, 5)),
                widths=((1, 2, 30), (2, 3, 10), (3, 4, 10)),
                quantiles=((1, 2, 30), (2, 3, 10), (3, 4, 10)),
            )
            + lengths(((0, 2, 20), (2, 3, 5), (3, 3, 5)), ((0, 1, 10), (1, 2, 10), (2, 3, 10))),
            """
            path { step: "context_bytes" } type: STRING
            string_stats {
              common_stats {
                num_non_missing: 20 min_num_values: 1 max_num_values: 1 avg_num_values: 1
                tot_num_values: 20
              }
              unique: 2 avg_length: 1
              top_values { value: "1" frequency: 10 } top_values { value: "0" frequency: 10 }
            }""",
            numbers(
                "context_int64 INT",
                "num_non_missing: 10 num_missing: 10",
                counts=[(0, 0, 10 / 3)] * 3,
            ),
            numbers(
                "label FLOAT",
                "",
                "mean: 1.5 std_dev: 0.5 min: 1 median: 2 max: 2",
                widths=(
                    *((1, 1.3333334, 10.0220747), (1.3333334, 1.6666666, 0.0220751)),
                    (1.6666666, 2, 9.9558363),
                ),
                quantiles=((1, 1, 10), (1, 2, 5), (2, 2, 5)),
            ),
        ],
    ),
    "empty lists": ([example(a=FLOATS)], (10, 10, 10), [numbers("a FLOAT", "num_non_missing: 1")]),
}


def dataset(text: str) -> str:
    return f"datasets {{ {text} }}"


def string_feature(name: str, common: str, labels: str = "", more: str = "") -> str:
    """Statistics of a feature of strings; `labels` have their counts: "a 3 b 1"."""
    words = labels.split()
    ranks = " ".join(
        f'buckets {{ label: "{label}" sample_count: {count} }}'
        for label, count in zip(words[::2], words[1::2], strict=True)
    )
    return f"""
    features {{
      path {{ step: "{name}" }} type: STRING
      string_stats {{ common_stats {{ {common} }} {more} rank_histogram {{ {ranks} }} }}
    }}"""


_ONCE = "min_num_values: 1 max_num_values: 1"
_VALUE_COUNT = "value_count { min: 1 max: 1 }"
_ALWAYS = "presence { min_fraction: 1.0 min_count: 1 }"
_SOMETIMES = "presence { min_count: 1 }"

# name: (statistics, arguments, schema)
INFERRED: dict[str, tuple[str, dict[str, Any], str]] = {
    "value counts": (
        "num_examples: 7" + string_feature("f", f"num_non_missing: 7 {_ONCE}", more="unique: 3"),
        {"infer_feature_shape": False},
        f'feature {{ name: "f" {_VALUE_COUNT} {_ALWAYS} type: BYTES }}',
    ),
    "domain": (
        "num_examples: 6"
        + string_feature("f", f"num_missing: 3 num_non_missing: 3 {_ONCE}", "a 2 b 1", "unique: 2"),
        {},
        f'feature {{ name: "f" {_VALUE_COUNT} {_SOMETIMES} type: BYTES domain: "f" }} '
        'string_domain { name: "f" value: "a" value: "b" }',
    ),
    "too many values": (
        "num_examples: 6"
        + string_feature("f", f"num_missing: 3 num_non_missing: 3 {_ONCE}", "a 2 b 1", "unique: 3"),
        {"max_string_domain_size": 1},
        f'feature {{ name: "f" {_VALUE_COUNT} {_SOMETIMES} type: BYTES }}',
    ),
    "shapes": (
        "num_examples: 7"
        + string_feature("f1", f"num_missing: 0 num_non_missing: 7 {_ONCE}", more="unique: 3")
        + string_feature("f2", f"num_missing: 2 num_non_missing: 5 {_ONCE}", more="unique: 5")
        + string_feature("f3", "num_non_missing: 7 min_num_values: 0 max_num_values: 1")
        + string_feature(
            "nested1",
            f"num_non_missing: 7 {_ONCE} "
            + f"presence_and_valency_stats {{ num_non_missing: 7 {_ONCE} }}" * 2,
        )
        + string_feature(
            "nested2",
            f"num_missing: 2 num_non_missing: 5 {_ONCE} "
            + f"presence_and_valency_stats {{ num_missing: 2 num_non_missing: 5 {_ONCE} }}" * 2,
        )
        + string_feature(
            "nested3",
            "num_non_missing: 7 min_num_values: 0 max_num_values: 1 "
            + "presence_and_valency_stats { num_non_missing: 7 max_num_values: 1 }" * 2,
        ),
        {},
        f"""
        feature {{ name: "f1" shape {{ dim {{ size: 1 }} }} {_ALWAYS} type: BYTES }}
        feature {{ name: "f2" {_VALUE_COUNT} {_SOMETIMES} type: BYTES }}
        feature {{ name: "f3" {_ALWAYS} type: BYTES }}
        feature {{
          name: "nested1" shape {{ dim {{ size: 1 }} dim {{ size: 1 }} }} {_ALWAYS} type: BYTES
        }}
        feature {{
          name: "nested2" {_SOMETIMES} type: BYTES
          value_counts {{ value_count {{ min: 1 max: 1 }} value_count {{ min: 1 max: 1 }} }}
        }}
        feature {{
          name: "nested3" {_ALWAYS} type: BYTES
          value_counts {{ value_count {{}} value_count {{}} }}
        }}""",
    ),
    "slices": (
        'name: "All Examples" num_examples: 7'
        + string_feature("f", "num_non_missing: 7 min_num_values: 1 max_num_values: 2")
        + ' } datasets { name: "a slice" num_examples: 4'
        + string_feature("f", f"num_non_missing: 4 {_ONCE}"),
        {"infer_feature_shape": False},
        f'feature {{ name: "f" value_count {{ min: 1 }} {_ALWAYS} type: BYTES }}',
    ),
    "statistics of no values": (
        "num_examples: 4"
        + string_feature("f", f"num_missing: 2 num_non_missing: 2 {_ONCE}")
        + ' features { path { step: "weighted" } custom_stats { name: "missing_value" num: 2 } }',
        {},
        f'feature {{ name: "f" {_VALUE_COUNT} {_SOMETIMES} type: BYTES }}',
    ),
}

_ENUM = f"""
    string_domain {{ name: "Enum" value: "A" value: "B" value: "C" }}
    feature {{ name: "enum" {_VALUE_COUNT} {_SOMETIMES} type: BYTES domain: "Enum" }}
    feature {{ name: "old" lifecycle_stage: DEPRECATED {_SOMETIMES} type: BYTES }}"""
_SHAPE_TEXT = (
    "The feature has a shape, but it's not always present (if the feature is nested, then it "
    "should always be present at each nested level) or its value lengths vary."
)
_LINF_TEXT = (
    "The Linfty distance between {} is {} (up to six significant digits), above the threshold {}. "
    "The feature value with maximum difference is: {}"
)

# name: (schema, statistics, other statistics, {feature: [(type, short, long)]})
ANOMALIES: dict[str, tuple[str, str, dict[str, str], dict[str, list[tuple[str, str, str]]]]] = {
    "unexpected string": (
        _ENUM,
        "num_examples: 10"
        + string_feature("enum", f"num_missing: 3 num_non_missing: 7 {_ONCE}", "D 1"),
        {},
        {
            "enum": [
                (
                    "ENUM_TYPE_UNEXPECTED_STRING_VALUES",
                    "Unexpected string values",
                    "Examples contain values missing from the schema: D (?). ",
                )
            ]
        },
    ),
    "drift": (
        """
        feature {
          name: "enum" type: BYTES domain: "enum"
          drift_comparator { infinity_norm { threshold: 0.01 } }
        }
        string_domain { name: "enum" value: "a" }""",
        "num_examples: 2"
        + string_feature("enum", "num_non_missing: 2 max_num_values: 1", "a 1 b 1"),
        {
            "previous_statistics": "num_examples: 4"
            + string_feature("enum", "num_non_missing: 4 max_num_values: 1", "a 3 b 1")
        },
        {
            "enum": [
                (
                    "ENUM_TYPE_UNEXPECTED_STRING_VALUES",
                    "Unexpected string values",
                    "Examples contain values missing from the schema: b (?). ",
                ),
                (
                    "COMPARATOR_L_INFTY_HIGH",
                    "High Linfty distance between current and previous",
                    _LINF_TEXT.format("current and previous", 0.25, 0.01, "b"),
                ),
            ]
        },
    ),
    "skew": (
        """feature {
          name: "bar" type: BYTES skew_comparator { infinity_norm { threshold: 0.1 } }
        }""",
        "num_examples: 10"
        + string_feature("bar", "num_non_missing: 10 max_num_values: 1", "a 1 b 2 c 7"),
        {
            "serving_statistics": "num_examples: 10"
            + string_feature("bar", "num_non_missing: 10 max_num_values: 1", "a 3 b 1 c 6")
        },
        {
            "bar": [
                (
                    "COMPARATOR_L_INFTY_HIGH",
                    "High Linfty distance between training and serving",
                    _LINF_TEXT.format("training and serving", 0.2, 0.1, "a"),
                )
            ]
        },
    ),
    "shape": (
        'feature { name: "f1" type: INT shape { dim { size: 1 } } }',
        """num_examples: 10 features {
          name: "f1" type: INT
          num_stats { common_stats { num_non_missing: 10 min_num_values: 1 max_num_values: 2 } }
        }""",
        {},
        {"f1": [("INVALID_FEATURE_SHAPE", "Feature shape dropped", _SHAPE_TEXT)]},
    ),
    "NaN and wrong types": (
        """
        feature { name: "income" type: FLOAT float_domain { disallow_nan: true } }
        feature { name: "text" type: BYTES float_domain { disallow_nan: true } }
        feature { name: "int_domain_bytes" type: BYTES int_domain {} }
        feature { name: "no_type" float_domain { disallow_nan: true } }
        feature { name: "nl_float" natural_language_domain {} type: FLOAT }
        feature { name: "count" value_count { min: -1 max: 3 } type: BYTES }""",
        "num_examples: 4"
        + "".join(
            f' features {{ path {{ step: "{name}" }} type: FLOAT num_stats {{ '
            f"common_stats {{ num_non_missing: 4 {_ONCE} }} histograms {{ num_nan: 5 }} "
            "mean: 0.5 max: 1 } }"
            for name in ("income", "int_domain_bytes", "no_type", "nl_float")
        )
        + string_feature("text", f"num_non_missing: 4 {_ONCE}", "1.5 5 -1.5 15 NaN 20")
        + string_feature("count", "num_non_missing: 4 min_num_values: 1 max_num_values: 3"),
        {},
        {
            "income": [("FLOAT_TYPE_HAS_NAN", "Invalid values", "Float feature has NaN values.")],
            "text": [("FLOAT_TYPE_HAS_NAN", "Invalid values", "Float feature has NaN values.")],
            "int_domain_bytes": [
                (
                    "UNEXPECTED_DATA_TYPE",
                    "Unexpected data type",
                    "Expected data of type: BYTES but got FLOAT",
                )
            ],
            "no_type": [
                (
                    "FEATURE_MISSING_TYPE",
                    "unspecified type: determine the type and set it, rather than deprecating.",
                    "",
                )
            ],
            "nl_float": [
                (
                    "DOMAIN_INVALID_FOR_TYPE",
                    "The domain does not match the type",
                    'The domain "natural_language_domain" does not match the type: FLOAT',
                )
            ],
            "count": [
                ("INVALID_SCHEMA_SPECIFICATION", "ValueCount.min should not be negative", "")
            ],
        },
    ),
}

# (labels of one data set, of the other one, L-infinity distance)
INFINITY_NORMS: list[tuple[dict[str, float], dict[str, float], float]] = [
    ({}, {}, 0.0),
    ({"hello": 0.1, "world": 0.9}, {"hello": 0.3, "world": 0.7}, 0.2),
    ({"b": 0.9, "c": 0.1}, {"a": 0.3, "b": 0.7}, 0.3),
    ({"a": 0.3, "b": 0.7}, {"b": 0.9, "c": 0.1}, 0.3),
]

_HALVES = buckets((2, 4, 2), (4, 6, 2))
# (histogram, histogram, approximate Jensen-Shannon divergence)
DIVERGENCES: list[tuple[str, str, float]] = [
    (f"num_nan: 1 {_HALVES}", f"num_nan: 1 {_HALVES}", 0.0),
    (buckets((1, 2, 2), (2, 3, 2)), _HALVES, 0.65563906222),
    (buckets((0, 1, 2), (1, 2, 2)), buckets((3, 4, 2), (4, 6, 2)), 1.0),
    (buckets((1, 1, 4)), _HALVES, 1.0),
    (f"num_nan: 1 {buckets((1, 2, 3))}", buckets((1, 2, 4)), 0.13792538096),
]

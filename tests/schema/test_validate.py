"""Anomalies of data against a schema: each kind is found, and nothing else."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import text_format

from ffrfs.errors import FormatError
from ffrfs.schema import Schema, Statistics, generate_statistics, infer_schema, validate_statistics
from ffrfs.schema.messages import anomalies_pb2
from ffrfs.schema.tables import anomaly_rows
from tests.schema.records import INTS, example, sequence
from tests.tfrecord_file import write_tfrecord

KINDS = anomalies_pb2.AnomalyInfo.Type

# Columns of the Chicago taxi data that TFDV's tutorial has.
TAXI = [
    example(
        company=["Blue Ribbon"] if i % 3 else None,
        payment_type=["Cash" if i % 2 else "Credit Card"],
        fare=[4.25 + i],
        trip_miles=[i / 10],
        tips=[0.0] if i % 4 else [],
        trip_seconds=[60 * i],
        is_shared=[i % 2],
    )
    for i in range(40)
    if i % 4
]


def of(folder: Path, records: Iterable[bytes], name: str = "x") -> Any:
    return generate_statistics(write_tfrecord(folder / f"{name}.tfrecord", records)).statistics


def found(anomalies: Any) -> dict[str, list[str]]:
    return {
        name: [KINDS.Name(one.type) for one in info.reason]
        for name, info in anomalies.anomaly_info.items()
    }


def schema_of(text: str) -> Any:
    return text_format.Parse(text, Schema())


def test_data_fits_its_own_schema(tmp_path: Path) -> None:
    records = [*TAXI, sequence({"fare": [1.0]}, {"stops": [["a"], ["b", "c"]]})]
    statistics = of(tmp_path, records)
    for has_shape in (True, False):
        schema = infer_schema(statistics, has_shape)
        anomalies = validate_statistics(statistics, schema)
        assert found(anomalies) == {}
        assert not anomalies.HasField("dataset_anomaly_info")


def test_schema_of_taxi(tmp_path: Path) -> None:
    schema = infer_schema(of(tmp_path, TAXI))
    features = {feature.name: feature for feature in schema.feature}
    assert features["payment_type"].domain == "payment_type"
    assert features["is_shared"].HasField("bool_domain")
    assert features["fare"].shape.dim[0].size == 1
    assert features["company"].presence.min_fraction == 0
    assert features["company"].value_count.min == features["company"].value_count.max == 1
    domains = {domain.name: list(domain.value) for domain in schema.string_domain}
    assert domains == {"payment_type": ["Cash", "Credit Card"], "company": ["Blue Ribbon"]}


def test_schema_of_sequences(tmp_path: Path) -> None:
    records = [sequence({}, {"a": [[1, 2]] * (i + 1)}) for i in range(3)]
    (struct,) = infer_schema(of(tmp_path, records)).feature
    assert (struct.name, struct.type) == ("##SEQUENCE##", 4)
    (inner,) = struct.struct_domain.feature
    counts = [(one.min, one.max) for one in inner.value_counts.value_count]
    assert (inner.name, counts) == ("a", [(1, 0), (2, 2)])


def test_domains_of_strings(tmp_path: Path) -> None:
    records = [
        example(
            number=[f" {i}"],
            switch=["true" if i else "false"],
            word=[f"word{i % 7}"],
            many=[f"word{i}"],
            raw=[b"\xff"],
        )
        for i in range(101)
    ]
    schema = infer_schema(of(tmp_path, records))
    features = {feature.name: feature for feature in schema.feature}
    assert {name: one.WhichOneof("domain_info") for name, one in features.items()} == {
        "number": "int_domain",
        "switch": "bool_domain",
        "word": "domain",
        "many": None,
        "raw": None,
    }
    switch = features["switch"].bool_domain
    assert (switch.true_value, switch.false_value) == ("true", "false")
    more = infer_schema(of(tmp_path, records), max_string_domain_size=101)
    assert [domain.name for domain in more.string_domain] == ["many", "word"]


def test_no_domain_is_inferred_from_too_many_values(tmp_path: Path) -> None:
    """If there are many values, the rare ones may be unknown."""
    statistics = of(tmp_path, [example(a=["often"]), example(a=["seldom"])])
    (feature,) = statistics.datasets[0].features
    feature.string_stats.unique = 60_000
    assert infer_schema(statistics).string_domain == []


def without(record: bytes, name: str) -> bytes:
    from ffrfs.tfrecord import Example

    message = Example.FromString(record)
    del message.features.feature[name]
    return message.SerializeToString()


def test_new_and_dropped_columns(tmp_path: Path) -> None:
    schema = infer_schema(of(tmp_path, TAXI))
    changed = [without(record, "fare") for record in TAXI]
    changed[0] += example(surge=[1.5])
    anomalies = validate_statistics(of(tmp_path, changed), schema)
    assert found(anomalies) == {"fare": ["SCHEMA_MISSING_COLUMN"], "surge": ["SCHEMA_NEW_COLUMN"]}


def test_presence(tmp_path: Path) -> None:
    schema = schema_of('feature { name: "a" type: INT presence { min_count: 1 min_fraction: 1 } }')
    data = of(tmp_path, [example(a=[1]), example(), example(), example()])
    (info,) = validate_statistics(data, schema).anomaly_info.values()
    assert info.description == (
        "The feature was present in fewer examples than expected: minimum fraction = 1.000000, "
        "actual = 0.250000"
    )
    schema.feature[0].presence.min_count = 2
    assert found(validate_statistics(data, schema))["a"] == [
        "FEATURE_TYPE_LOW_NUMBER_PRESENT",
        "FEATURE_TYPE_LOW_FRACTION_PRESENT",
    ]
    never = of(tmp_path, [example(a=None), example()])
    schema.feature[0].type = 1
    assert found(validate_statistics(never, schema)) == {"a": ["FEATURE_TYPE_NOT_PRESENT"]}


A = 'feature {{ name: "a" type: {} {} }}'
MASS = "distribution_constraints { min_domain_mass: 0.5 }"
# A schema, values of feature a, and the anomalies that TFDV 1.16.1 finds.
CASES: list[tuple[str, list[Any], list[str]]] = [
    (A.format("INT", "value_count { min: 2 max: 3 }"), [[1], [1, 2, 3, 4]],
     ["FEATURE_TYPE_LOW_NUMBER_VALUES", "FEATURE_TYPE_HIGH_NUMBER_VALUES"]),
    (A.format("INT", "value_count { min: 1 }"), [INTS, [1]], ["FEATURE_TYPE_LOW_NUMBER_VALUES"]),
    (A.format("INT", "value_counts { value_count { min: 1 } value_count {} }"), [[1]],
     ["VALUE_NESTEDNESS_MISMATCH"]),
    (A.format("INT", "shape { dim { size: 2 } dim { size: 2 } }"), [[1, 2, 3, 4]], []),
    (A.format("INT", "shape { dim { size: 3 } }"), [[1, 2]], ["INVALID_FEATURE_SHAPE"]),
    (A.format("FLOAT", ""), [[1]], ["UNEXPECTED_DATA_TYPE"]),
    (A.format("BYTES", 'string_domain { value: "x" }'), [["x"]], []),
    (A.format("INT", "int_domain { min: 2 max: 5 }"), [[1], [6]],
     ["INT_TYPE_SMALL_INT", "INT_TYPE_BIG_INT"]),
    (A.format("INT", "int_domain { min: 1 max: 6 }"), [[1], [6]], []),
    (A.format("BYTES", "int_domain { min: 2 }"), [["1"], ["7"]], ["INT_TYPE_SMALL_INT"]),
    (A.format("BYTES", "int_domain { min: 2 }"), [["1"], ["x"]], ["INT_TYPE_NOT_INT_STRING"]),
    (A.format("FLOAT", "float_domain { min: 2 max: 5 }"), [[1.0], [6.0]],
     ["FLOAT_TYPE_SMALL_FLOAT", "FLOAT_TYPE_BIG_FLOAT"]),
    (A.format("FLOAT", "float_domain { disallow_nan: true disallow_inf: true }"),
     [[math.nan], [math.inf]], ["FLOAT_TYPE_HAS_NAN", "FLOAT_TYPE_HAS_INF"]),
    (A.format("FLOAT", "float_domain {}"), [[math.nan], [math.inf]], []),
    (A.format("BYTES", "float_domain { max: 5 }"), [["1.5"], ["6"]], ["FLOAT_TYPE_BIG_FLOAT"]),
    (A.format("BYTES", "float_domain {}"), [["x"]], ["FLOAT_TYPE_STRING_NOT_FLOAT"]),
    (A.format("INT", "bool_domain {}"), [[0], [1]], []),
    (A.format("INT", "bool_domain {}"), [[0], [2]], ["BOOL_TYPE_BIG_INT"]),
    (A.format("INT", "bool_domain {}"), [[-1], [1]], ["BOOL_TYPE_SMALL_INT"]),
    (A.format("FLOAT", "bool_domain {}"), [[0.0], [1.0]], []),
    (A.format("FLOAT", "bool_domain {}"), [[0.0], [0.5], [1.0]], ["BOOL_TYPE_UNEXPECTED_FLOAT"]),
    (A.format("FLOAT", "bool_domain {}"), [[0.0], [math.nan]], ["BOOL_TYPE_UNEXPECTED_FLOAT"]),
    (A.format("BYTES", 'bool_domain { true_value: "y" false_value: "n" }'), [["y"], ["n"]], []),
    (A.format("BYTES", 'bool_domain { true_value: "y" }'), [["y"], ["n"]],
     ["BOOL_TYPE_UNEXPECTED_STRING"]),
    (A.format("BYTES", 'string_domain { value: "x" }'), [["x"], ["y"]],
     ["ENUM_TYPE_UNEXPECTED_STRING_VALUES"]),
    (A.format("BYTES", 'string_domain { value: "x" }'), [["x"], [b"\xff"]],
     ["ENUM_TYPE_INVALID_UTF8"]),
    (A.format("BYTES", f'domain: "gone" {MASS}'), [["x"]], ["INVALID_DOMAIN_SPECIFICATION"]),
    (A.format("INT", 'string_domain { value: "x" }'), [[1]], ["DOMAIN_INVALID_FOR_TYPE"]),
    (A.format("INT", f'string_domain {{ value: "x" }} {MASS}'), [["x"]],
     ["DOMAIN_INVALID_FOR_TYPE", "INVALID_SCHEMA_SPECIFICATION", "UNEXPECTED_DATA_TYPE"]),
    (A.format("FLOAT", "mid_domain {}"), [None], ["DOMAIN_INVALID_FOR_TYPE"]),
    (A.format("INT", "natural_language_domain {}"), [[1]], []),
    (A.format("INT", "int_domain {}"), [["x"]],
     ["UNEXPECTED_DATA_TYPE", "INT_TYPE_NOT_INT_STRING"]),
    (A.format("BYTES", MASS), [["x"]], ["INVALID_SCHEMA_SPECIFICATION"]),
    (A.format("INT", f"int_domain {{}} {MASS}"), [[1]], ["INVALID_SCHEMA_SPECIFICATION"]),
    (A.format("BYTES", f"url_domain {{}} {MASS}"), [["x"]], ["INVALID_SCHEMA_SPECIFICATION"]),
    (A.format("BYTES", "unique_constraints { min: 3 max: 9 }"), [["x"], ["y"]],
     ["FEATURE_TYPE_LOW_UNIQUE"]),
    (A.format("BYTES", "unique_constraints { min: 0 max: 1 }"), [["x"], ["y"]],
     ["FEATURE_TYPE_HIGH_UNIQUE"]),
    (A.format("INT", "unique_constraints { min: 0 max: 1 }"), [[1]], ["FEATURE_TYPE_NO_UNIQUE"]),
    (A.format("INT", "lifecycle_stage: DEPRECATED int_domain { max: 0 }"), [[1]], []),
    (A.format("INT", "presence { min_fraction: 2 }"), [[1]], ["INVALID_SCHEMA_SPECIFICATION"]),
    (A.format("INT", "value_count { min: 2 max: 1 }"), [[1, 1]],
     ["INVALID_SCHEMA_SPECIFICATION"]),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "values", "wanted"), CASES)
def test_anomaly(tmp_path: Path, schema: str, values: list[Any], wanted: list[str]) -> None:
    data = of(tmp_path, [example(a=one) for one in values])
    assert found(validate_statistics(data, schema_of(schema))) == ({"a": wanted} if wanted else {})


def test_long_strings_match_their_domain(tmp_path: Path) -> None:
    long = "x" * 60_000
    schema = schema_of(A.format("BYTES", f'string_domain {{ value: "{long}" }}'))
    assert found(validate_statistics(of(tmp_path, [example(a=[long])]), schema)) == {}
    other = validate_statistics(of(tmp_path, [example(a=[long + "y"])]), schema)
    assert found(other) == {"a": ["ENUM_TYPE_UNEXPECTED_STRING_VALUES"]}
    assert len(anomaly_rows(other)[1][2]) == 1000


def test_share_of_values_outside_the_domain(tmp_path: Path) -> None:
    """min_domain_mass allows a share of values outside the domain."""
    data = of(tmp_path, [example(a=["x"])] * 9 + [example(a=["y"])])
    schema = schema_of(A.format("BYTES", 'string_domain { value: "x" }'))
    (info,) = validate_statistics(data, schema).anomaly_info.values()
    assert info.description == "Examples contain values missing from the schema: y (~10%). "
    constraints = schema.feature[0].distribution_constraints
    constraints.min_domain_mass = 0.85
    assert found(validate_statistics(data, schema)) == {}
    constraints.min_domain_mass = 0.95
    assert found(validate_statistics(data, schema)) == {"a": ["ENUM_TYPE_UNEXPECTED_STRING_VALUES"]}


def test_environments(tmp_path: Path) -> None:
    schema = schema_of(
        """
        default_environment: "TRAINING" default_environment: "SERVING"
        feature { name: "a" type: INT presence { min_fraction: 1 } }
        feature {
          name: "label" type: INT presence { min_fraction: 1 } not_in_environment: "SERVING"
        }"""
    )
    serving, training = of(tmp_path, [example(a=[1])]), of(tmp_path, [example(a=[1], label=[1])])
    assert found(validate_statistics(serving, schema)) == {"label": ["SCHEMA_MISSING_COLUMN"]}
    assert found(validate_statistics(serving, schema, "SERVING")) == {}
    assert found(validate_statistics(training, schema, "TRAINING")) == {}
    assert found(validate_statistics(training, schema, "SERVING")) == {
        "label": ["SCHEMA_NEW_COLUMN"]
    }


def test_drift_and_skew_of_numbers(tmp_path: Path) -> None:
    schema = schema_of(
        A.format(
            "FLOAT",
            "drift_comparator { jensen_shannon_divergence { threshold: 0.1 } } "
            "skew_comparator { jensen_shannon_divergence { threshold: 0.1 } }",
        )
    )
    low = of(tmp_path, [example(a=[i / 100]) for i in range(100)])
    high = of(tmp_path, [example(a=[2 + i / 100]) for i in range(100)])
    same = validate_statistics(low, schema, None, low, low)
    assert found(same) == {}
    assert [one.value for one in same.drift_skew_info[0].skew_measurements] == [0]
    other = validate_statistics(low, schema, None, high, high)
    assert found(other) == {"a": ["COMPARATOR_JENSEN_SHANNON_DIVERGENCE_HIGH"] * 2}
    (info,) = other.drift_skew_info
    assert info.drift_measurements[0].value == info.skew_measurements[0].value == 1


def test_drift_without_data(tmp_path: Path) -> None:
    schema = schema_of(A.format("BYTES", "drift_comparator { infinity_norm { threshold: 0.1 } }"))
    data, none = of(tmp_path, [example(a=["x"])]), of(tmp_path, [example(b=["x"])])
    assert found(validate_statistics(data, schema)) == {}
    anomalies = validate_statistics(data, schema, previous_statistics=none)
    assert found(anomalies) == {"a": ["COMPARATOR_CONTROL_DATA_MISSING"]}


def test_absolute_difference(tmp_path: Path) -> None:
    schema = schema_of(
        A.format("BYTES", "drift_comparator { normalized_abs_difference { threshold: 0.1 } }")
    )
    now = of(tmp_path, [example(a=["x"])] * 3 + [example(a=["y"])])
    before = of(tmp_path, [example(a=["x"])] * 6)
    anomalies = validate_statistics(now, schema, previous_statistics=before)
    assert found(anomalies) == {"a": ["COMPARATOR_NORMALIZED_ABSOLUTE_DIFFERENCE_HIGH"]}
    (measured,) = anomalies.drift_skew_info[0].drift_measurements
    assert measured.value == pytest.approx(0.3)


def test_number_of_examples(tmp_path: Path) -> None:
    schema = schema_of(
        'feature { name: "a" } dataset_constraints { min_examples_count: 3 max_examples_count: 5 '
        "num_examples_drift_comparator { min_fraction_threshold: 0.5 max_fraction_threshold: 2 } }"
    )
    schema.feature[0].type = 2
    kinds = {}
    sets = {count: of(tmp_path, [example(a=[1])] * count) for count in (1, 2, 4, 8)}
    for now, before in ((4, 4), (2, 4), (8, 4), (1, 4), (8, 2)):
        anomalies = validate_statistics(sets[now], schema, previous_statistics=sets[before])
        reasons = anomalies.dataset_anomaly_info.reason
        kinds[now, before] = [KINDS.Name(reason.type) for reason in reasons]
    assert kinds == {
        (4, 4): [],
        (2, 4): ["DATASET_LOW_NUM_EXAMPLES"],
        (8, 4): ["DATASET_HIGH_NUM_EXAMPLES"],
        (1, 4): ["DATASET_LOW_NUM_EXAMPLES", "COMPARATOR_LOW_NUM_EXAMPLES"],
        (8, 2): ["DATASET_HIGH_NUM_EXAMPLES", "COMPARATOR_HIGH_NUM_EXAMPLES"],
    }


def test_time_is_proportional_to_the_number_of_features(tmp_path: Path) -> None:
    record = example(**{f"f{i}": ["a" if i % 2 else "b"] for i in range(8000)})
    statistics = of(tmp_path, [record, record])
    begin = time.process_time()
    schema = infer_schema(statistics)
    assert len(schema.string_domain) == 8000
    assert found(validate_statistics(statistics, schema)) == {}
    assert time.process_time() - begin < 10


def test_empty_statistics() -> None:
    empty = Statistics()
    with pytest.raises(FormatError, match="statistics of 0 data sets, where one is needed"):
        infer_schema(empty)
    empty.datasets.add()
    assert validate_statistics(empty, Schema()).data_missing

"""A table as a DataFrame of Spark: read by Spark's own tasks through `format("moldau")`.

The moment is fixed when the frame is made. Formats are decoded in the tasks by the same code as
everywhere, a batch of Arrow at a time, so the frame equals those of others.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

from moldau.pipelines.source.source_client import SourceClient
from moldau.pipelines.source.source_offsets import offsets_text
from moldau.tables.kafka_columns import kafka_schema
from moldau.tables.scan_plan import ScanPlan, source_options
from moldau.tables.table_faults import load
from moldau.tables.table_spec import TableSpec
from moldau.tables.typed_columns import TypedColumns

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame, SparkSession

SPARK_NAMES = {"timestamp_type": "timestampType"}


def frame(
    spec: TableSpec,
    typed: TypedColumns,
    columns: Sequence[str] | None,
    expression: Any,
    session: SparkSession,
) -> DataFrame:
    F = load("pyspark.sql.functions", "spark")
    from moldau.pipelines.session import register

    with closing(SourceClient(source_options(spec))) as client:
        whole = ScanPlan(spec, client).whole()
    options = {f"kafka.{name}": value for name, value in spec.settings.items()}
    options.setdefault("kafka.isolation.level", "read_committed")
    options |= {
        "assign": json.dumps(_assigned(whole)),
        "startingOffsets": offsets_text({tp: first for tp, (first, _) in whole.items()}),
        "endingOffsets": offsets_text({tp: end for tp, (_, end) in whole.items()}),
        "includeHeaders": "true",
    }
    rows = register(session).read.format("moldau").options(**options).load()
    kind = rows.schema["headers"].dataType
    none = F.array().cast(kind)
    rows = rows.withColumn("headers", F.coalesce("headers", none))
    if spec.is_latest:
        rows = _latest(rows)
    for name, theirs in SPARK_NAMES.items():
        rows = rows.withColumnRenamed(theirs, name)
    rows = rows.select(*_raw_names(typed))
    if expression is not None or typed.is_typed:
        rows = _converted(rows, typed, expression)
    return rows.select(*(columns or typed.schema.names))


def _assigned(whole: Iterable[Any]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for tp in whole:
        found.setdefault(tp.topic, []).append(tp.partition)
    return found


def _raw_names(typed: TypedColumns) -> list[str]:
    wanted = typed.raw_names
    return [field.name for field in kafka_schema() if field.name in wanted]


def _latest(rows: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    whole = F.struct("offset", *(F.col(name) for name in rows.columns if name != "offset"))
    newest = (
        rows.where(F.col("key").isNotNull())
        .groupBy("topic", "partition", "key")
        .agg(F.max_by(whole, "offset").alias("newest"))
    )
    return newest.select("newest.*").where(F.col("value").isNotNull())


def _converted(rows: DataFrame, typed: TypedColumns, expression: Any) -> DataFrame:
    from pyspark.sql.pandas.types import from_arrow_schema

    pa = load("pyarrow", "arrow")
    fields = [field.with_type(_spark_type(pa, field.type)) for field in typed.schema]
    theirs = pa.schema(fields)
    raw = [kafka_schema().field(name) for name in rows.columns]

    def convert(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        for batch in batches:
            given = [batch.column(field.name).cast(field.type) for field in raw]
            made = typed.convert(pa.RecordBatch.from_arrays(given, names=rows_columns))
            table = pa.Table.from_batches([made])
            if expression is not None:
                table = table.filter(expression)
            yield from table.cast(theirs).to_batches()

    rows_columns = [field.name for field in raw]
    return rows.mapInArrow(convert, from_arrow_schema(theirs))


def _spark_type(pa: Any, kind: Any) -> Any:
    """Spark has times in microseconds, and no numbers without a sign."""
    types = pa.types
    if types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if types.is_unsigned_integer(kind):
        return pa.int64() if kind.bit_width < 64 else pa.decimal128(20, 0)
    if types.is_fixed_size_binary(kind):
        return pa.binary()
    if types.is_time(kind):
        return pa.string()
    if types.is_struct(kind):
        fields = [kind.field(index) for index in range(kind.num_fields)]
        return pa.struct([each.with_type(_spark_type(pa, each.type)) for each in fields])
    if types.is_map(kind):
        return pa.map_(kind.key_type, _spark_type(pa, kind.item_type))
    if types.is_list(kind):
        return pa.list_(_spark_type(pa, kind.value_type))
    return kind

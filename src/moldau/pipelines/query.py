"""The state of a pipeline as a DataFrame, read from its checkpoint while it runs or rests.

    state_of(spark, "ckpt/wordcount").show()
    state_of(spark, "ckpt/joined", variable="versions")

It is what the last committed batch left; a pipeline that runs is not disturbed.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from moldau.pipelines.sink.sink_options import SinkError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def operators(spark: SparkSession, checkpoint: str) -> DataFrame:
    """The stateful operators of the pipeline: number, name, stores."""
    _check(checkpoint)
    return spark.read.format("state-metadata").load(checkpoint)


def state_of(
    spark: SparkSession,
    checkpoint: str,
    *,
    operator: int = 0,
    variable: str | None = None,
    batch_id: int | None = None,
) -> DataFrame:
    """The keys and values of one operator; `variable` names the state of a join."""
    from pyspark.errors import PySparkException

    _check(checkpoint)
    reader = spark.read.format("statestore").option("operatorId", str(operator))
    if variable is not None:
        reader = reader.option("stateVarName", variable)
    if batch_id is not None:
        reader = reader.option("batchId", str(batch_id))
    try:
        rows = reader.load(checkpoint)
    except PySparkException as fault:
        sentence = str(fault).splitlines()[0]
        raise SinkError(f"The state in {checkpoint} cannot be read: {sentence}") from None
    nested = [name for name in ("key", "value") if name in rows.columns]
    kinds = {field.name: field.dataType.typeName() for field in rows.schema.fields}
    columns = [f"{name}.*" if kinds[name] == "struct" else name for name in nested]
    return rows.select(*(columns or rows.columns))


def _check(checkpoint: str) -> None:
    if "://" not in checkpoint and not Path(checkpoint).is_dir():
        raise SinkError(f"There is no checkpoint at {checkpoint}: name the folder given to to()")

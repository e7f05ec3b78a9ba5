"""What `import moldau` offers: everything by name, nothing before it is asked for."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import moldau
from moldau.client.shared import client_errors as client_errors


def test_every_name_is_there_and_known_to_type_checkers() -> None:
    tree = ast.parse(Path(moldau.__file__).read_text())
    declared = {
        (node.module, alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("moldau.")
        for alias in node.names
    }
    offered = {(home, name) for home, names in moldau._HOMES.items() for name in names.split()}
    assert declared == offered
    for _, name in offered:
        assert getattr(moldau, name).__name__ == name
    assert set(moldau.__all__) == {name for _, name in offered} | moldau._MODULES
    assert not hasattr(moldau, "KafkaProducer"), "its poll(1000) would be 1,000 seconds"


def test_errors_are_a_module_with_every_exception_of_kafka() -> None:
    import moldau.errors
    from moldau.errors import TopicAlreadyExistsError, TopicExistsError

    assert sys.modules["moldau.errors"] is moldau.errors
    assert TopicExistsError is TopicAlreadyExistsError
    assert issubclass(TopicExistsError, moldau.KafkaError)
    declared = {name for name in vars(client_errors) if name.endswith("Error") and name != "Error"}
    assert declared <= set(vars(moldau.errors))
    with pytest.raises(AttributeError, match="NonsenseError"):
        moldau.errors.NonsenseError  # noqa: B018
    with pytest.raises(ImportError):
        from moldau.errors import error_for  # noqa: F401


USER_PROGRAM = """
import moldau.errors
from moldau import (
    Assignor, BulkFuture, ConcurrentModificationError, Consumer, ConsumerInterceptor,
    ConsumerRecords, Producer, ProducerInterceptor, ProducerRecord, ProducerSession, RecordFuture,
    TopicPartition, aio, errors,
)

class Stamp(ProducerInterceptor):
    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        return record._replace(topic="stamped")

class Count(ConsumerInterceptor):
    def on_consume(self, records: ConsumerRecords) -> None:
        reveal_type(len(records))

def write(producer: Producer) -> ProducerSession:
    one: RecordFuture = producer.send("orders", b"tea")
    many: BulkFuture = producer.send_many("orders", [b"tea", b"milk"])
    try:
        reveal_type(one.result(1).offset)
        many.result(1)
    except (errors.ProducerFencedError, moldau.errors.KafkaTimeoutError) as error:
        reveal_type(error)
    return producer.session()

def read(consumer: Consumer) -> list[int]:
    consumer.assign([TopicPartition("orders", 0)])
    return [record.offset for record in consumer.poll(1.0)]

async def topics(admin: aio.Admin) -> None:
    reveal_type(await admin.list_topics())

read("not a consumer")
"""


def test_a_type_checker_sees_what_a_users_program_uses(tmp_path: Path) -> None:
    assert (Path(moldau.__file__).parent / "py.typed").exists()
    program = tmp_path / "user_program.py"
    program.write_text(USER_PROGRAM)
    command = [*(sys.executable, "-m", "mypy"), "--strict", "--config-file", os.devnull]
    done = subprocess.run(
        [*command, "--cache-dir", str(tmp_path / "cache"), program.name],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=os.environ | {"MYPYPATH": str(Path(moldau.__file__).parent.parent)},
    )
    notes = [line for line in done.stdout.splitlines() if line.startswith(program.name)]
    told = [line.partition(": ")[2] for line in notes]
    assert [line for line in told if line.startswith("error")] == [
        'error: Argument 1 to "read" has incompatible type "str"; expected "Consumer"  [arg-type]'
    ]
    revealed = [line.removeprefix("note: Revealed type is ").strip('"') for line in told]
    assert not [line for line in revealed if line == "Any"]
    assert sum("note" in line for line in told) == 4


def test_a_name_that_is_not_there_is_refused() -> None:
    with pytest.raises(AttributeError, match="Nonsense"):
        moldau.Nonsense  # noqa: B018


def test_importing_the_package_imports_nothing_else() -> None:
    program = (
        "import sys; before = set(sys.modules); import moldau; print(*set(sys.modules) - before)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert set(done.stdout.split()) <= {"moldau", "__future__"}

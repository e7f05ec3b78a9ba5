"""`moldau dump-log`: what is in the files of a log, as kafka-dump-log.sh prints it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from moldau.cli.command_faults import CommandFault
from moldau.cli.files.dump_indexes import (
    Mismatches,
    dump_index,
    dump_snapshot,
    dump_time_index,
    dump_txn_index,
)
from moldau.cli.files.dump_old_messages import Entry, message_at, message_line, records_in
from moldau.cli.flags import Flag, Given, integer
from moldau.cli.output import Output
from moldau.cli.tool import Tool, run_tool
from moldau.client.serialization.coordinator_records import (
    GROUP_RECORDS,
    TRANSACTION_RECORDS,
    Kinds,
    UnknownKind,
    as_json,
    compact_json,
    read_record,
    value_json,
)
from moldau.model.errors import ApiError
from moldau.records.batch import (
    CRC_START,
    DELETE_HORIZON_FLAG,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC_V2,
    BatchHeader,
    read_header,
)
from moldau.records.batch_codec import Record, decode_batch, decode_marker
from moldau.records.checksum import crc32c
from moldau.records.compression import Codec
from moldau.records.old_formats.old_messages import OLD_BYTES_MIN
from moldau.records.old_formats.up_conversion import is_old
from moldau.wire.primitives import DecodeError

INDENT = "|"
WHOLE_FILE = 2**31 - 1
MESSAGE_BYTES = 5 * 1024 * 1024

Decoder = Callable[[Record], tuple[str | None, str | None]]


def run(arguments: list[str]) -> int:
    return run_tool(TOOL, arguments)


def main(given: Given, out: Output) -> int:
    dump = Dump(given, out)
    for name in given.text("files").split(","):
        dump.file(name)
    dump.remarks.print_to(out)
    return 0


class Dump:
    def __init__(self, given: Given, out: Output) -> None:
        self.given = given
        self.out = out
        decoders = ("offsets-decoder", "transaction-log-decoder")
        others = ("print-data-log", "value-decoder-class", "key-decoder-class")
        self.prints_data = any(given.has(each) for each in (*decoders, *others))
        self.is_deep = given.has("deep-iteration") or self.prints_data
        self.decoder = decoder_of(given)
        self.remarks = Mismatches()
        self.path = Path()

    def tell(self, kind: str, fields: dict[str, Any]) -> None:
        """A line of JSON, if the answer is data."""
        if self.out.is_json:
            self.out.json({"file": str(self.path), "kind": kind, **fields})

    def file(self, name: str) -> None:
        path = Path(name)
        self.out.line(f"Dumping {path}")
        self.path = path
        sanity, verify = self.given.has("index-sanity-check"), self.given.has("verify-index-only")
        try:
            match path.suffix:
                case ".log":
                    self.log(path)
                case ".index":
                    dump_index(path, self, self.remarks, sanity=sanity, verify=verify)
                case ".timeindex":
                    dump_time_index(path, self, self.remarks, sanity=sanity, verify=verify)
                case ".txnindex":
                    dump_txn_index(path, self)
                case ".snapshot":
                    dump_snapshot(path, self)
                case _:
                    self.out.remark(f"Ignoring unknown file {path}")
        except OSError as fault:
            raise CommandFault(f"{path} ({fault.strerror})") from None

    def log(self, path: Path) -> None:
        self.out.line(f"Log starting offset: {starting_offset(path)}")
        limit = self.given.number("max-bytes")
        with path.open("rb") as file:
            content = file.read(limit)
        position, offset_last = 0, -1
        while position + OLD_BYTES_MIN <= len(content):
            if is_old(content, position):
                entry = message_at(content, position)
                if entry is None:
                    break
                self.out.line(message_line(entry, position))
                self.tell("message", {"position": position, "size": len(entry.content)})
                if self.is_deep:
                    offset_last = self.old_records(entry, offset_last, path)
                position += len(entry.content)
                continue
            if position + HEADER_BYTES > len(content):
                break
            header = read_header(content, position)
            if header.magic != MAGIC_V2 or header.batch_length < HEADER_BYTES - LOG_OVERHEAD_BYTES:
                break
            if position + header.size_bytes > len(content):
                break
            batch = content[position : position + header.size_bytes]
            self.batch(header, batch, position)
            if self.is_deep:
                offset_last = self.records(header, batch, offset_last, path)
            position += header.size_bytes
        if position < len(content) and limit == WHOLE_FILE:
            left = len(content) - position
            self.out.line(f"Found {left} invalid bytes at the end of {path.name}")
            self.tell("invalid", {"position": position, "size": left})

    def batch(self, header: BatchHeader, batch: bytes, position: int) -> None:
        is_valid = crc32c(batch[CRC_START:]) == header.crc
        fields = {
            "baseOffset": header.base_offset,
            "lastOffset": header.last_offset,
            "count": header.record_count,
            "baseSequence": header.base_sequence,
            "lastSequence": header.last_sequence,
            "producerId": header.producer_id,
            "producerEpoch": header.producer_epoch,
            "partitionLeaderEpoch": header.leader_epoch,
            "isTransactional": java_truth(header.is_transactional),
            "isControl": java_truth(header.is_control),
            "deleteHorizonMs": delete_horizon(header),
            "position": position,
            time_name(header): header.max_timestamp,
            "size": header.size_bytes,
            "magic": header.magic,
            "compresscodec": codec_name(header.codec),
            "crc": header.crc,
            "isvalid": java_truth(is_valid),
        }
        self.out.line(" ".join(f"{name}: {value}" for name, value in fields.items()))
        if self.out.is_json:
            self.tell("batch", batch_fields(header, position, is_valid))

    def records(self, header: BatchHeader, batch: bytes, offset_last: int, path: Path) -> int:
        try:
            records = decode_batch(batch)
        except ApiError as fault:
            raise CommandFault(f"{fault}") from None
        for record in records:
            self.note_gap(record.offset, offset_last, path)
            offset_last = record.offset
            metadata = metadata_of(header, record)
            self.record(metadata, record, is_data=not header.is_control)
        return offset_last

    def old_records(self, entry: Entry, offset_last: int, path: Path) -> int:
        for record, metadata in records_in(entry):
            self.note_gap(record.offset, offset_last, path)
            offset_last = record.offset
            self.record(metadata, record, is_data=True)
        return offset_last

    def note_gap(self, offset: int, offset_last: int, path: Path) -> None:
        if offset != offset_last + 1:
            self.remarks.gaps.setdefault(str(path.absolute()), {})[offset_last] = offset

    def record(self, metadata: str, record: Record, *, is_data: bool) -> None:
        self.out.line(self.record_line(metadata, record, is_data=is_data))
        if not self.out.is_json:
            return
        fields: dict[str, Any] = {
            "offset": record.offset,
            "timestamp": record.timestamp,
            "keySize": size_of(record.key),
            "valueSize": size_of(record.value),
            "headers": [name for name, _ in record.headers],
            "isControl": not is_data,
        }
        if self.prints_data and is_data:
            fields["key"], fields["payload"] = self.decoder(record)
        self.tell("record", fields)

    def record_line(self, metadata: str, record: Record, *, is_data: bool) -> str:
        skips = self.given.has("skip-record-metadata")
        line = "" if skips else metadata
        if self.prints_data and is_data:
            key, value = self.decoder(record)
            prefix = f"{INDENT} " if skips else " "
            if key is not None:
                line += f"{prefix}key: {key}"
                prefix = " "
            if value is not None:
                line += f"{prefix}payload: {value}"
        return line


def batch_fields(header: BatchHeader, position: int, is_valid: bool) -> dict[str, Any]:
    """What a line says of a batch, as data."""
    return {
        "baseOffset": header.base_offset,
        "lastOffset": header.last_offset,
        "count": header.record_count,
        "baseSequence": header.base_sequence,
        "producerId": header.producer_id,
        "producerEpoch": header.producer_epoch,
        "leaderEpoch": header.leader_epoch,
        "isTransactional": header.is_transactional,
        "isControl": header.is_control,
        "position": position,
        "maxTimestamp": header.max_timestamp,
        "size": header.size_bytes,
        "magic": header.magic,
        "codec": codec_name(header.codec),
        "crc": header.crc,
        "isValid": is_valid,
    }


def starting_offset(path: Path) -> int:
    digits = path.name.split(".")[0]
    if not digits.isdigit():
        raise CommandFault(
            f'For input string: "{digits}": the file\'s name must be its first offset'
        )
    return int(digits)


def metadata_of(header: BatchHeader, record: Record) -> str:
    delta = record.offset - header.base_offset
    sequence = header.base_sequence
    if sequence >= 0:
        sequence = (sequence + delta) & 0x7FFFFFFF
    keys = ",".join(name for name, _ in record.headers)
    line = (
        f"{INDENT} offset: {record.offset} {time_name(header)}: {record.timestamp}"
        f" keySize: {size_of(record.key)} valueSize: {size_of(record.value)}"
        f" sequence: {sequence} headerKeys: [{keys}]"
    )
    if header.is_control:
        marker = decode_marker(record)
        if marker is not None:
            kind, epoch = marker.kind.name, marker.coordinator_epoch
            line += f" endTxnMarker: {kind} coordinatorEpoch: {epoch}"
    return line


def size_of(content: bytes | None) -> int:
    return -1 if content is None else len(content)


def java_truth(value: bool) -> str:
    return "true" if value else "false"


def time_name(header: BatchHeader) -> str:
    return "LogAppendTime" if header.has_log_append_time else "CreateTime"


def delete_horizon(header: BatchHeader) -> str:
    """The base timestamp of a compacted batch holds when its tombstones may go (KIP-534)."""
    if header.attributes & DELETE_HORIZON_FLAG:
        return f"OptionalLong[{header.base_timestamp}]"
    return "OptionalLong.empty"


def codec_name(codec: int) -> str:
    return Codec(codec).name.lower() if codec in set(Codec) else f"unknown({codec})"


def decoder_of(given: Given) -> Decoder:
    if given.has("offsets-decoder"):
        return lambda record: coordinator_texts(GROUP_RECORDS, record)
    if given.has("transaction-log-decoder"):
        return lambda record: coordinator_texts(TRANSACTION_RECORDS, record)
    decode_key = plain_decoder(given.text("key-decoder-class"))
    decode_value = plain_decoder(given.text("value-decoder-class"))
    return lambda record: (decode_key(record.key), decode_value(record.value))


def plain_decoder(class_name: str) -> Callable[[bytes | None], str | None]:
    name = class_name.rpartition(".")[2]
    if name == "StringDecoder":
        return lambda content: None if content is None else content.decode("utf-8", "replace")
    if name in ("IntegerDecoder", "LongDecoder"):
        return lambda content: (
            None if content is None else str(int.from_bytes(content, "big", signed=True))
        )
    if name == "DefaultDecoder":
        return lambda content: None if content is None else content.hex()
    raise CommandFault(
        f"there is no decoder {class_name}: String-, Long-, Integer-, DefaultDecoder"
    )


def coordinator_texts(kinds: Kinds, record: Record) -> tuple[str | None, str | None]:
    if record.key is None:
        raise CommandFault(
            f"Failed to decode message at offset {record.offset} using the specified decoder"
            " (message had a missing key)"
        )
    try:
        read = read_record(kinds, record.key, record.value)
    except UnknownKind as unknown:
        kind = unknown.args[0]
        return f"Unknown record type {kind} at offset {record.offset}, skipping.", None
    except DecodeError as fault:
        return f"Error at offset {record.offset}, skipping. {fault}", None
    key = {"type": str(read.kind), "data": as_json(read.key, read.kind)}
    node = value_json(read)
    if node is None:
        return compact_json(key), "<DELETE>"
    value = {"version": str(read.value_version), "data": node}
    return compact_json(key), compact_json(value)


TOOL = Tool(
    name="dump-log",
    does="Shows what is in log segments, their indexes and producer snapshots. Reads files; the"
    " broker need not run.",
    flags=(
        Flag("--files", "The files, separated by commas.", takes="FILES", required=True),
        Flag("--print-data-log", "Show keys and values too."),
        Flag("--deep-iteration", "Show every record; implied by --print-data-log and decoders."),
        Flag("--offsets-decoder", "Read records as those of __consumer_offsets."),
        Flag("--transaction-log-decoder", "Read records as those of __transaction_state."),
        Flag("--index-sanity-check", "Only make the check a broker makes when it starts."),
        Flag("--verify-index-only", "Compare indexes with the log; print differences only."),
        Flag(
            "--max-bytes",
            "Read no more than so many bytes of a log.",
            takes="BYTES",
            kind=integer,
            default=WHOLE_FILE,
        ),
        Flag(
            "--max-message-size",
            "Nothing: batches of every size are read.",
            takes="BYTES",
            kind=integer,
            default=MESSAGE_BYTES,
            no_effect="batches of every size are read",
        ),
        Flag("--skip-record-metadata", "Show keys and values only."),
        Flag(
            "--key-decoder-class",
            "How keys are shown: StringDecoder, LongDecoder, IntegerDecoder, DefaultDecoder.",
            takes="CLASS",
            default="StringDecoder",
            bare="StringDecoder",
        ),
        Flag(
            "--value-decoder-class",
            "How values are shown: as keys.",
            takes="CLASS",
            default="StringDecoder",
            bare="StringDecoder",
        ),
    ),
    main=main,
    answers_in_lines=True,
    examples=(
        "moldau dump-log --files data/orders-0/00000000000000000000.log --print-data-log",
        "moldau dump-log --files data/__consumer_offsets-7/00000000000000000000.log"
        " --offsets-decoder",
        "moldau dump-log --files data/orders-0/00000000000000000000.index --index-sanity-check",
    ),
)

"""Settings of what the broker writes for people to read: server.log and the other files."""

from __future__ import annotations

from moldau.config.setting_definition import GIB, MIB, Long, Settings, setting

# Rows stay compact, so that the table can be read as one.
# fmt: off


class LogFileSettings(Settings):
    kafka_logs_dir: str | None = setting(
        "kafka.logs.dir",
        doc="Folder of server.log, controller.log and the other files for people to read; if it "
            "is unset, that of the environment's LOG_DIR. Without either the log is only printed.")
    kafka_logs_format: str = setting(
        "kafka.logs.format", "text", one_of=("text", "json"), ignore_case=True,
        doc="How log lines look, in files and printed: Kafka's layout, or one JSON object each.")
    kafka_logs_retention_files: int = setting(
        "kafka.logs.retention.files", 168, at_least=1,
        doc="Rolled files that are kept of each log file, one an hour; older ones are removed.")
    kafka_logs_retention_bytes: Long = setting(
        "kafka.logs.retention.bytes", 1 * GIB, at_least=1 * MIB,
        doc="Bytes of all log files together; the oldest rolled ones are removed beyond that, and "
            "a file that reaches a sixteenth of it is rolled before its hour is over.")

"""The broker's log: lines in Apache Kafka's layout, printed, and in Kafka's files where they are
asked for; levels that can be changed.

Operators' tools that read Kafka's log read this one. A level is INFO unless the environment's
MOLDAU_LOG_LEVEL says otherwise; single loggers are changed while the broker runs.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TextIO

from moldau.broker.broker_log.line_writer import LineWriter, Sink
from moldau.broker.broker_log.log_layouts import LEVELS, layout_of, level_name
from moldau.broker.broker_log.log_outlets import (
    OWN_NAME,
    FolderLock,
    OneLimit,
    Outlet,
    OutletHandler,
    StreamSink,
    remark_line,
)
from moldau.broker.broker_log.log_plan import ROOT, Appender, LogPlan, plan_of_console

if TYPE_CHECKING:
    from moldau.broker.broker_log.request_log import RequestLog
    from moldau.broker.broker_log.rolling_files import RolledFiles
    from moldau.net.server import Server

log = logging.getLogger(OWN_NAME)
request_logger = logging.getLogger("kafka.request.logger")

LEVEL_VARIABLE = "MOLDAU_LOG_LEVEL"
LINES_OF_A_KIND = 200
"""Written in ten seconds; more are counted. Whatever a client does, the disk does not fill."""
FLUSH_SECONDS = 2.0
"""How long an end waits for a disk or a pipe that takes no more."""


class LogWishes(NamedTuple):
    """What the settings say about log files."""

    is_json: bool = False
    files_max: int = 168
    bytes_max: int = 1024**3
    node_id: int = -1
    """Names the folder of a second broker that is given the same one."""
    console_file: Path | None = None
    """Where standard output goes, if this process is to bound it too."""


class BrokerLoggers:
    """The loggers by name, as clients see and set them in configurations of type BROKER_LOGGER."""

    def __init__(self) -> None:
        self._server: Server | None = None
        self._request_log: RequestLog | None = None
        self.on_change: Callable[[], None] = lambda: None

    def tell(self, server: Server, of_changes: Callable[[], None]) -> None:
        """The requests of this server are told while a level asks for it; `of_changes` is called
        when a client has set a level."""
        self._server, self.on_change = server, of_changes
        self._follow_request_level()

    def levels(self) -> Mapping[str, str]:
        from moldau.broker.broker_log.logger_names import known_names

        names = {ROOT: level_name(logging.getLogger().level)}
        for name in sorted(set(known_names())):
            names[name] = level_name(logging.getLogger(name).getEffectiveLevel())
        return names

    def has(self, logger: str) -> bool:
        from moldau.broker.broker_log.logger_names import is_known

        return logger == ROOT or is_known(logger)

    def set_level(self, logger: str, level: str | None) -> None:
        from moldau.broker.broker_log.logger_names import own_name

        target = logging.getLogger(None if logger == ROOT else own_name(logger))
        target.setLevel(logging.NOTSET if level is None else LEVELS[level])
        self._follow_request_level()
        self.on_change()

    def _follow_request_level(self) -> None:
        if self._request_log is None:
            if self._server is None or not request_logger.isEnabledFor(logging.INFO):
                return
            from moldau.broker.broker_log.request_log import RequestLog

            self._request_log = RequestLog(self._server)
        self._request_log.follow_level()


class BrokerLog:
    """What a plan has become. Printed lines and files have a thread each: who does not read what
    is printed must not hold up the files."""

    def __init__(self, plan: LogPlan, wishes: LogWishes, stream: TextIO | None) -> None:
        self._plan = plan
        self._wishes = wishes
        self._layout = layout_of(None, wishes.is_json)
        self._printing = LineWriter("log-console")
        self._filing = LineWriter("log-files")
        self._console: Sink = StreamSink(stream, self._layout)
        self._locks: dict[Path, FolderLock] = {}
        self._folders: dict[Path, Path | None] = {}
        self._outlets: dict[str, Outlet] = {}
        self._rolled: dict[Path, RolledFiles] = {}
        self.remarks: list[str] = []
        """About folders that cannot be used."""

    def open(self) -> None:
        used = {name for logger in self._plan.loggers.values() for name in logger.appenders}
        for name in used:
            if (path := self._plan.appenders[name].path) is not None:
                self._own_folder(Path(path).parent)
        for name in used:
            self._outlets[name] = self._outlet(self._plan.appenders[name])
        limit = OneLimit(LINES_OF_A_KIND)
        for name, row in self._plan.loggers.items():
            logger = logging.getLogger(None if name == ROOT else name)
            if row.level is not None:
                logger.setLevel(LEVELS[row.level])
            logger.propagate = row.is_additive
            outlets = {self._outlets[each].sink: self._outlets[each] for each in row.appenders}
            logger.handlers[:] = [OutletHandler(list(outlets.values()), limit)] if outlets else []

    def flush(self, seconds: float = FLUSH_SECONDS) -> None:
        self._filing.flush(seconds)
        self._printing.flush(seconds)

    def close(self) -> None:
        """The last lines are written, unless a disk or a pipe does not take them."""
        self._filing.close(FLUSH_SECONDS)
        self._printing.close(FLUSH_SECONDS)
        for lock in self._locks.values():
            lock.release()

    def _outlet(self, row: Appender) -> Outlet:
        layout = layout_of(row.pattern, self._wishes.is_json) if row.pattern else self._layout
        threshold = LEVELS[row.threshold] if row.threshold else logging.NOTSET
        if row.path is not None:
            path = Path(row.path)
            folder = self._own_folder(path.parent)
            if folder is not None:
                sink = self._file(folder / path.name, layout, row.suffix)
                return Outlet(layout, threshold, self._filing, sink)
        return Outlet(layout, threshold, self._printing, self._console)

    def _own_folder(self, folder: Path) -> Path | None:
        """Where the files of that folder go: None if only standard output is left."""
        if folder not in self._folders:
            self._folders[folder] = self._locked(folder, folder / f"broker-{self._wishes.node_id}")
        return self._folders[folder]

    def _locked(self, folder: Path, second: Path) -> Path | None:
        for each in (folder, second):
            try:
                self._locks[each] = FolderLock(each)
            except BlockingIOError:
                self.remarks.append(f"Another process writes its log files to {each}")
            except OSError as fault:
                self.remarks.append(f"Log files cannot be written to {each}: {fault.strerror}")
                break
            else:
                if each == second:
                    self.remarks.append(f"Those of this broker go to {second}")
                elif self._wishes.console_file is not None:
                    self._bound_console(self._wishes.console_file)
                return each
        self.remarks.append("The log is only printed")
        return None

    def _bound_console(self, path: Path) -> None:
        """Standard output goes to that file: roll it as well, and have it go to the new one."""
        if path.parent in self._locks:
            self._console = self._file(path, self._layout, None, on_open=_print_to)

    def _file(
        self,
        path: Path,
        layout: logging.Formatter,
        suffix: str | None,
        on_open: Callable[[int], None] | None = None,
    ) -> Sink:
        from moldau.broker.broker_log.rolling_files import RolledFiles, RollingFile

        wishes = self._wishes
        before = self._rolled.get(path.parent)
        if before is None:
            before = RolledFiles(path.parent, wishes.files_max, wishes.bytes_max)
            self._rolled[path.parent] = before
        return RollingFile(
            path,
            before,
            self._alarm,
            lambda said: remark_line(layout, said),
            suffix=suffix,
            on_open=on_open,
        )

    def _alarm(self, sentence: str) -> None:
        """Printed, from the thread of the files."""
        self._printing.put(self._console, remark_line(self._layout, sentence, logging.ERROR))


def set_up_logging(
    stream: TextIO | None = None,
    environment: Mapping[str, str] = os.environ,
    plan: LogPlan | None = None,
    wishes: LogWishes | None = None,
) -> BrokerLog:
    """As `plan` says; without one everything is printed to `stream`, or to standard output."""
    plan = plan or plan_of_console()
    broker_log = BrokerLog(plan, wishes or LogWishes(), stream)
    broker_log.open()
    level = LEVELS.get(environment.get(LEVEL_VARIABLE, "").upper())
    if level is not None:
        logging.getLogger().setLevel(level)
    # A line that cannot be made must not end the broker.
    logging.raiseExceptions = False
    # Nobody reads these fields, and each costs a call per line.
    logging.logThreads = False
    logging.logProcesses = False
    logging.logMultiprocessing = False
    # The loop's own remarks are for its developers.
    logging.getLogger("asyncio").setLevel(logging.WARNING)
    for remark in (*plan.remarks, *broker_log.remarks):
        log.warning("%s", remark)
    return broker_log


def _print_to(descriptor: int) -> None:
    for standard in (1, 2):
        os.dup2(descriptor, standard)

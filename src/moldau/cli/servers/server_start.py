"""`moldau server-start`: reads the settings, then runs a broker until it is told to stop.

Takes what kafka-server-start.sh takes. Settings come from the file, then from the environment
(KAFKA_ADVERTISED_LISTENERS and the like, as Kafka's containers have them), then from --override.
"""

from __future__ import annotations

import contextlib
import gc
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from moldau.cli.command_faults import CommandFault
from moldau.cli.flags import Flag, Given
from moldau.cli.output import Output
from moldau.cli.servers.run_files import announce
from moldau.cli.tool import JSON, Tool, run_tool

if TYPE_CHECKING:
    from moldau.broker.broker import Broker
    from moldau.cli.servers.console_beside import Beside

GREETING = """
  Moldau is ready.
    bootstrap server   {address}
    data               {data}
    compiled kernels   {kernels}
{console}
  Try from another shell:
    echo 'hello, world' | {moldau} console-producer --bootstrap-server {address} --topic greetings
    {moldau} console-consumer --bootstrap-server {address} --topic greetings --from-beginning
    {moldau} topics --bootstrap-server {address} --list

  Ctrl-C stops the broker. Its log follows.
"""

WITHOUT_A_FILE = {"log.dirs": "data", "listeners": "PLAINTEXT://127.0.0.1:9092"}
CONSOLE_PORT = 8090
CONSOLE_FILE = "kafkaServer.out"
COLLECT_WHILE_STARTING = 200_000
"""Objects made before one collection. What a start makes is there to stay, and with Python's own
number it would be looked at a hundred times."""


class UsageFault(CommandFault):
    """The command line or the file cannot be used; says why in one sentence."""


class Options(NamedTuple):
    file: str | None
    overrides: Mapping[str, str]
    daemon: bool
    ignored: tuple[str, ...] = ()
    """Known from Kafka's script, without a meaning here, and why."""
    console: int | None = None
    """The port of a web console beside the broker."""


def run(arguments: Sequence[str]) -> int:
    return run_tool(TOOL, arguments)


def main(given: Given, out: Output) -> int:
    before = gc.get_threshold()
    gc.set_threshold(COLLECT_WHILE_STARTING)
    try:
        return serve(given, out)
    finally:
        gc.set_threshold(*before)


def serve(given: Given, out: Output) -> int:
    from moldau.config.broker_config import BrokerConfig
    from moldau.config.setting_definition import ConfigError

    options = parse(given.raw)
    try:
        config, remarks = BrokerConfig.parse(settings_of(options, os.environ))
    except ConfigError as fault:
        raise UsageFault(str(fault)) from None
    remarks += [f"accepted without effect: {each}" for each in options.ignored]
    if options.daemon and not detach(os.environ, answer=out if out.is_json else None):
        return 0
    tells = out.is_json and not options.daemon
    out.is_json = False
    if tells:
        out = beside_the_log()
    from moldau.broker.broker_log.log_search import LogPlaces
    from moldau.broker.process import run_broker

    # `make run` is meant for people too, wherever its output goes.
    greets = not options.daemon and (sys.stdout.isatty() or os.environ.get("MAKELEVEL"))
    greets = greets and not tells

    beside: list[Beside] = []

    def on_started(broker: Broker) -> None:
        if broker.config.node_id != config.node_id:
            tell_number(broker.config.node_id)
        if options.console is not None:
            beside.append(console_of(broker, options.console))
        if tells:
            tell_json(out, broker, *beside)
        if greets:
            greet(broker, *beside)
        elif beside:
            print(f"The console: {beside[0].told}", flush=True)

    places = LogPlaces(
        Path(options.file).parent if options.file is not None else None,
        log_folder(os.environ) / CONSOLE_FILE if options.daemon else None,
    )
    try:
        with announced(config.node_id):
            return run_broker(config, remarks, on_started, places)
    finally:
        for each in beside:
            each.end()


def parse(arguments: Sequence[str]) -> Options:
    words = list(arguments)
    file, overrides, daemon, console = None, {}, False, None
    ignored: list[str] = []
    while words:
        word = words.pop(0)
        if word in ("-daemon", "--daemon"):
            daemon = True
        elif word == "--console" or word.startswith("--console="):
            console = port_of(word)
        elif word == "-loggc":
            ignored.append("-loggc: there is no garbage collector with a log")
        elif word in ("--override", "-name"):
            if not words:
                raise UsageFault(f"{word} needs a value; see --help.")
            value = words.pop(0)
            if word == "--override":
                key, equals, text = value.partition("=")
                if not equals or not key.strip():
                    raise UsageFault(f"--override {value} must look like key=value.")
                overrides[key.strip()] = text
            else:
                ignored.append("-name: the process is called moldau")
        elif word.startswith("-"):
            raise UsageFault(f"there is no option {word}; see --help.")
        elif file is not None:
            raise UsageFault(f"one settings file is enough: {file} and {word} were given.")
        else:
            file = word
    return Options(file, overrides, daemon, tuple(ignored), console)


def port_of(word: str) -> int:
    text = word.partition("=")[2] or str(CONSOLE_PORT)
    if not text.isascii() or not text.isdigit() or int(text) > 65535:
        raise UsageFault(f"{word} must end with a port, from 0 to 65535.")
    return int(text)


def settings_of(options: Options, environment: Mapping[str, str]) -> dict[str, str]:
    from moldau.config.broker_config import BrokerConfig
    from moldau.config.java_options import java_settings
    from moldau.config.properties import (
        PropertiesError,
        parse_properties,
        properties_from_environment,
    )

    properties = {}
    if options.file is not None:
        try:
            properties = parse_properties(Path(options.file).read_text(encoding="utf-8"))
        except OSError as fault:
            raise UsageFault(f"cannot read {options.file}: {fault.strerror}.") from None
        except UnicodeDecodeError:
            raise UsageFault(f"cannot read {options.file}: it is not text in UTF-8.") from None
        except PropertiesError as fault:
            raise UsageFault(f"cannot read {options.file}: {fault}.") from None
    properties = {**java_settings(environment), **properties}
    properties |= properties_from_environment(environment, BrokerConfig.rows)
    properties |= options.overrides
    if options.file is None:
        if "log.dir" not in properties:
            properties.setdefault("log.dirs", WITHOUT_A_FILE["log.dirs"])
        if not {"port", "host.name"} & properties.keys():
            properties.setdefault("listeners", WITHOUT_A_FILE["listeners"])
    return properties


@contextlib.contextmanager
def announced(node_id: int) -> Iterator[None]:
    """While this broker runs, `server-stop` can find it."""
    path = None
    with contextlib.suppress(OSError):
        path = announce(node_id)
    try:
        yield
    finally:
        if path is not None:
            path.unlink(missing_ok=True)


def tell_number(node_id: int) -> None:
    """ZooKeeper has given this broker its number: `server-stop --node-id` can be told it."""
    with contextlib.suppress(OSError):
        announce(node_id)


def console_of(broker: Broker, port: int) -> Beside:
    from moldau.cli.servers.console_beside import start_beside

    folder = broker.config.kafka_logs_dir or os.environ.get("LOG_DIR", "")
    return start_beside(broker, folder, port)


def greet(broker: Broker, *beside: Beside) -> None:
    """For people: where the broker is and what to try first."""
    console = "".join(f"    console            {each.told}\n" for each in beside)
    address = broker.bootstrap
    print(GREETING.format(address=address, console=console, **facts(broker)), flush=True)


def beside_the_log() -> Output:
    """Where the one answer goes; whatever else is printed, as the log, goes to stderr then."""
    sys.stdout.flush()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return Output(answers)


def tell_json(out: Output, broker: Broker, *beside: Beside) -> None:
    out.json(
        {
            "nodeId": broker.config.node_id,
            "pid": os.getpid(),
            "bootstrapServer": broker.bootstrap,
            "logDirs": [os.path.abspath(folder) for folder in broker.config.log_dirs],
            "console": beside[0].told if beside else None,
        }
    )
    out.flush()


def facts(broker: Broker) -> dict[str, str]:
    from moldau.records import batch_kernel

    compiled = not str(batch_kernel.__file__).endswith(".py")
    return {
        "moldau": own_name(),
        "data": ", ".join(os.path.abspath(folder) for folder in broker.config.log_dirs),
        "kernels": "yes" if compiled else "no (slower; install a C compiler and build again)",
    }


def own_name() -> str:
    """How to call this command from the same folder: by its name alone if the shell finds it."""
    called = sys.argv[0]
    if os.path.basename(called) != "moldau" or shutil.which("moldau") == os.path.abspath(called):
        return "moldau"
    return called


def log_folder(environment: Mapping[str, str]) -> Path:
    return Path(environment.get("LOG_DIR") or "logs")


def detach(
    environment: Mapping[str, str], console_file: str = CONSOLE_FILE, answer: Output | None = None
) -> bool:
    """Go on in the background: False in the process that was called, True in the one that stays."""
    folder = log_folder(environment)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        console = os.open(folder / console_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    except OSError as fault:
        reason = fault.strerror
        raise UsageFault(f"cannot write {folder / console_file}: {reason}.") from None
    pid = os.fork()
    if pid:
        os.close(console)
        if answer is not None:
            answer.json({"pid": pid, "output": str((folder / console_file).absolute())})
        return False
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(console, 1)
    os.dup2(console, 2)
    os.close(nothing)
    os.close(console)
    return True


TOOL = Tool(
    name="server-start",
    does="Starts a broker: the server that stores records and that clients connect to. Without a"
    " file it listens on 127.0.0.1:9092 and keeps its data in ./data.",
    flags=(
        Flag(
            "--override",
            "A setting that wins over the file.",
            takes="KEY=VALUE",
            repeats=True,
        ),
        Flag(
            "-daemon --daemon",
            "Run in the background and return at once; log files and kafkaServer.out, what is"
            " printed, go to $LOG_DIR, or to ./logs.",
        ),
        Flag(
            "--console",
            "Show this broker in the browser too, on 127.0.0.1:8090 or on the port that is given"
            " as --console=PORT (0 takes any), as `moldau console` does; needs moldau[console].",
            takes="=PORT",
            bare=str(CONSOLE_PORT),
        ),
        Flag("-name", takes="NAME", hidden=True),
        Flag("-loggc", hidden=True),
        JSON._replace(
            help="Print one JSON document once the broker is up: its id, process and address. Its"
            " log goes to stderr then."
        ),
    ),
    main=main,
    own_words=True,
    words_usage="[server.properties]",
    needs_words=False,
    fault_opening="moldau server-start: ",
    notes="The file has the settings of Apache Kafka's server.properties, one key=value per line."
    " The environment comes after it (KAFKA_LOG_DIRS for log.dirs), then --override.\n"
    "The log is printed; with LOG_DIR or kafka.logs.dir set, server.log, controller.log and Kafka's"
    " other files are written there too. Its level is INFO; MOLDAU_LOG_LEVEL changes it to DEBUG,"
    " WARN or ERROR.\n"
    "Stop the broker with Ctrl-C, SIGTERM or `moldau server-stop`.",
    examples=(
        "moldau server-start",
        "moldau server-start config/server.properties --override num.partitions=6",
        "moldau server-start -daemon config/server.properties",
    ),
)

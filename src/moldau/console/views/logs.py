"""The broker's log files, where the operator has said in which directory they are."""

from __future__ import annotations

import asyncio

from moldau.console.machine.log_files import (
    LEVELS,
    UnknownFileError,
    log_files,
    read_part,
)
from moldau.console.machine.onlookers import check_onlooker
from moldau.console.page import Asked, PageFault, Shown
from moldau.console.rendering import path_word

FIND_MAX = 200


async def listed(asked: Asked) -> Shown:
    await check_onlooker(asked)
    directory = asked.settings.log_files
    if not directory:
        return {"directory": "", "files": [], "fault": ""}
    try:
        files = await asyncio.to_thread(log_files, directory)
    except OSError as fault:
        return {"directory": directory, "files": [], "fault": fault.strerror or str(fault)}
    return {"directory": directory, "files": files, "fault": ""}


async def one(asked: Asked) -> Shown:
    await check_onlooker(asked)
    name, directory = asked.path["file"], asked.settings.log_files
    find, level = asked.query.get("find", "")[:FIND_MAX], asked.query.get("level", "")
    before = asked.number("before", 0) or None
    try:
        if not directory:
            raise UnknownFileError(name)
        part = await asyncio.to_thread(
            read_part, directory, name, before=before, words=find, least=level
        )
    except UnknownFileError:
        raise PageFault(404, f"There is no log file {name[:100]}.") from None
    return {
        "name": name,
        "path": f"/logs/{path_word(name)}",
        "part": part._replace(entries=[]),
        "entries": part.entries[::-1],
        "find": find,
        "level": level,
        "levels": LEVELS,
        "is_newest": before is None,
    }

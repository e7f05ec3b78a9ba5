"""How long everything stood still while Python looked for garbage."""

from __future__ import annotations

import gc
import time


class GcPauses:
    def __init__(self) -> None:
        self._began = 0.0
        self._seconds = 0.0
        gc.callbacks.append(self._called)

    def seconds(self) -> float:
        return self._seconds

    def stop(self) -> None:
        if self._called in gc.callbacks:
            gc.callbacks.remove(self._called)

    def _called(self, phase: str, _: dict[str, int]) -> None:
        if phase == "start":
            self._began = time.perf_counter()
        else:
            self._seconds += time.perf_counter() - self._began

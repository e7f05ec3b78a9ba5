"""What ends a command before its work is done, as one sentence for people."""

from __future__ import annotations


class CommandFault(Exception):
    """The command cannot go on.

    The sentence goes where Kafka's tool would print it, after the tool's own opening (as "Error
    while executing topic command : ") unless it is not `prefixed`. `java` is Kafka's name for
    what went wrong, for those who search the output for it. `opening` is another one than the
    tool's. `told` is what Kafka's tool prints on
    stdout where that is another text than the sentence.
    """

    def __init__(
        self,
        sentence: str,
        *,
        code: int = 1,
        prefixed: bool = True,
        java: str = "",
        told: str = "",
        opening: str | None = None,
    ) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.code = code
        self.prefixed = prefixed
        self.java = java
        self.told = told
        self.opening = opening


class UsageFault(CommandFault):
    """The words on the command line make no sense together; the answer is in --help."""

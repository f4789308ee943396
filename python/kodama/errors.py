"""Errors, with the text that the command line prints."""

from __future__ import annotations


class Error(Exception):
    """What all errors of Kodama are."""


class UserError(Error, ValueError):
    """The input is wrong: the text says where, what was found and what is allowed.

    ``messages`` has the single errors where there are several, as in VSM text.
    """

    def __init__(self, text: str = "") -> None:
        super().__init__(text)
        self.messages: list[str] = [text]


class UnsupportedError(Error, NotImplementedError):
    """The input is right, but Kodama can't do it: the text says what to do instead."""


class InternalError(Error, RuntimeError):
    """A bug of Kodama's: the text names the part."""


class PassError(InternalError):
    """A pass of the user's broke its contract: the text names the pass and the rule.

    What the pass itself has raised, if it was that, is the ``__cause__``.
    """


class CancelledError(Error):
    """Work inside of other work that was told to end."""

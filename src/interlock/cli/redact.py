"""`interlock redact`: shows a text as the model, the log and the page would receive it."""

import codecs
import sys
from typing import TYPE_CHECKING, Annotated, cast

from cyclopts import Parameter

from interlock.cli.exit_codes import ExitCode
from interlock.cli.output import AsJson, print_json, print_table

if TYPE_CHECKING:
    from io import BufferedReader

    from interlock.redaction.redactor import Redactor

_PIECE = 64 * 1024


def redact(*, rules: Annotated[bool, Parameter(negative=())] = False, json: AsJson = False) -> int:
    """Copy stdin to stdout with every secret replaced by ***REDACTED***, as a stream.

    Parameters
    ----------
    rules
        List the active rules and what each one finds, instead of copying.
    """
    from interlock.config.settings import load_settings
    from interlock.redaction.factory import build_redactor, configured_rules

    settings = load_settings()
    chosen = configured_rules(settings) if rules else ()
    if rules and json:
        print_json([{"id": rule.id, "what": rule.what, "pattern": rule.pattern} for rule in chosen])
    elif rules:
        print_table(["rule", "finds"], [[rule.id, rule.what] for rule in chosen])
    else:
        _copy(build_redactor(settings))
    return ExitCode.ok


def _copy(redactor: "Redactor") -> None:
    """Write each part as soon as it is known to be safe. Bytes that are not UTF-8 pass unchanged."""
    source, target = cast("BufferedReader", sys.stdin.buffer), sys.stdout.buffer
    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    stream = redactor.stream()
    while data := source.read1(_PIECE):
        target.write(stream.feed(decoder.decode(data)).encode("utf-8", "surrogateescape"))
        target.flush()
    rest = stream.feed(decoder.decode(b"", final=True)) + stream.finish()
    target.write(rest.encode("utf-8", "surrogateescape"))
    target.flush()

"""The stored settings: what people change at run time, below the operator's ceiling.

Every version is kept. An update changes exactly the fields it names: a missing or null field is unchanged,
an emptied one returns to its default, and an unknown field is refused. A stored version that cannot be read
opens nothing: it is refused, and an update of it starts from everything switched off.
"""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
from pydantic import BaseModel, ConfigDict, ValidationError

from interlock.core.errors import InvalidStoredSettings
from interlock.core.text import sanitize_text, to_json_value
from interlock.core.validation_faults import describe_fault, key_path
from interlock.db.database import Database
from interlock.db.driver import DbConnection, Row
from interlock.log.hash_chain import EventHeader
from interlock.log.kinds import SYSTEM_STREAM, SettingsChanged
from interlock.log.projections import ProjectedRow, Projection
from interlock.log.writer import EventLog, Transaction
from interlock.policy.policy_fields import (
    CLOSED_POLICY,
    DEFAULT_POLICY,
    FIELDS,
    ToolPolicy,
    to_document,
)
from interlock.policy.verdict import PolicyLayer
from interlock.redaction.redactor import Redactor

NEWEST = "SELECT version, document FROM settings_versions ORDER BY version DESC LIMIT 1"

Document = dict[str, Any]
MAX_PATCH_BYTES = 65_536


class StoredSettings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    tools: ToolPolicy = DEFAULT_POLICY


# The base of an update where the stored settings cannot be read.
CLOSED_SETTINGS = StoredSettings(tools=CLOSED_POLICY)


@dataclass(frozen=True, slots=True)
class SettingsVersion:
    """Version 0 is the defaults. `document` is as stored, with fields unknown to this version."""

    version: int
    settings: StoredSettings
    document: Mapping[str, Any] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class SettingsFault:
    """One fault of a stored document. `path` names the field; if it is empty, the whole document."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class UnreadableSettings(InvalidStoredSettings):
    """A stored version cannot be read. `document` is the decoded JSON, or the text where it is not JSON."""

    def __init__(self, version: int, document: Any, faults: Sequence[SettingsFault]) -> None:
        self.version = version
        self.document = document
        self.faults = tuple(faults)
        self.summary = f"version {version} of the stored settings cannot be read: " + "; ".join(
            map(str, faults)
        )
        super().__init__(f"{self.summary}; see interlock settings show")


class SettingsStore:
    def __init__(self, database: Database, log: EventLog, redactor: Redactor) -> None:
        self._database = database
        self._events = log
        self._redactor = redactor
        self._known: tuple[Sequence[Row], SettingsVersion] | None = None

    async def current(self) -> SettingsVersion:
        """The newest version. Read before every turn, so it is parsed only when it changed."""
        return self.of(await self._database.fetch(NEWEST))

    def of(self, newest: Sequence[Row]) -> SettingsVersion:
        """For a caller that already read the newest row: its version and document, if there is one."""
        if self._known is None or self._known[0] != newest:
            self._known = (newest, _version(newest))
        return self._known[1]

    async def preview(self, patch: Mapping[str, Any]) -> StoredSettings:
        """What `update` would store, or why it would not; nothing is written."""
        safe = self._safe(patch)
        return await self._database.read(lambda db: _applied(_newest_or_closed(db)[0], safe))

    async def update(self, patch: Mapping[str, Any], *, who: str) -> SettingsVersion:
        """Apply a nested patch such as `{"tools": {"fs": {"enabled": false}}}`."""
        safe = self._safe(patch)
        author = self._redactor.text(sanitize_text(who))

        def work(transaction: Transaction) -> SettingsVersion:
            # Concurrent updates: the second waits here and builds on the first.
            transaction.next_seq()
            present, before = _newest_or_closed(transaction.connection)
            settings = _applied(present, safe)
            after = to_document(settings)
            changes = dict(_differences(before, after))
            if not changes:
                return present
            version, document = present.version + 1, _with_unknown(present.document, after)
            transaction.record(
                SettingsChanged(who=author, version=version, changes=changes, document=document)
            )
            return SettingsVersion(version, settings, document)

        return await self._events.transact(SYSTEM_STREAM, work)

    def _safe(self, patch: Mapping[str, Any]) -> Document:
        """A redacted patch, of bounded size."""
        safe = self._redactor.value(to_json_value(patch))
        if not isinstance(safe, dict):
            raise InvalidStoredSettings("a settings change must be an object")
        if len(orjson.dumps(safe)) > MAX_PATCH_BYTES:
            raise InvalidStoredSettings(f"a settings change can have at most {MAX_PATCH_BYTES} bytes")
        return safe


def _evolve(_row: ProjectedRow | None, event: SettingsChanged, header: EventHeader) -> ProjectedRow:
    return {
        "version": event.version,
        "document": orjson.dumps(event.document).decode(),
        "changed_by": event.who,
        "time_us": header.time_us,
    }


SETTINGS_VERSIONS = Projection(
    table="settings_versions",
    noun="settings version",
    key=("version",),
    columns=("document", "changed_by", "time_us"),
    kinds=(SettingsChanged,),
    rows_of=lambda event, _header: [{"version": event.version}],
    evolve=_evolve,
)


def patch_for(path: str, value: Any) -> Document:
    """The patch that sets one field, named with dots: `tools.fs.enabled`."""
    patch: Any = value
    for step in reversed(path.split(".")):
        patch = {step: patch}
    return dict(patch)


def field_paths(settings: BaseModel | None = None) -> list[str]:
    return [path for path, _ in flatten_document(to_document(settings or StoredSettings()))]


def read_newest_settings(connection: DbConnection) -> SettingsVersion:
    """The newest settings; `UnreadableSettings` if they cannot be read."""
    return _version(connection.query(NEWEST))


def _version(rows: Sequence[Row]) -> SettingsVersion:
    if not rows:
        return SettingsVersion(0, StoredSettings())
    version, text = rows[0]
    try:
        stored = orjson.loads(text)
    except orjson.JSONDecodeError:
        raise UnreadableSettings(version, text, [SettingsFault("", "it is not JSON")]) from None
    if not isinstance(stored, dict):
        raise UnreadableSettings(version, stored, [SettingsFault("", "it is not an object")])
    faults: list[SettingsFault] = []
    filled = _filled(stored, to_document(StoredSettings()), faults)
    try:
        settings = StoredSettings.model_validate(filled)
    except ValidationError as error:
        faults += _faults_of(error)
    if faults:
        raise UnreadableSettings(version, stored, faults)
    return SettingsVersion(version, settings, stored)


def _newest_or_closed(connection: DbConnection) -> tuple[SettingsVersion, Document]:
    """The base of an update, and its known fields, so that the event lists every new one."""
    try:
        present = read_newest_settings(connection)
    except UnreadableSettings as error:
        return SettingsVersion(error.version, CLOSED_SETTINGS), {}
    return present, to_document(present.settings)


def _applied(present: SettingsVersion, patch: Document) -> StoredSettings:
    return _validated(_patched(to_document(present.settings), patch, to_document(StoredSettings())))


def _filled(
    stored: Mapping[str, Any], defaults: Document, faults: list[SettingsFault], path: str = ""
) -> Document:
    """A stored document with its gaps filled; fields of another version of Interlock are ignored.

    A value where a group belongs is added to `faults`.
    """
    filled: Document = {}
    for name, default in defaults.items():
        value = stored.get(name)
        if isinstance(default, dict):
            if value is not None and not isinstance(value, dict):
                faults.append(
                    SettingsFault(f"{path}{name}", "this is a group of settings, not a single value")
                )
                value = None
            filled[name] = _filled(value or {}, default, faults, f"{path}{name}.")
        else:
            filled[name] = default if value is None else value
    return filled


def _with_unknown(stored: Mapping[str, Any], document: Document) -> Document:
    """The new document, with the fields that another version of Interlock had stored."""
    result = dict(document)
    for name, value in stored.items():
        if name not in document:
            result[name] = value
        elif isinstance(value, dict) and isinstance(document[name], dict):
            result[name] = _with_unknown(value, document[name])
    return result


def _patched(present: Document, patch: Mapping[str, Any], defaults: Document, path: str = "") -> Document:
    result = dict(present)
    for name, value in patch.items():
        where = f"{path}{name}"
        if name not in defaults:
            raise _unknown(where, [f"{path}{known}" for known in defaults])
        if value is None:
            continue
        default = defaults[name]
        if isinstance(default, dict):
            if not isinstance(value, Mapping):
                raise InvalidStoredSettings(f"{where}: this is a group of settings; give an object")
            result[name] = _patched(present[name], value, default, f"{where}.")
        elif not _may_be_stored(where):
            raise InvalidStoredSettings(f"{where}: the stored settings cannot set this")
        elif value == "":
            result[name] = default
        else:
            result[name] = value
    return result


def _may_be_stored(where: str) -> bool:
    field = FIELDS.get(where.removeprefix("tools."))
    return field is None or PolicyLayer.settings in field.declared.set_by


def _unknown(where: str, known: list[str]) -> InvalidStoredSettings:
    near = difflib.get_close_matches(where, known, n=1) or difflib.get_close_matches(
        where, field_paths(), n=1, cutoff=0.5
    )
    hint = f"; did you mean {near[0]}?" if near else f" (valid: {', '.join(known)})"
    return InvalidStoredSettings(f"{where}: there is no such setting{hint}")


def _validated(document: Document) -> StoredSettings:
    try:
        return StoredSettings.model_validate(document)
    except ValidationError as error:
        raise InvalidStoredSettings("; ".join(map(str, _faults_of(error)))) from None


def _faults_of(error: ValidationError) -> list[SettingsFault]:
    return [
        SettingsFault(key_path(fault["loc"]), describe_fault(fault) or fault["msg"])
        for fault in error.errors(include_url=False, include_input=False)
    ]


def flatten_document(document: Document, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every single field by its dotted name."""
    for name, value in document.items():
        if isinstance(value, dict):
            yield from flatten_document(value, f"{path}{name}.")
        else:
            yield f"{path}{name}", value


def _differences(before: Document, after: Document) -> Iterator[tuple[str, list[Any]]]:
    old = dict(flatten_document(before))
    for path, value in flatten_document(after):
        if value != old.get(path):
            yield path, [old.get(path), value]

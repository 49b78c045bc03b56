"""Ed25519 keys that sign checkpoints: kept as files in the state directory, or given by the operator.

A store has one signing key at a time, which the log names (`log.signing_key`). A process signs only with
that key, and only a log that still has the last checkpoint that it signed: its anchor is kept beside the
keys. Who can read the key can sign a rewritten log: docs/security.md says how to keep it elsewhere.
"""

import os
import re
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from interlock.core.errors import ConfigurationError, InterlockError, UserError
from interlock.core.files import fsync_path, write_durably
from interlock.core.logging import StructuredLogger

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_log = StructuredLogger(__name__)

PUBLIC_KEY_HEX = 64
SIGNATURE_HEX = 128
LAST_ANCHOR = "last-anchor"


class SigningKeyMissing(InterlockError):
    """The log names a signing key that this process does not have."""

    code = "SIGNING_KEY_MISSING"


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A private key; `public` is its public half in hexadecimal."""

    public: str
    _private: "Ed25519PrivateKey" = field(repr=False)

    def sign(self, text: str) -> str:
        return self._private.sign(text.encode()).hex()


def is_signed_by(public: str, signature: str, text: str) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(public)).verify(
            bytes.fromhex(signature), text.encode()
        )
    except (InvalidSignature, ValueError):
        return False
    return True


class SigningKeyStore:
    """The signing keys of this process: `given` by the operator, or files in `folder`.

    A file is named by its public key, so that after a crash during a rotation the log still decides which
    one is the present key.
    """

    def __init__(self, folder: Path, given: str | None = None) -> None:
        self._folder = folder
        self._given = None if given is None else _parse(given, "EVENT_SIGNING_KEY")
        self._loaded: dict[str, SigningKey] = {}

    def load(self) -> str:
        """Read the keys and the last anchor, which is returned: a transaction should not wait for files."""
        self._loaded = {}
        for public in self._names():
            with suppress(InterlockError):
                self._loaded[public] = self.get(public)
        return self.last_anchor()

    def get(self, public: str) -> SigningKey:
        """The key with this public half. Raises `SigningKeyMissing`."""
        if self._given is not None and self._given.public == public:
            return self._given
        if (loaded := self._loaded.get(public)) is not None:
            return loaded
        path = self._path(public)
        try:
            key = _parse(path.read_text(), str(path))
        except OSError as error:
            raise SigningKeyMissing(
                f"the signing key of this store ({public[:12]}…) is not here: {path}: "
                f"{error.strerror}; if it is lost: interlock events rotate-key --lost"
            ) from None
        if key.public != public:
            raise ConfigurationError(f"{path} contains another key than its name says")
        return key

    def first(self) -> SigningKey:
        """The key that a store without one begins with: the given one, an unused file, or a new one."""
        if self._given is not None:
            return self._given
        for public in self._names():
            try:
                return self.get(public)
            except InterlockError as error:
                _log.warning("signing_key_skipped", error=str(error))
        return self.create()

    def next(self, present: str | None, file: Path | None, *, is_lost: bool) -> SigningKey:
        """The key to replace the `present` one with: of `file`, the given one, or a new one.

        Refuses before a key is made that nothing would use, or that this process could not sign with.
        """
        if present is None:
            raise UserError("this store has no signing key yet; `interlock events anchor` makes the first")
        given = self._given
        if not is_lost:
            self.get(present)
        if file is not None:
            new = read_signing_key(file)
            if (given is None or given.public != new.public) and self._path(present).exists():
                # The file of the old key is removed, so nothing could be signed any more.
                raise UserError(
                    f"set EVENT_SIGNING_KEY_FILE to {file} first, then run this command without --to"
                )
            return new
        if given is None:
            return self.create()
        if given.public == present:
            raise UserError("EVENT_SIGNING_KEY is the present key; give the new one with --to FILE")
        return given

    def create(self) -> SigningKey:
        """Make a new key; its file is on disk when this returns."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import (
            Encoding,
            NoEncryption,
            PrivateFormat,
        )

        private = Ed25519PrivateKey.generate()
        key = SigningKey(_public_half(private), private)
        text = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        try:
            self._write(self._path(key.public), text)
        except OSError as error:
            raise ConfigurationError(
                f"{self._folder}: no signing key can be made: {error.strerror}"
            ) from None
        return key

    def warnings(self, present: str | None) -> list[str]:
        """What is wrong with the folder: others who can read it, keys that the log does not use."""
        found = []
        names = self._names()
        for path in (self._folder, *map(self._path, names)) if names else ():
            status = path.stat()
            if status.st_mode & 0o077 or status.st_uid != os.geteuid():
                found.append(f"{path} belongs to another account, or others can read it: chmod go= {path}")
        found += [
            f"{self._path(name)} is a key that signs nothing: remove it"
            for name in names
            if present is not None and name != present
        ]
        return found

    def last_anchor(self) -> str:
        """The anchor that this machine signed last; empty if it signed none."""
        try:
            return (self._folder / LAST_ANCHOR).read_text(errors="replace")
        except FileNotFoundError:
            return ""
        except OSError as error:
            raise ConfigurationError(f"{self._folder / LAST_ANCHOR}: {error.strerror}") from None

    def keep_last_anchor(self, anchor: str) -> None:
        """Called once its checkpoint is on disk; after a crash in between, the one before still holds."""
        try:
            self._write(self._folder / LAST_ANCHOR, f"{anchor}\n".encode())
        except OSError as error:
            _log.warning("last_anchor_not_kept", folder=str(self._folder), error=str(error))

    def _write(self, path: Path, data: bytes) -> None:
        """The file appears whole or not at all, and is on disk when this returns."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_durably(path, [data], replace=True)
        fsync_path(self._folder.parent)

    def remove(self, public: str) -> None:
        """Remove the file of a replaced key: nothing needs to be signed with it any more."""
        self._loaded.pop(public, None)
        self._path(public).unlink(missing_ok=True)

    def _names(self) -> list[str]:
        """The public halves of the keys in the folder, by the names of their files; others do not count."""
        names = sorted(path.stem for path in self._folder.glob("*.pem"))
        return [name for name in names if re.fullmatch(rf"[0-9a-f]{{{PUBLIC_KEY_HEX}}}", name)]

    def _path(self, public: str) -> Path:
        return self._folder / f"{public}.pem"


def read_signing_key(file: Path) -> SigningKey:
    try:
        return _parse(file.read_text(), str(file))
    except OSError as error:
        raise UserError(f"{file} cannot be read: {error.strerror}") from None


def _parse(text: str, origin: str) -> SigningKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        private = load_pem_private_key(text.strip().encode() + b"\n", password=None)
    except (ValueError, TypeError):
        private = None
    if not isinstance(private, Ed25519PrivateKey):
        raise ConfigurationError(
            f"{origin} is not an Ed25519 private key in PEM; make one: openssl genpkey -algorithm ed25519"
        )
    return SigningKey(_public_half(private), private)


def _public_half(private: "Ed25519PrivateKey") -> str:
    return private.public_key().public_bytes_raw().hex()

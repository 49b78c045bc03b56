"""Ed25519 keys that sign checkpoints: kept as files in the state directory, or given by the operator.

A store has one signing key at a time, which the log names (`log.signing_key`). A process signs only with
that key. Whoever can read the key can sign a rewritten log: docs/security.md says how to keep it elsewhere.
"""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from interlock.core.errors import ConfigurationError, InterlockError, UserError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

PUBLIC_KEY_HEX = 64
SIGNATURE_HEX = 128


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

    def get(self, public: str) -> SigningKey:
        """The key with this public half. Raises `SigningKeyMissing`."""
        if self._given is not None and self._given.public == public:
            return self._given
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
        for path in sorted(self._folder.glob("*.pem")):
            return self.get(path.stem)
        return self.create()

    def next(self, present: str | None, file: Path | None) -> SigningKey:
        """The key to replace the `present` one with: of `file`, the given one, or a new one."""
        if file is not None:
            return read_signing_key(file)
        if self._given is None:
            return self.create()
        if self._given.public == present:
            raise UserError("EVENT_SIGNING_KEY is the present key; give the new one with --to FILE")
        return self._given

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
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
            with os.fdopen(os.open(self._path(key.public), flags, 0o600), "wb") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            _sync(self._folder)
        except OSError as error:
            raise ConfigurationError(
                f"{self._folder}: no signing key can be made: {error.strerror}"
            ) from None
        return key

    def remove(self, public: str) -> None:
        """Remove the file of a replaced key: nothing needs to be signed with it any more."""
        self._path(public).unlink(missing_ok=True)

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


def _sync(folder: Path) -> None:
    for each in (folder, folder.parent):
        descriptor = os.open(each, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

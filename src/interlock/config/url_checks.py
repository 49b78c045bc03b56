"""Checks the URLs of services, and says what is wrong with one."""

import ipaddress
from urllib.parse import SplitResult, urlsplit

from pydantic import SecretStr

_PORTS = {"http": 80, "https": 443}


def reject_unsafe_url(address: str | None, variable: str, *, plain_http: str) -> None:
    """Refuse a URL that would send a key and a prompt unencrypted beyond this machine.

    `plain_http` is the variable that allows it, or empty where it is allowed already. The error does not
    repeat the address: it may contain a password.
    """
    fault = _fault(address, plain_http) if address is not None else None
    if fault is not None:
        raise ValueError(f"{variable}: {fault}")


def reject_invalid_api_key(key: SecretStr | None, variable: str) -> None:
    """Refuse a key that does not fit a header, in which a line end would begin another one."""
    text = key.get_secret_value() if key is not None else ""
    if not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError(
            f"{variable}: contains a character that is not allowed in a key (a "
            "space, a line end, or a non-ASCII character)"
        )


def _fault(address: str, plain_http: str) -> str | None:
    parts = split_url(address)
    if parts is None or not parts.hostname or not address.isprintable() or " " in address:
        return "is not a valid URL; write https://HOST/v1"
    if parts.scheme not in _PORTS:
        return f"'{parts.scheme}' is not supported; use https"
    if parts.username is not None or parts.password is not None:
        return "contains a user name or a password; set the key in its own variable"
    if parts.query or parts.fragment or "?" in address or "#" in address:
        return "contains ? or #; remove that part"
    if parts.scheme == "http" and plain_http and not is_loopback(parts.hostname):
        return f"plain http exposes the key on the network; use https, or set {plain_http}=true"
    return None


def is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def url_origin(address: str) -> tuple[str, str, int] | None:
    """Scheme, host and port: two URLs with the same origin are one server. None for an invalid URL."""
    parts = split_url(address)
    if parts is None or not parts.hostname or parts.scheme not in _PORTS:
        return None
    return parts.scheme, parts.hostname.rstrip("."), parts.port or _PORTS[parts.scheme]


def split_url(address: str) -> SplitResult | None:
    try:
        parts = urlsplit(address)
        _ = parts.port
    except ValueError:
        return None
    return parts

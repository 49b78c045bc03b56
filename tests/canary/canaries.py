"""Secrets of many kinds, made anew for each run, so that whatever survives somewhere came from here."""

import base64
import json
import secrets
import string
from collections.abc import Iterator
from dataclasses import dataclass

_CLASSES = (string.ascii_lowercase, string.ascii_uppercase, string.digits)


@dataclass(frozen=True)
class Canary:
    """`secret` must not survive. `text` is how it stands in a file, with what makes it known as one.

    One that `stands_alone` is recognised wherever it is, without anything beside it.
    """

    kind: str
    secret: str
    text: str
    stands_alone: bool = False

    @property
    def is_one_line(self) -> bool:
        return "\n" not in self.text


def mixed(length: int, more: str = "") -> str:
    """Letters of both cases and digits in turn: no rule has to guess whether that is a word."""
    classes = (*_CLASSES, more) if more else _CLASSES
    return "".join(secrets.choice(classes[place % len(classes)]) for place in range(length))


def _upper(length: int) -> str:
    letters = (string.ascii_uppercase, "234567")
    return "".join(secrets.choice(letters[place % 2]) for place in range(length))


def _digits(length: int) -> str:
    return f"{secrets.randbelow(10**length):0{length}d}"


class Canaries:
    """The process holds those in `environment`; the others are known by what they look like."""

    def __init__(self, *, has_database_password: bool = True) -> None:
        self.environment = {
            "OPENAI_API_KEY": f"opk.{mixed(30)}",
            "IMAGE_API_KEY": f"img.{mixed(30)}",
            "DEPLOY_TOKEN": mixed(26),
            # As a path it has several parts, and another form once it is resolved.
            "SIGNING_SECRET": f"{mixed(11)}/{mixed(11)}//{mixed(11)}+/{mixed(11)}",
            # Every sign of it is written otherwise in JSON, in a URL or in HTML.
            "VAULT_PASSWORD": f'{mixed(9)}"\\/+ö&{mixed(9)}',
        }
        self.database_password = f"{mixed(10)}/@{mixed(9)}"
        held = dict(self.environment)
        if has_database_password:
            held["DATABASE_URL"] = self.database_password
        self.known = [Canary(name, value, value, stands_alone=True) for name, value in held.items()]
        self.recognised = [*_vendor_keys(), *_named(), *_blocks()]

    def __iter__(self) -> Iterator[Canary]:
        yield from self.known
        yield from self.recognised

    @property
    def alone(self) -> list[Canary]:
        """Those that can be planted anywhere: as a name, as a word, inside a sentence."""
        return [canary for canary in self if canary.stands_alone]

    @property
    def text(self) -> str:
        """One file with all of them, a few ordinary lines apart."""
        return "".join(f"# {canary.kind}\n{canary.text}\nordinary words between\n\n" for canary in self)

    def __getitem__(self, kind: str) -> Canary:
        return next(canary for canary in self if canary.kind == kind)


def _vendor_keys() -> Iterator[Canary]:
    keys = {
        "an AWS key": f"AKIA{_upper(16)}",
        "a GitHub token": f"ghp_{mixed(36)}",
        "a fine-grained GitHub token": f"github_pat_{mixed(22)}_{mixed(59)}",
        "a GitLab token": f"glpat-{mixed(20)}",
        "an OpenAI key": f"sk-proj-{mixed(48)}",
        "an Anthropic key": f"sk-ant-api03-{mixed(93)}AA",
        "a Slack token": f"xoxb-{_digits(12)}-{_digits(12)}-{mixed(24)}",
        "a Stripe key": f"sk_live_{mixed(24)}",
        "a Google key": f"AIza{mixed(35)}",
        "an npm token": f"npm_{mixed(36)}",
        "a SendGrid key": f"SG.{mixed(22)}.{mixed(43)}",
        "a JSON web token": _web_token(),
    }
    for kind, key in keys.items():
        yield Canary(kind, key, f"seen: {key}", stands_alone=True)


def _named() -> Iterator[Canary]:
    """What only its name, or what stands before it, makes a secret."""
    shapes = {
        "a password in .env": "DB_PASSWORD={}",
        "an exported token": "export CI_TOKEN='{}'",
        "a password in JSON": '{{"user": "ada", "password": "{}"}}',
        "a password in YAML": "database:\n  user: ada\n  password: {}\n",
        "a key in TOML": '[service]\napi_key = "{}"',
        "a password in a URL": "postgresql://ada:{}@db.example.test:5432/app",
        "a bearer header": "Authorization: Bearer {}",
        "a password on a command line": "mysql --user=ada --password={} app",
        "a connection string": "Server=db;Database=app;User Id=sa;Password={};",
        "a password in SQL": "CREATE USER ada WITH PASSWORD '{}';",
        "a secret in a query": "https://api.example.test/v1?client_secret={}&page=2",
    }
    for kind, shape in shapes.items():
        secret = mixed(24)
        yield Canary(kind, secret, shape.format(secret))
    password = mixed(24)
    basic = base64.b64encode(f"ada:{password}".encode()).decode()
    yield Canary("a basic header", password, f"Authorization: Basic {basic}")


def _blocks() -> Iterator[Canary]:
    """What has lines of its own, none of which tells what it is."""
    for kind in ("PRIVATE KEY", "RSA PRIVATE KEY", "OPENSSH PRIVATE KEY"):
        body = base64.encodebytes(secrets.token_bytes(900)).decode().strip()
        yield Canary(f"a PEM block: {kind}", body, f"-----BEGIN {kind}-----\n{body}\n-----END {kind}-----")
    key = base64.b64encode(secrets.token_bytes(500)).decode()
    account = {
        "type": "service_account",
        "private_key": f"-----BEGIN PRIVATE KEY-----\n{key}\n-----END PRIVATE KEY-----\n",
    }
    yield Canary("a key of a service account", key, json.dumps(account))
    password = mixed(24)
    manifest = (
        "apiVersion: v1\nkind: Secret\nmetadata:\n  name: app\ntype: Opaque\ndata:\n"
        f"  password: {base64.b64encode(password.encode()).decode()}\n"
    )
    yield Canary("a Kubernetes secret", password, manifest)


def _web_token() -> str:
    parts = [{"alg": "HS256", "typ": "JWT"}, {"sub": mixed(10), "iat": secrets.randbelow(10**9)}]
    encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    return ".".join([*encoded, mixed(43)])

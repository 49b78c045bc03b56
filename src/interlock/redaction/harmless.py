"""What stands where a secret would and is none: placeholders, labels, paths, code, harmless names."""

import re

# What stands in place of a secret.
MARK = "***REDACTED***"
_MARK = MARK.encode()

# References, templates, names of types, words of a form.
PLACEHOLDER = re.compile(
    rb"""
    [\s.\-_*x#?0=:/+\\]* | (.)\1{3,}
    | \$\w+ | \$[{(].* | %[sd] | %\(?\{?\w+[)}%]?s? | \{\{?[^{}]*\}?\}? | <[^>]*>? | @[\w.]+@ | \#\{.*
    | [\[*]*redacted[\]*]*
    | (?:env|file|vault|ref|secret|ssm|op|keyring|exec|sops|arn):[\w./:@\-]*
    | (?:os|process|env|import\.meta|system|config|settings|self|this|request|args|ctx|var|local|data
        |module|secrets|params|props|options|opts|vars|inputs|github|deno)(?:\.\w+)+(?:[(\[].*)?
    | (?:your|my|the|some|any|an?|enter|insert|add|put|use|new|old|current|change|replace|example|sample
        |dummy|fake|test|demo|default|no|not|is|in|for|with|confirm|forgot|invalid|wrong|missing|bad|reset
        |repeat|choose)
      (?:[\s_\-][a-z\s_\-]*|password|secret|token|key|pass|pw|me|this|here)
    | change[\s_\-]?(?:me|it|this) | place[\s_\-]?holder | to[\s_\-]?do | t\.?b\.?d\.? | fix[\s_\-]?me
    | null | nil | none | undefined | nan | void | true | false | yes | no | on | off | ok | error | empty
    | unset | unknown | required | optional | disabled | enabled | auto | inherit | same-origin | omit
    | include | default | hidden | visible
    | str | string | text | int | integer | number | bool | boolean | bytes | char | varchar | object
    | array | any | type | secretstr | optional\[.* | union\[.* | list\[.* | dict\[.* | function | lambda
    | async | await | new | return
    | (?:x-)?
      (?:api|auth|access|private|csrf|xsrf|secret|refresh|id|user|db|app|client|session|service)?[\s_.\-]*
      (?:pass(?:word|wd|phrase|code|wort)?|passwords|pwd|secrets?|tokens?|keys?|auth|authorization
        |credentials?|bearer|basic|api|login)
      [\s_.\-]*(?:key|token|secret|name|field|header|value|id|hash|type|file|path|here|\d{0,2})?
    | (?:user|e-?mail|first|last|full|host|file|display)?[\s_-]?name
    | oauth2? | oidc | saml | ldap | jwt | digest | mtls | hmac | apikey | bearer | basic | cookie
    | negotiate
    """,
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)
LABEL_WORDS = re.compile(
    rb"\b(?:the|your|a|an|is|are|must|of|to|be|for|and|or|not|with|enter|please|at|least|in|on|this|that|it"
    rb"|has|was|from|by|my)\b",
    re.IGNORECASE,
)
TEMPLATE = re.compile(rb"(?:[A-Za-z]+ )?[$#]?\{.*\}")
# A quote that closed a text was taken for one that opens it.
CODE = re.compile(rb"\s|[,)\];}]|\+ |\.\w+\(")
DOTTED = re.compile(rb"[0-9]+(?:[.:/_-][0-9]+)+|0x[0-9a-fA-F]{1,8}|#[0-9a-fA-F]{3,8}")
REGEX = re.compile(rb"[\[(^\\].*(?:[\])][+*?]?|[+*?$]|\\[a-zA-Z])[*+?$)]*")
WORDS = re.compile(rb"[A-Za-z]+(?:[ .:_-][A-Za-z]+)*[.:!?]*")
MESSAGE_KEY = re.compile(
    rb"pass|token|label|title|field|placeholder|error|message|form|login|hint|text|user|input|auth|secret|invalid|required"
    rb"|email|forgot|reset|[:!?]$|^[a-z]+(?:\.[a-zA-Z_]+)+$",
    re.IGNORECASE,
)
PATH = re.compile(
    rb"(?:~|\.{1,2}|[A-Za-z]:)?[/\\][\w.\-/\\ ~]*"
    rb"|[\w\-]+\.(?:pem|key|crt|txt|json|ya?ml|env|p12|pfx|pub|conf)"
)
NAME = re.compile(rb"[A-Za-z_][A-Za-z_]*(?:(?:\.|::|->|-)[A-Za-z_]+)*")
CONSTANT = re.compile(rb"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+")
IDENTIFIER = re.compile(rb"[A-Za-z_$][\w$]*(?:(?:\.|::|->)[A-Za-z_$][\w$]*)+")
SWITCHED_OFF = re.compile(rb"-(?:no|without|skip|disable)-[\w-]*[ \t=]+[\"'`]?$")
UUID = re.compile(rb"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
PASSWORD_NAME = re.compile(
    rb"(?:pass(?:word|wd|phrase|code|wort)?|pwd|\bpw|secret)\W*\w{0,12}\W*$", re.IGNORECASE
)
ENV_NAME = re.compile(rb"(?:^|[\s'\"$;-])[A-Z][A-Z0-9_]{2,}[\"']?\]?=$")
IN_QUERY = re.compile(rb"[?&;][\w.\-]{0,64}=$")
SAFE_NAME = re.compile(
    rb"""
    (?: (?:next|page|paging|start|starting|continuation|change|lock|sync|cursor|client[_-]?request
          |pagination|resume)[_.\- ]?token
      | (?:public|pub|primary|foreign|cache|sort|partition|idempotency|routing|row|object|s3|index|unique
          |translation|i18n|lookup|hash|dedup\w*|group|shard|range|publishable|host|known|any|press|hot|short
          |arrow|shift|function|ctrl|alt|escape|map|dict|json|yaml|config|query|natural|surrogate|candidate
          |composite|business|message|event|cluster|order|registry|blob|file|storage|bucket|data|field
          |column|id|label|tag|metric|feature|site|kms)[_.\- ]?key
    )\W*$
    | \barn:[\w:*/-]*$
    """,
    re.IGNORECASE | re.VERBOSE,
)


def is_placeholder(value: bytes) -> bool:
    """What has a mark in it has been dealt with; a text that is redacted twice stays as it is."""
    return PLACEHOLDER.fullmatch(value[:256].rstrip(b":")) is not None or _MARK in value


def has_safe_name(context: bytes) -> bool:
    """Whether what stands before a value ends with a name that only sounds like a secret's."""
    return SAFE_NAME.search(context.rstrip(b"\"'`:= \t>")) is not None

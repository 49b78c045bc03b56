"""Recognises what is no secret in a secret's place: placeholders, labels, paths, code, harmless names."""

from interlock.redaction.re2_engine import compile_pattern

# Replaces a secret.
MARK = "***REDACTED***"
_MARK = MARK.encode()
# The mark without stars, which a heading's pattern may have taken.
REST_OF_A_MARK = _MARK.strip(b"*")
# So much beside a mark is punctuation; more could be a secret with a mark in it.
_BESIDE_A_MARK = 3
SCHEME = compile_pattern(r"(?i:bearer|basic|token|api-?key|digest|negotiate)\x20+")
AFTER_SCHEME = compile_pattern(r"(?i:bearer|basic|token|api-?key)[\x20\t]+$")

# References, templates, names of types, words of a form.
PLACEHOLDER = compile_pattern(
    r"""(?is:
    (?:[\s.\-_*x#?0=:/+\\]|•|●|·|…)*
    | [/:@\s]{0,3}\$(?:(?:env|script|global|local|using):)?\w+(?:[:/@,\s]\$\w+)*
    | \$[{(].* | (?:%[sd][\s:/@.\-]?)+
    | %env\(.*\)% | %\(?\{?\w+[)}%]?s? | \{\{?[^{}]*\}?\}? | <[^>]*>? | @[\w.]+@ | \#\{.*
    | [\[*]*redacted[\]*]*
    | !(?:env|secret|vault|ref|sub|getatt|importvalue|join|select|findinmap|include|reference|unsafe)
      (?:[._][a-z]+)*
    | (?:env|file|vault|ref|secret|secretsmanager|ssm|op|keyring|exec|sops|arn):[\w./:@\-]*
    | (?:os|process|env|import\.meta|system|config|settings|self|this|request|args|ctx|var|local|data
        |module|secrets|params|props|options|opts|vars|inputs|github|deno)(?:\.\w+)+(?:[(\[].*)?
    | my[\s_\-][a-z\s_\-]*
    | [:@]?(?:your|the|some|any|an?|enter|insert|add|put|use|new|old|current|change|replace|example
        |sample|dummy|fake|test|demo|default|no|not|is|in|for|with|confirm|forgot|invalid|wrong|missing|bad|reset
        |repeat|choose)
      (?:[\s_\-][a-z\s_\-]*|password|secret|token|key|pass|pw|me|this|here)
    | change[\s_\-]?(?:me|it|this) | place[\s_\-]?holder | to[\s_\-]?do | t\.?b\.?d\.? | fix[\s_\-]?me
    | [\w\-]{0,12}(?:\.{3,}|…) | (?:[a-z0-9]{1,8}[_\-])+x{3,}
    | null | nil | none | undefined | nan | void | true | false | yes | no | on | off | ok | error | empty
    | on/off | yes/no | true/false | pass(?:ed)? | fail(?:ed)? | skip(?:ped)? | [a-z]{1,5}[_\-]
    | unset | unknown | required | optional | disabled | enabled | auto | inherit | same-origin | omit
    | include | default | hidden | visible
    | str | string | text | int | integer | number | bool | boolean | bytes | char | varchar | object
    | array | any | type | secretstr | optional\[.* | union\[.* | list\[.* | dict\[.* | function | lambda
    | async | await | new | return | incomplete
    | [:@]?(?:x-)?
      (?:api|auth|access|private|csrf|xsrf|secret|refresh|id|user|db|app|client|session|service)?[\s_.\-]*
      (?:pass(?:word|wd|phrase|code|wort)?|passwords|pwd|secrets?|tokens?|keys?|auth|authorization
        |credentials?|bearer|basic|api|login)
      [\s_.\-]*(?:key|token|secret|name|field|header|value|id|hash|type|file|path|here|\d{0,2})?
    | (?:user|e-?mail|first|last|full|host|file|display)?[\s_-]?name
    | x?oauth2? | oauthbearer | oidc | saml | ldap | jwt | digest | mtls | hmac | apikey | bearer | basic
    | cookie | negotiate | plain | anonymous | external | gssapi | ntlm | (?:cram|digest)-md5
    | scram-sha-[0-9]{1,3}(?:-plus)?
    | (?:aes|sha|rsa|hmac|ecdsa|ecdh|chacha|pbkdf|argon|ed|md|sm|[rehp]s)[\-_]?[0-9]{1,5}
      (?:[\-_/](?:gcm|cbc|ctr|ecb|ccm|poly1305|oaep|pkcs[0-9]|pss|hmac|sha|kw|[0-9]{2,4}))*
    | \$[0-9][0-9.,]*(?:/\w+)?\.?
    )"""
)
# Words of programs, settings files and forms about a secret.
STATUS = frozenset(
    b"""
    read write always never prompt maybe set valid invalid incorrect mismatch wrong bad weak strong hash
    plain plaintext authentication header query value values accepted added allowed blocked cached changed
    cleared configured created decoded decrypted deleted denied deprecated encoded encrypted expired
    generated hashed ignored invalidated issued leaked locked managed masked matched needed notused
    obfuscated omitted protected provided received redacted refreshed refused rejected removed required
    revoked rotated salted sanitized saved shared signed specified stored supplied unchanged unlocked
    unused updated used validated verified files compat db nis sss systemd passwort kennwort wachtwoord
    senha parola hemmelighed other
    """.split()
)
# Names of variables in programs, and parts of a form.
NOT_A_VALUE = frozenset(
    b"""
    unexpected expected actual candidate latest result results data config settings options arg args
    line input output label title field error message form hint email e-mail forgot reset hover focus
    active
    """.split()
)
LABEL_WORDS = compile_pattern(
    r"""(?i:\b(?:the|your|a|an|is|are|must|of|to|be|for|and|or|not|with|enter|please|at|least|in|on|this|that
    |it|has|was|from|by|my)\b)"""
)
# Words of a line without quotes about a secret.
SENTENCE_WORDS = compile_pattern(
    r"""(?i:\b(?:too|use|used|no|will|can|should|when|if|you|characters?|minimum|maximum|length|string|text
    |required|optional|user|password|token|secret|key|successfully|only|failed|see|ask|same|as|stored|via)\b)"""
)
# Words of a form in other languages; without letters or digits of ASCII.
FOREIGN_LABEL = compile_pattern(
    r"""(?s:[^A-Za-z0-9]*
    (?:密码|密碼|口令|令牌|密钥|密鑰|凭据|凭证|请|請|通过|失败|成功|错误|无效|必填|必须|不能为空|パスワード|トークン
    |入力|비밀번호|암호|토큰|пароль|Пароль|токен|Токен|ключ|Ключ)
    [^A-Za-z0-9]*)"""
)
TEMPLATE = compile_pattern(
    r"""(?s:(?:[A-Za-z]+\x20)?(?:[$#]?\{.*\}|\$[A-Za-z_]+|%[sdr]|<.*>))
    | [A-Za-z_.:/\-]*[$#]?\{[A-Za-z_][^{}"'\s]*\}[A-Za-z_.:/\-]*"""
)
# A closing quote was taken for an opening one.
CODE = compile_pattern(r"^(?:\s|[,)\];}]|\+\x20|['\"]?\x20[.+]\x20|\.\w+\()")
DOTTED = compile_pattern(
    r"""[0-9]+(?:[.:/_-][0-9]+)+ | 0x[0-9a-fA-F]{1,8}[uUlL]{0,3} | [0-9]?\*[a-z_]{2,24} | \#[0-9a-fA-F]{3,8}
    | [v^~<>=]{1,2}[0-9]+(?:\.[0-9x*]+)+(?:-[a-z0-9.]+)?
    | [0-9]{4}-[0-9]{2}-[0-9]{2}[T0-9:.+Z\-]*
    | [0-9]{1,6}(?:ms|[smhd]|[kmg]?b|px|r?em|%)"""
)
# Words with a number here and there, as programs name things: `cache_write_5m`, `sk_X509_NODE`.
NUMBERED_WORDS = compile_pattern(
    r"""_{0,2}[A-Za-z]+[0-9]{0,4}(?:[A-Z][0-9])?
    (?:[_\-./:]+(?:[A-Za-z]+[0-9]{0,4}(?:[A-Z][0-9])?|[A-Z]+[0-9]{1,2}[A-Z]+|[0-9]{1,3}[a-z]{0,2}))+"""
)
# Words written together.
CAMEL = compile_pattern(r"(?:[A-Z]{0,3}[a-z]{2,}|[0-9]{1,4})+")
CAMEL_WITH_ACRONYMS = compile_pattern(
    r"(?:[A-Z]{0,5}[a-z]{2,}|[A-Z]{0,5}[0-9]{1,5}|Ed[0-9]{2,5})*(?:[A-Z]{2,5})?"
)
SIGN = compile_pattern(r"[!#$%^&*~+?]")
SIGN_INSIDE = compile_pattern(r"[A-Za-z0-9][!#$%^&*+?~][A-Za-z0-9]")
REGEX = compile_pattern(r"(?s:[\[(^\\].*(?:[\])][+*?]?|[+*?$]|\\[a-zA-Z])[*+?$)]*)")
WORDS = compile_pattern(r"_{0,2}[A-Za-z]+(?:[\x20.:_-][A-Za-z]+)*[.:!?]*")
PHRASE = compile_pattern(r"[A-Z][a-z]+(?:[\x20\t][A-Za-z]+)*")
# `Otter-Rain-4417`: as people make passwords, and programs name versions.
WORDS_AND_NUMBER = compile_pattern(r"[A-Za-z]{3,}(?:[-_.][A-Za-z]{3,})+[-_.]?[0-9]{2,6}")
NO_PASSWORD = compile_pattern(r"(?i:token|key|secret|令牌|密钥|密鑰|密匙|私钥|トークン|토큰|токен|ключ)")
# What a sentence about a flag continues with, or calls its value.
FLAG_WORD = compile_pattern(
    r"""(?:[a-z]{1,6}|[a-z]+(?:ly|tions?|ments?|ing|ity)|commands?|options?|switch(?:es)?|arguments?|parameters?
    |instead|without|together|support|because|through|[A-Z][A-Z_\-]{2,24}|[(\[].*)(?:[.,:;)\]|]|\xe2\x80\x99)*"""
)
PLAIN_WORDS = compile_pattern(r"[A-Za-z]+[0-9]{0,4}(?:[-_.:/][A-Za-z]*[0-9.]{0,6})*")
MESSAGE_KEY = compile_pattern(
    r"""(?i:pass|token|label|title|field|placeholder|error|message|form|login|hint|text|user|input|auth|secret
    |invalid|required|email|forgot|reset|^[a-z]*[:!?]$|^[a-z]+(?:\.[a-zA-Z_]+)+$)"""
)
# Names of token kinds in parsers and their themes.
KIND_OF_TOKEN = compile_pattern(
    r"""(?:identifier|constant|variable|function|delimiter|punct|operator|keyword|comment|support|whitespace|heading
    |attribute|annotation|namespace|parameter|predefined|directive|separator|preprocessor|list|paren|invisible|meta
    |charclass|quantifier|alternation|start|string|text|linkified).* | [a-z]+(?:\.[a-z0-9\-]+)+"""
)
PATH = compile_pattern(
    r"""(?:~|\.{1,2}|[A-Za-z]:)?[/\\][\w.\-/\\\x20~]*
    |(?:[\w.\-]+/)*[\w\-][\w.\-]*\.(?:pem|key|crt|txt|json|ya?ml|env|p12|pfx|pub|conf|cfg|ini|toml|csv|xml|jks|gpg
        |asc|htpasswd|zip|jar|tar|t?gz|7z|rar|log|sql)
    |[\w.\-]+:/[\w.\-][\w.\-/]*|(?:\.[a-z_]+)+"""
)
# A cloud secret may begin with a slash.
LONG_BASE64 = compile_pattern(r"[A-Za-z0-9+/]{30,}={0,2}")
NAME = compile_pattern(r"[A-Za-z_][A-Za-z_]*(?:(?:[?!]?\.|::?|->|-)[A-Za-z_]+)*")
# Names of variables or types for a secret: `s3_credentials`, `PKCS7PrivateKeyTypes`.
SECRET_VARIABLE_NAME = compile_pattern(
    r"""_{0,2}[a-z]+[0-9]{0,2}[a-z]*(?:_(?:[a-z]+[0-9]{0,2}|[0-9]{1,2}[a-z]{0,2}))*
    _(?:tokens?|keys?|secrets?|pass(?:word|wd)?|pwd|pw|credentials?|creds|auth|header|hash|id|name|value|type)
    |(?:[A-Z]{0,5}[a-z]{2,}|[A-Z]{1,5}[0-9]{1,5})+(?:Key|Token|Secret|Password|Credential)(?:Type|Str)?s?"""
)
# A scope, a role of a text, a regular expression: `pass::run`, `:py:data:`, `/^a/`, `s/a/b/`.
SYNTAX = compile_pattern(
    r"(?s:::?[A-Za-z_~][A-Za-z_0-9]*(?:::?[A-Za-z_0-9]*)*[.,]?|/[\^(\[\\].*|s[/\#].*[/\#])"
)
VERDICT = compile_pattern(r"(?:^|[\s\]>])PASS:[\x20\t]*$")
VERB = compile_pattern(r"(?i:(?:^|[^\w.\-])pass[\x20\t]+[\"'`]$)")
URL = compile_pattern(r"(?s:[a-z][a-z0-9+.\-]{1,15}://.*)")
TYPE = compile_pattern(r"[A-Za-z_][\w.]*(?:\[.*\])?(?:\x20?\|\x20?[A-Za-z_][\w.]*(?:\[.*\])?)*")
CONSTANT = compile_pattern(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+")
CALLABLE = compile_pattern(r"[:.@&*]{0,2}[A-Za-z_$][\w$]*(?:(?:[?!]?\.|::|->)[A-Za-z_$][\w$]*)*")
IDENTIFIER = compile_pattern(r"[A-Za-z_$][\w$]*(?:(?:[?!]?\.|::|->)[A-Za-z_$][\w$]*)+")
SWITCHED_OFF = compile_pattern(r"-(?:no|without|skip|disable)-[\w-]*[\x20\t=]+[\"'`]?$")
UUID = compile_pattern(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
PASSWORD_NAME = compile_pattern(
    r"(?i:(?:pass(?:word|wd|phrase|code|wort)?|pwd|\bpw|secret)(?:\W*\w{1,12})?[^\w\n]*$)"
)
# A name that only holds secrets: then even plain words are one. `token` alone has other uses.
VALUE_NAME = compile_pattern(
    r"""(?:
    (?i:pass(?:word|wd|phrase|code|wort)|pswd|pwd|[_.\-]pass|(?:\b|_)psk|(?:\b|_)pw|(?:db|root|smtp|ssh|user)p(?:ass|w)
    |[a-z0-9][_.\-]?token|secret|authorization
    |(?:api|secret|access|private|encryption|signing|master)[_.\-\x20]?(?:access[_.\-]?)?key)
    |(?:^|[^A-Za-z0-9])(?:TOKEN|REDISCLI_AUTH)
    )(?:\W*\w{1,12})?[^\w\n]*$"""
)
# A name that asks or states something about a secret, or refers to one: `show_password`, `existingSecret`.
_ABOUT = (
    "is|has|use|requires?|needs?|show|hide|ask|allow|invalid|wrong|missing|unexpected|expired|existing"
    "|image_?[Pp]ull|tls|no|enable|disable"
)
_ABOUT_PASSWORDS = f"{_ABOUT}|forgot|reset|check|verify|validate|random|remember"
ABOUT_A_SECRET = compile_pattern(
    rf"""(?:^|[^A-Za-z])(?:
    (?:(?i:{_ABOUT})[_.\-\x20](?:\w+[_.\-])?|(?:{_ABOUT})(?:[A-Z][a-z]+)?)(?i:token|secret)
    |(?:(?i:{_ABOUT_PASSWORDS})[_.\-\x20](?:\w+[_.\-])?|(?:{_ABOUT_PASSWORDS})(?:[A-Z][a-z]+)?)
    (?i:pass(?:word|wd|phrase)?|pwd)
    )(?:\W*\w{{1,12}})?[^\w\n]*$"""
)
TOKEN_NAME = compile_pattern(r"(?i:token)(?:\W*\w{1,12})?[^\w\n]*$")
OF_A_TOKEN = compile_pattern(r"(?i:token|auth)")
PASSWORD_CONTEXT = compile_pattern(r"(?i:pass|pwd|pw\b|psk|secret)")
ENV_NAME = compile_pattern(r"(?:^|[\s'\"$;+-]|\\[nrt])[A-Z][A-Z0-9_]{2,}[\"']?\]?=$")
# Where a program has no variables: a query, pairs as a database or a flag takes them, a header in quotes.
IN_DATA = compile_pattern(
    r"""[?&;][\w.\-]{0,64}=$
    | [A-Za-z]=[^\s;,()=]*(?:;\x20?|\x20)[A-Za-z_.\-\x20]{0,64}=$
    | ["'][A-Za-z][A-Za-z0-9]*-[A-Za-z0-9\-]*:\x20?$
    | (?:^|\s)-{1,2}[a-zA-Z\-]{1,20}[=\x20]["']?[A-Za-z0-9_.\-]{1,64}=$"""
)
# A name in capitals with a value as in an environment file or in YAML, not as in a call.
VARIABLE = compile_pattern(
    r"""(?:^|[^A-Za-z0-9_.(,\x20]|[^,(]\x20)[A-Z][A-Z0-9_]{2,}["']?\]?
    (?:=|:[\x20\t]*(?:&[a-z]+\x20)?|[\x20\t]*[=:][\x20\t]*["'`])$"""
)
UPPER_NAME = compile_pattern(
    r"(?:^|[^A-Za-z0-9_.])[A-Z][A-Z0-9_]{2,}(?:\x20?[=:])?[\x20\t]*(?:&[a-z]+\x20)?$"
)
TIGHT = compile_pattern(r"[^\s:=]=$")
OF_AN_OBJECT = compile_pattern(r"(?:\b(?:self|this|cls)|->|\$[\w.]*)\.?\w*[\x20\t]*[=:][\x20\t]*$")
SECTION = compile_pattern(r"(?:^|\n)[\x20\t]*\[[A-Za-z0-9_.:\x20\-]+\][\x20\t]*\r?\n")
# All that a line has before a value: in YAML and in an environment file, and in other settings files.
ALONE = compile_pattern(
    r"^[\x20\t\-]*[A-Za-z0-9_\-]+:[\x20\t]+$|^(?:export\x20|[\x20\t]*-\x20)?[A-Za-z0-9_\-]+=$"
)
ASSIGNED = compile_pattern(r"^[a-z0-9]+(?:[_\-][a-z0-9]+)+[\x20\t]+=[\x20\t]+$")
# Lines of a program: a call, a block, a statement, a type behind a name.
PROGRAM = compile_pattern(
    r"""(?m:^[^\#\n]*(?:[A-Za-z0-9_]\(|[;{(\[,]\r?$|=>|\b[A-Za-z]+\[)
    |^[\x20\t]*(?:(?:else|try|finally):|[)\]}]
      |(?:import|from|def|class|return|if|elif|for|while|with|let|const|var|val|func|function|fn|use|package
        |local|module|type|interface|struct|enum|public|private|protected|static|async)\x20)
    |:[\x20\t]*(?:str|int|bool|bytes|float|string|number|boolean|String|Int|Integer|Boolean|Incomplete|Any)\b)"""
)
# Names of Kubernetes objects.
KEBAB_NAME = compile_pattern(
    r"""[a-z0-9]+(?:-[a-z0-9]+)*-(?:secrets?|credentials?|creds|passwords?|passwd|tokens?|keys?|tls|certs?|auth)"""
)
# The name refers to such an object, or holds a secret.
OBJECT = compile_pattern(r"(?:^|[^\w.\-])secret:[\x20\t]+$")
OBJECT_NAME = compile_pattern(r"[A-Za-z0-9]+(?:-[A-Za-z0-9]+)+|[a-z0-9]+secrets?")
LOWER_CAMEL = compile_pattern(r"[a-z]+(?:[A-Z][a-z]+)+")
# A name of several words, which may also be a sentence.
SPACED_NAME = compile_pattern(r"[A-Za-z0-9]\x20[A-Za-z0-9_.\-]*[=:][\x20\t]*$")
CAPITALISED = compile_pattern(r"[A-Z][a-z]+")
WORD = compile_pattern(r"[A-Za-z][A-Za-z0-9_\-.]*[A-Za-z0-9]")
CALL = compile_pattern(r"[A-Za-z_][\w.:]*\(.*\)[;,]?")
PASSPHRASE = compile_pattern(r"[A-Za-z][A-Za-z0-9.\-]*(?:[\x20\t][A-Za-z0-9\-]+)+")
# A program that is given a variable: `DB_PASSWORD=... python manage.py`.
COMMAND = compile_pattern(
    r"""[^\s]+\s+(?:python[0-9.]*|node|np[mx]|yarn|pnpm|psql|mysql\w*|mariadb\w*|pg_\w+|docker|make|go|cargo|ba|z|sudo|curl
    |git|java|ruby|rails|rake|bundle|php|terraform|ansible|kubectl|helm|env|exec|redis|mongo\w*|restic|borg)\b.*"""
)
EXPANSION = compile_pattern(r"\$\{\w+:$")
FIELD = compile_pattern(r"[a-z][a-z_.-]*=[^=].*")
URL_WITH_PASSWORD = compile_pattern(r"[a-z][a-z0-9+.\-]{1,20}://[^\s/:@]*:[^\s/@]+@")
SAFE_NAME = compile_pattern(
    r"""(?i:
    (?: (?:next|page|paging|start|starting|continuation|change|lock|sync|cursor|client[_-]?request
          |pagination|resume|pad|[eb]os|unk|cls|sep|mask|stop|end|prev|previous|last|first|current|cancell?ation
          |design)[_.\-\x20]?token
      | (?:public|pub|primary|foreign|cache|sort|partition|idempotency|routing|row|object|s3|index|unique
          |translation|i18n|lookup|hash|dedup\w*|group|shard|range|publishable|host|known|any|press|hot|short
          |arrow|shift|function|ctrl|alt|escape|map|dict|json|yaml|config|query|natural|surrogate|candidate
          |composite|business|message|event|cluster|order|registry|blob|file|storage|bucket|data|field
          |column|id|label|tag|metric|feature|site|kms|websocket)[_.\-\x20]?key
    )\W*(?:[=:(]\x20?[rbfu]{1,2})?$
    | /passwd$
    | \barn:[\w:*/-]*$
    | \bAWS::\w+::\w+$
    )"""
)


def is_placeholder(value: bytes) -> bool:
    """Whether it is a placeholder or hardly more than a mark, so that redacting twice changes nothing."""
    beginning = value[:256].rstrip(b":")
    if len(beginning) > 3 and beginning.count(beginning[:1]) == len(beginning):
        return True
    return PLACEHOLDER.fullmatch(beginning) is not None or _is_marked(value)


def _is_marked(value: bytes) -> bool:
    if _MARK not in value:
        return False
    rest = value.replace(_MARK, b"")
    return len(rest) <= _BESIDE_A_MARK or SCHEME.fullmatch(rest) is not None


def has_safe_name(context: bytes) -> bool:
    """Whether the text before a value ends with a name that only sounds like a secret's."""
    return SAFE_NAME.search(context.rstrip(b"\"'`:= \t>")) is not None

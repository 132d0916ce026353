"""Masks secrets in texts before they are stored or sent. Standard library only."""

# ruff: noqa: SIM905 - words are read as words

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

MASK = "***"
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_ALWAYS = frozenset(
    (
        "apikey auth authorization bearer connstr cookie cred credential credentials creds passphrase passwd "
        "password pwd requirepass secret token"
    ).split()
)
_GLUED = ("password", "passwd", "passphrase", "secret", "apikey", "accesskey", "secretkey", "authtoken")
"""How a last word may end that is written without separators, as `PGPASSWORD`."""
_KEYS = frozenset(
    (
        "access account admin anthropic api auth aws azure client clearml cohere comet databricks datadog deploy "
        "encryption gcp google groq hf hmac huggingface jwt kaggle langchain langsmith license master mistral "
        "mlflow neptune openai pinecone private replicate roboflow rsa secret sentry service shared signing ssh "
        "ssl storage subscription tls wandb webhook"
    ).split()
)
"""The words before `key` that make the key a secret; other keys, as of a dictionary, are not secret."""
_BEFORE = {
    "key": _KEYS,
    "pass": frozenset("admin db ftp imap login mail mysql pg proxy redis root smtp ssh sudo user".split()),
    "pat": frozenset("access azure databricks devops gh github gitlab".split()),
    "id": frozenset(("password", "secret")),
    "value": frozenset(("password", "secret")),
    "string": frozenset(("connection", "password", "secret")),
}
"""Last word of a name → the words before it that make it a secret: `pass` may also be one over the data."""
_BARE = frozenset(("key", "pass", "pat"))
"""Secrets only as the whole name of an option: in a text, `key: fc1.weight` is not secret."""
_SPECIAL = frozenset("begin bos class cls end eos image mask next pad sep special start stop unk".split())
"""What stands before `token` where it is one of a text."""
_OPEN = re.compile(
    r"(?:true|false|none|null|yes|no|on|off|auto|\d{1,3}|<[^<>]*>|\[[^\[\]]*\])?", re.IGNORECASE
)
"""Values that hide nothing: of a switch, a count, a special token."""
_VALUE = re.compile(r"(?:(?:Bearer|Basic)\s+)?(?:\"[^\"]*\"|'[^']*'|[^\s\"';&|,]+)")
_NAMES = (
    re.compile(r"(?<![A-Za-z0-9])([A-Za-z][\w.-]{0,80})[\"']?\s*[=:]\s*"),
    re.compile(r"(?<!\S)(--?[A-Za-z][\w.-]{0,80})(?:\s+|=)(?!-)"),
)
"""Inside of a text, as of a shell's script or of a header: a name, and its value follows."""
_REPLACED: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(
            r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL
        ),
        MASK,
    ),
    (re.compile(r"(?<=://)([^\s/:@]*):([^\s/]+)(?=@)"), rf"\1:{MASK}"),
    (re.compile(r"(?<=://)[^\s/:@]{16,}(?=@)"), MASK),
    (
        re.compile(r"(?<![\w/:.])([\w.-]+):([^\s:/@]+)(?=@(?:(?:[A-Za-z][\w-]*\.)+[A-Za-z]|localhost))"),
        rf"\1:{MASK}",
    ),
    (
        re.compile(
            r"(hooks\.slack\.com/\w+|discord(?:app)?\.com/api/webhooks|webhook\.office\.com/\w+|api\.telegram\.org)"
            r"/[^\s\"'?#]+"
        ),
        rf"\1/{MASK}",
    ),
    (
        re.compile(
            r"(?<=[?&])([\w.-]*(?:sig|signature|credential|token|key|code|secret|password|pwd|auth))="
            r"(?!\d{1,3}\b|\*\*\*)[^\s&\"'#]+",
            re.IGNORECASE,
        ),
        rf"\1={MASK}",
    ),
    (
        re.compile(
            r"((?:^|\s)(?:-u|-U|--(?:proxy-)?user)(?:\s+|=))(?!\d+:\d+(?:\s|$))([^\s:/=]+):(?!//|\*\*\*)\S+"
        ),
        rf"\1\2:{MASK}",
    ),
    (re.compile(r"(\b(?:mariadb|mysql\w*|sshpass)\b[^|;&\n]{0,200}?\s-p\s*)(?!\*)[^\s-]\S*"), rf"\1{MASK}"),
    (re.compile(r"\b(Bearer|Basic)\s+(?=\S*\d|\S{20})(?!\*)[\w+/=.~-]{6,}", re.IGNORECASE), rf"\1 {MASK}"),
    (
        re.compile(
            r"\b(?:hf_[A-Za-z0-9]{20,}|sk-[\w-]{20,}|[rs]k_(?:live|test)_\w{16,}|gh[opsu]_[A-Za-z0-9]{20,}"
            r"|github_pat_\w{20,}|glpat-[\w-]{16,}|xox[abprs]-[\w-]{10,}|xapp-[\w-]{20,}|A[KS]IA[A-Z0-9]{16}"
            r"|AIza[\w-]{30,}|ya29\.[\w-]{20,}|npm_[A-Za-z0-9]{30,}|pypi-[\w-]{30,}|dckr_pat_[\w-]{20,}"
            r"|nvapi-[\w-]{20,}|gsk_[A-Za-z0-9]{30,}|r8_[A-Za-z0-9]{30,}|dapi[0-9a-f]{32}|lsv2_[\w-]{20,}"
            r"|SG\.[\w-]{16,}\.[\w-]{16,}|eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]{5,})"
        ),
        MASK,
    ),
)
"""What tells itself: private keys, passwords and long users of addresses, addresses of chats that whoever knows
them can write to, signatures in addresses, and keys that their makers made to be known."""
_USERS = ("-u", "-U", "--user", "--proxy-user")
_LOGIN = re.compile(r"(?!\d+:\d+\Z)([^\s:/=]+):(?!//)(\S+)")
_BY_P = frozenset("mariadb mongo mongosh mysql mysqladmin mysqldump mysqlimport sqlplus sshpass".split())
"""Programs whose `-p` is a password, apart from its option or in one word with it."""
_NOT_BY_P = frozenset("mkdir sbatch salloc srun".split())
_MIXED = re.compile(r"(?=\D*\d)(?=[^A-Za-z]*[A-Za-z])[^\s/.,:=]+")
"""What `-p` of any other program is given that may be a password: letters and digits, no number, no path."""


def masked(command: Iterable[str]) -> list[str]:
    """Return a command's words without the secrets among them.

    A secret is what an option or a variable is given whose name says so (`--api-key V`, `--api-key=V`,
    `API_KEY=V`), a password next to a user (`-u USER:V`) or after `-p`, and what `masked_text` masks.
    """
    found: list[str] = []
    programs: set[str] = set()
    before = ""
    for word in command:
        name, equals, value = word.partition("=")
        given = not word.startswith("-")
        if given and _secret(before, option=True) and not _OPEN.fullmatch(word):
            found.append(MASK)
        elif before in _USERS and (login := _LOGIN.fullmatch(word)) is not None:
            found.append(f"{login[1]}:{MASK}")
        elif given and before == "-p" and _by_p(word, programs):
            found.append(MASK)
        elif word.startswith("-p") and len(word) > 2 and programs & _BY_P:
            found.append(f"-p{MASK}")
        elif equals and not any(map(str.isspace, name)) and _secret(name, option=not given):
            found.append(word if _OPEN.fullmatch(value) else f"{name}={MASK}")
        elif equals and name in _USERS and (login := _LOGIN.fullmatch(value)) is not None:
            found.append(f"{name}={login[1]}:{MASK}")
        else:
            found.append(masked_text(word))
        before = word if not given and not equals else ""
        programs.add(os.path.basename(word))
    return found


def masked_text(text: str) -> str:
    """Return any text, as of an exception or a log, without the secrets in it."""
    for names in _NAMES:
        text = _named(text, names)
    for pattern, replacement in _REPLACED:
        text = pattern.sub(replacement, text)
    return text


def masked_in(value: Any, name: str = "") -> Any:
    """Return a value as JSON knows it without the secrets in its texts; `name` is what it is called."""
    if isinstance(value, dict):
        return {key: masked_in(one, str(key)) for key, one in value.items()}
    if isinstance(value, list | tuple):
        if all(isinstance(one, str) for one in value):
            return masked(value)
        return [masked_in(one, name) for one in value]
    if not isinstance(value, str):
        return value
    return MASK if _secret(name) and not _OPEN.fullmatch(value) else masked_text(value)


def _named(text: str, names: re.Pattern[str]) -> str:
    """Mask the values that follow names of secrets."""
    pieces, done = list[str](), 0
    for name in names.finditer(text):
        if name.start() < done or not _secret(name[1], option=name[1].startswith("-")):
            continue
        value = _VALUE.match(text, name.end())
        bare = value[0].strip("\"'") if value is not None else ""
        if value is None or bare.startswith(("//", MASK)) or _OPEN.fullmatch(bare):
            continue
        pieces += [text[done : name.end()], MASK]
        done = value.end()
    return "".join([*pieces, text[done:]])


def _by_p(word: str, programs: set[str]) -> bool:
    if programs & _BY_P:
        return True
    return not programs & _NOT_BY_P and _MIXED.fullmatch(word) is not None


def _secret(name: str, *, option: bool = False) -> bool:
    """Return whether a name is that of a secret, by its last words: an API key is one, a pad token is not."""
    words = [word.lower() for word in _WORDS.findall(name)]
    last, before = words[-1] if words else "", words[-2] if len(words) > 1 else ""
    if last == "token" and before in _SPECIAL:
        return False
    if last in _ALWAYS or last.endswith(_GLUED):
        return True
    if last in _BARE and not before:
        return option
    return before in _BEFORE.get(last, ())

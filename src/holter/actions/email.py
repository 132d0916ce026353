"""Send a mail through an SMTP server that the environment names."""

from __future__ import annotations

import os
import re
import smtplib
import socket
import ssl
from dataclasses import dataclass
from email.message import EmailMessage
from email.utils import formatdate, make_msgid
from typing import NamedTuple

from holter.actions import Action, ActionFailed, BadAction, Limits, Occasion, Secrets, TryAgain, parameter
from holter.actions._words import subject, text

_LOCAL = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}")
_DOMAIN = re.compile(r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)(\.(?!-)[A-Za-z0-9-]{1,63}(?<!-))+")
_LONGEST = 254
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
SECURITY = ("starttls", "tls", "none")


class Server(NamedTuple):
    """The mail server, from the variables `SMTP_…`."""

    host: str
    port: int
    security: str
    user: str
    password: str | None
    sender: str
    ca_file: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Email(Action):
    """Mail the finding; the server is in SMTP_HOST, SMTP_PORT, SMTP_USER, SMTP_PASSWORD, SMTP_FROM."""

    description = "sends a mail; the server stands in the environment as SMTP_HOST and so on"
    also_called = ("mail",)
    limits = Limits(dedupe_s=900)

    to: tuple[str, ...] = parameter((), aliases=("email_address",))
    """Addresses, as in [a@example.org,b@example.org]."""
    timeout_s: float = parameter(15.0, above=0, high=120, unit="s")
    """The longest wait for the server."""

    def __post_init__(self) -> None:
        Action.__post_init__(self)
        if not self.to:
            raise BadAction("email: to is missing; write email:to=name@example.org")
        for address in self.to:
            check_address(address, "email: to")

    def check(self, secrets: Secrets) -> None:
        """Refuse to start without a server."""
        server(secrets)

    def act(self, occasion: Occasion, secrets: Secrets) -> str:
        """Send the mail to the server."""
        where = server(secrets)
        mail = EmailMessage()
        mail["Subject"] = subject(occasion)
        mail["From"], mail["To"] = where.sender, ", ".join(self.to)
        mail["Date"] = formatdate(occasion.time / 1e9)
        mail["Message-ID"] = make_msgid(idstring=occasion.id, domain=where.sender.rpartition("@")[2])
        mail["Auto-Submitted"] = "auto-generated"
        mail.set_content(text(occasion))
        try:
            with _connected(where, self.timeout_s) as connection:
                refused = connection.send_message(mail)
        except (smtplib.SMTPAuthenticationError, smtplib.SMTPNotSupportedError) as error:
            raise ActionFailed(f"{where.host}: {_answer(error)}") from None
        except smtplib.SMTPRecipientsRefused as error:
            codes = [code for code, _ in error.recipients.values()]
            raise _kind(codes)(f"{where.host} refuses every recipient ({codes[0]})") from None
        except smtplib.SMTPResponseException as error:
            raise _kind([error.smtp_code])(f"{where.host}: {_answer(error)}") from None
        except ssl.SSLCertVerificationError as error:
            raise ActionFailed(
                f"{where.host}: its certificate is not valid: {error.verify_message}"
            ) from None
        except (OSError, smtplib.SMTPException) as error:
            raise TryAgain(f"{where.host}:{where.port}: {type(error).__name__}: {error}") from None
        sent = [address for address in self.to if address not in refused]
        left = f"; refused: {', '.join(refused)}" if refused else ""
        return f"mailed to {', '.join(sent)}{left}"


def check_address(address: str, who: str) -> None:
    """Raise `BadAction` for an invalid mail address; its case is kept."""
    local, at, domain = address.partition("@")
    dots = local.startswith(".") or local.endswith(".") or ".." in local
    good = at and _LOCAL.fullmatch(local) and not dots and _DOMAIN.fullmatch(domain)
    if not good or len(address) > _LONGEST:
        raise BadAction(
            f"{who}={address[:80]!r} is no mail address; valid: one @, a domain with a dot, "
            f"at most {_LONGEST} characters, as in name@example.org"
        )


def server(secrets: Secrets) -> Server:
    """Read the server from the environment; raises `BadAction` naming the variable that is wrong."""
    host = secrets.setting("SMTP_HOST")
    if not host:
        raise BadAction("email: SMTP_HOST is not set; set the mail server in the environment")
    given = secrets.setting("SMTP_PORT", "465" if secrets.setting("SMTP_SECURITY") == "tls" else "587")
    if not given.isdigit() or not 0 < int(given) < 65_536:
        raise BadAction(f"email: SMTP_PORT={given!r} is no port; valid: 1 to 65535")
    security = secrets.setting("SMTP_SECURITY", "tls" if given == "465" else "starttls").lower()
    if security not in SECURITY:
        raise BadAction(f"email: SMTP_SECURITY={security!r} is not valid; there are: {', '.join(SECURITY)}")
    user = secrets.setting("SMTP_USER") or secrets.setting("SMTP_USERNAME")
    password = secrets.need("SMTP_PASSWORD", "email: SMTP_USER is set, but") if user else None
    if user and security == "none" and host not in _LOOPBACK:
        raise BadAction(
            "email: SMTP_SECURITY=none would send SMTP_PASSWORD readable by all; use starttls or tls"
        )
    sender = secrets.setting("SMTP_FROM") or (user if "@" in user else f"holter@{socket.getfqdn()}")
    if secrets.setting("SMTP_FROM"):
        check_address(sender, "email: SMTP_FROM")
    ca_file = secrets.setting("SMTP_CA_FILE") or None
    if ca_file and not os.path.isfile(ca_file):
        raise BadAction(f"email: SMTP_CA_FILE={ca_file!r} is no file")
    return Server(host, int(given), security, user, password, sender, ca_file)


def _connected(where: Server, timeout_s: float) -> smtplib.SMTP:
    """Connect, encrypt and log in."""
    context = ssl.create_default_context(cafile=where.ca_file)
    connection: smtplib.SMTP
    if where.security == "tls":
        connection = smtplib.SMTP_SSL(where.host, where.port, timeout=timeout_s, context=context)
    else:
        connection = smtplib.SMTP(where.host, where.port, timeout=timeout_s)
    try:
        if where.security == "starttls":
            connection.starttls(context=context)
        if where.password is not None:
            connection.login(where.user, where.password)
    except BaseException:
        connection.close()
        raise
    return connection


def _kind(codes: list[int]) -> type[ActionFailed]:
    """Return the kind of failure: a server's 4xx is temporary, 5xx is permanent."""
    return TryAgain if all(400 <= code < 500 for code in codes) else ActionFailed


def _answer(error: Exception) -> str:
    if isinstance(error, smtplib.SMTPResponseException):
        answer = error.smtp_error
        return f"{error.smtp_code} {answer.decode(errors='replace') if isinstance(answer, bytes) else answer}"
    return str(error)

"""Explains why no broker answered: a listener that speaks another protocol, a certificate, or a
refused login.

Each of these ends the connection, so a retrying client reports "Broker transport failure", as for a
broker that is down. Only librdkafka's log lines distinguish them, by the address with the client's
protocol, the reason, and the connection's state. A broker's own text is not repeated. Source:
librdkafka 2.16, rdkafka_transport.c, rdkafka_ssl.c and rdkafka_sasl.c; observed with Kafka's
listeners of all four protocols.
"""

from __future__ import annotations

import re
import threading

_LINE = re.compile(
    r"(?:(?P<protocol>sasl_ssl|sasl_plaintext|ssl)://)?(?P<address>[^\s/]+:\d+)/\w+: (?P<what>.*) \(after \d+ms in state (?P<state>\w+)"
)
_MECHANISMS = re.compile(r"Unsupported SASL mechanism: broker's supported mechanisms: ([A-Z0-9-]{1,20}(?:, ?[A-Z0-9-]{1,20}){0,9}) ?$")
_ALERT = re.compile(r"alert (?:bad )?certificate(?: required)?|alert handshake failure")


_LINE_CHARS_MAX = 1024
"""Characters of a line to search. Longer lines quote something and would take long."""


def explained(line: str, *, answered: bool = True) -> str | None:
    """Explain a log line or an error's text in one sentence with the remedy.

    Return None where librdkafka's text is as good. ``answered`` is True if a broker may have
    answered this client before: a connection in state UP also ends when it is idle or a broker
    restarts, so it means a missing login only if no broker has ever answered.
    """
    found = _LINE.search(line[:_LINE_CHARS_MAX])
    if found is None:
        return None
    protocol = (found["protocol"] or "plaintext").upper()
    at, what, state = f"the broker at {found['address']}", found["what"], found["state"]
    given = f"security.protocol={protocol}"
    tls, sasl = protocol.endswith("SSL"), protocol.startswith("SASL")
    if "certificate verify failed" in what:
        return (
            f"the certificate of {at} is not trusted, or is for another host; name its authority in ssl.truststore.location (with ssl.truststore.type=PEM), "
            "and the brokers by names that their certificates hold"
        )
    if _ALERT.search(what):
        return f"{at} wants a certificate of the client, or another one; give it in ssl.keystore.location (with ssl.keystore.type=PEM)"
    if state == "SSL_HANDSHAKE" and "SSL connection closed by peer" in what:
        other = "SASL_PLAINTEXT" if sasl else "PLAINTEXT"
        return f"{at} ends the TLS handshake, as a listener without TLS does; {given} wants TLS: set {other}, or name the port of a listener with TLS"
    if "Request not valid in current SASL state" in what:
        other = "SSL" if tls else "PLAINTEXT"
        return f"{at} has no login at this port; {given} wants one: set {other}, or name the port of a listener with SASL"
    if "mechanism handshake failed" in what:
        offered = _MECHANISMS.search(what)
        return f"{at} does not take this sasl.mechanism; " + (f"set {offered[1]}" if offered else "set one that its listener has")
    if "SASL authentication error" in what:
        return f"{at} refuses the login; correct sasl.jaas.config (or sasl.username and sasl.password) and sasl.mechanism"
    if what.startswith("Disconnected") and state == "APIVERSION_QUERY" and not tls:
        other = "SASL_SSL" if sasl else "SSL (with a login: SASL_SSL)"
        return f"{at} ends the connection at the first request, as a listener with TLS does; {given} has no TLS: set {other}, or name the port of one without"
    if what.startswith("Disconnected") and state == "UP" and not sasl and not answered:
        other = "SASL_SSL" if tls else "SASL_PLAINTEXT"
        return (
            f"{at} ends the connection before it answers, as a listener that requires a login does; {given} has none: set {other} with sasl.mechanism and "
            "sasl.jaas.config"
        )
    return None


class FailuresHeard:
    """The logger of a client that waits for a broker's answer, called by confluent-kafka. The
    client's ``log_level`` must be ``LEVEL``.

    An explained failure takes precedence: one of the listed servers may be down while another
    refuses.
    """

    LEVEL = "6"
    """librdkafka's level for closed connections, the only sign of a missing login or TLS."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._explained: str | None = None
        self._other: str | None = None

    def log(self, _level: int, text: str, *args: object) -> None:
        """Note one log line of librdkafka if it reports a failure."""
        line = text % args if args else text
        if not line.startswith("FAIL "):
            return
        with self._lock:
            if (sentence := explained(line, answered=False)) is not None:
                self._explained = sentence
            else:
                self._other = _PREFIX.sub("", line)

    def reason(self) -> str | None:
        """Return why no broker has answered so far, or None if no connection has failed."""
        with self._lock:
            return self._explained or self._other

    def forget(self) -> None:
        """Forget earlier failures, which may be fixed by now."""
        with self._lock:
            self._explained = self._other = None


_PREFIX = re.compile(r"^[A-Z_]+ \[[^]]*\] (?:\[thrd:[^]]*\]: )?")
"""The prefix of a line that confluent-kafka passes to a logger: facility, client, thread."""

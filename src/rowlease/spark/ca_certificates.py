"""Converts the certificate authorities that this machine trusts to a Java key store.

By default, a Java runtime trusts only the authorities in its own bundled list. Behind a company's
proxy or mirror, the machine trusts an authority that is in no bundled list. Python's `ssl` module
knows where OpenSSL finds the authorities that this machine trusts, as PEM files. Java cannot read
those as its trust store, so this module converts them to a key store (JKS).
"""

from __future__ import annotations

import hashlib
import re
import ssl
import struct
from pathlib import Path

#: Java's default password. It protects nothing, because the list is public.
PASSWORD = "changeit"  # noqa: S105
#: The first four bytes of a key store.
MAGIC = 0xFEEDFEED
#: The version of the format.
FORMAT_VERSION = 2
#: The tag of an entry that is a trusted certificate.
TRUSTED_CERTIFICATE = 2
#: A constant that is part of the digest of every key store.
WHITENER = b"Mighty Aphrodite"
#: How OpenSSL names the files of a folder that it reads: a hash of the subject, and a number.
HASHED = re.compile(r"[0-9a-f]{8}\.\d+")
PEM = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


def machine_certificates() -> str:
    """The PEM texts of the authorities that OpenSSL trusts on this machine.

    They are in a file, in the files of a folder, or in both. Debian 11 has the folder alone.
    """
    paths = ssl.get_default_verify_paths()
    files = [Path(paths.cafile)] if paths.cafile else []
    if paths.capath:
        files += [file for file in Path(paths.capath).iterdir() if HASHED.fullmatch(file.name)]
    return "\n".join(
        file.read_text(encoding="utf-8", errors="replace") for file in files if file.is_file()
    )


def java_trust_store(pem: str) -> bytes | None:
    """A Java key store (JKS) with the certificates in a PEM string; None if there are none.

    Source: sun.security.provider.JavaKeyStore, engineStore.
    """
    certificates = {ssl.PEM_cert_to_DER_cert(block) for block in PEM.findall(pem)}
    if not certificates:
        return None
    body = struct.pack(">III", MAGIC, FORMAT_VERSION, len(certificates))
    for number, certificate in enumerate(sorted(certificates)):
        body += struct.pack(">I", TRUSTED_CERTIFICATE) + _text(f"authority-{number}")
        body += struct.pack(">Q", 0) + _text("X.509")
        body += struct.pack(">I", len(certificate)) + certificate
    seal = hashlib.sha1(PASSWORD.encode("utf-16-be") + WHITENER + body)  # noqa: S324
    return body + seal.digest()


def _text(value: str) -> bytes:
    encoded = value.encode("ascii")
    return struct.pack(">H", len(encoded)) + encoded

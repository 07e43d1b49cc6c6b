"""Microsoft's own T-SQL parser, without a server and without .NET on the machine.

The PyPI wheel `mssql-cli` holds ScriptDom and a whole .NET runtime; `libraries.txt` pins it, and
`make` unpacks it into the environment. A runtime is loaded into a process for good, and a script
that was parsed is kept.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Callable, Iterator
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any

#: Where the wheels are unpacked, if not below the environment.
VARIABLE = "ROWLEASE_LIBRARIES"
ASSEMBLY = "Microsoft.SqlServer.TransactSql.ScriptDom"

#: An option of indexes that this version of the grammar does not know yet.
NEWER = re.compile(r", optimize_for_sequential_key = on")

#: A script to its syntax tree (None if there is an error), and errors with their lines.
Parse = Callable[[str], "tuple[Node | None, list[tuple[int, str]]]"]


def known(text: str) -> str:
    """A script without what is newer than the grammar; each word keeps its place."""
    return NEWER.sub(lambda found: " " * len(found[0]), text)


def missing() -> str | None:
    """Why the parser cannot be had here; None if it can."""
    try:
        import pythonnet  # noqa: F401
    except ImportError:
        return "Microsoft's T-SQL grammar needs the package pythonnet"
    if not (folder() / f"{ASSEMBLY}.dll").exists():
        return "Microsoft's T-SQL grammar is not unpacked here; `make test` does it"
    return None


def root() -> Path:
    """The folder into which the wheels of `libraries.txt` are unpacked."""
    given = os.environ.get(VARIABLE)
    return Path(given) if given else Path(sys.prefix) / "libraries"


def folder() -> Path:
    return root() / "mssqlcli" / "mssqltoolsservice" / "bin"


@cache
def load(*, cultures: bool = False) -> Parse:
    """Start the parser, in this process and for good.

    Args:
        cultures: start .NET with its cultures, for which it needs ICU.
    """
    import pythonnet

    bridge = Path(pythonnet.__file__).parent / "runtime" / "Python.Runtime.dll"
    _start_runtime(folder(), bridge, cultures)
    pythonnet._LOADED = True
    import clr

    clr.AddReference(str(folder() / f"{ASSEMBLY}.dll"))
    from Microsoft.SqlServer.TransactSql.ScriptDom import TSql150Parser
    from System.IO import StringReader

    parser, shape = TSql150Parser(True), _Shape()

    @lru_cache(maxsize=512)  # as many scripts as there are, and as many again
    def parse(text: str) -> tuple[Node | None, list[tuple[int, str]]]:
        tree, errors = parser.Parse(StringReader(known(text)), None)
        printed = [(error.Line, error.Message) for error in errors]
        return (None if printed else Node(tree, "", None, shape)), printed

    return parse


def _start_runtime(binaries: Path, bridge: Path, cultures: bool) -> None:
    runtime = ctypes.CDLL(str(binaries / "libcoreclr.so"), mode=ctypes.RTLD_GLOBAL)
    properties = {
        "TRUSTED_PLATFORM_ASSEMBLIES": ":".join(map(str, [*binaries.glob("*.dll"), bridge])),
        "APP_PATHS": str(binaries),
        "NATIVE_DLL_SEARCH_DIRECTORIES": str(binaries),
        "System.Globalization.Invariant": "false" if cultures else "true",
    }
    texts = ctypes.c_char_p * len(properties)
    names = texts(*(name.encode() for name in properties))
    values = texts(*(value.encode() for value in properties.values()))
    host, domain, start = ctypes.c_void_p(), ctypes.c_uint(), ctypes.c_void_p()
    failed = runtime.coreclr_initialize(
        sys.executable.encode(), b"tsql", len(properties), names, values,
        ctypes.byref(host), ctypes.byref(domain),
    ) or runtime.coreclr_create_delegate(
        host, domain, b"Python.Runtime", b"Python.Runtime.Loader", b"Initialize",
        ctypes.byref(start),
    )  # fmt: skip
    if failed:
        raise RuntimeError(f"the .NET runtime does not start: {failed:#x}")
    entry = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.c_int)(start.value or 0)
    if entry(ctypes.create_string_buffer(1), 0):
        raise RuntimeError("Python.Runtime does not start")


class Node:
    """A node of the syntax tree, with Python's own means of walking it.

    Attributes:
        kind: ScriptDom's name of it, such as `UpdateStatement`.
        role: the property of its parent that holds it, such as `WhereClause`.
        net: ScriptDom's object.
        offset: where it begins in the script.
    """

    def __init__(self, net: Any, role: str, parent: Node | None, shape: _Shape) -> None:
        self.net, self.role, self.parent = net, role, parent
        self.kind: str = type(net).__name__
        self.offset: int = net.StartOffset
        self._shape = shape

    @property
    def line(self) -> int:
        return int(self.net.StartLine)

    @cached_property
    def children(self) -> list[Node]:
        found = [Node(net, role, self, self._shape) for role, net in self._shape.below(self.net)]
        return sorted(found, key=lambda child: child.offset)

    @cached_property
    def _all(self) -> list[Node]:
        return [self, *(node for child in self.children for node in child._all)]

    def walk(self, *kinds: str) -> Iterator[Node]:
        """This node and all below it, in text order; of these kinds, if any are given."""
        return (node for node in self._all if not kinds or node.kind in kinds)

    def above(self) -> Iterator[Node]:
        """Its parent, and so on up."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    def get(self, role: str) -> Node | None:
        """The first child in a role."""
        return next((child for child in self.children if child.role == role), None)


class _Shape:
    """Which properties of a kind of node hold further nodes."""

    def __init__(self) -> None:
        import clr
        from Microsoft.SqlServer.TransactSql.ScriptDom import TSqlFragment
        from System.Reflection import BindingFlags

        self._fragment = clr.GetClrType(TSqlFragment)
        self._flags = BindingFlags.Public | BindingFlags.Instance
        self._properties: dict[type, list[tuple[str, bool]]] = {}

    def below(self, net: Any) -> Iterator[tuple[str, Any]]:
        seen = set()
        for name, is_many in self._of(net):
            value = getattr(net, name)
            if value is None:
                continue
            for one in value if is_many else (value,):
                # A name's parts are there twice: in a list, and by what they mean.
                place = (one.StartOffset, one.FragmentLength, type(one))
                if place not in seen:
                    seen.add(place)
                    yield name, one

    def _of(self, net: Any) -> list[tuple[str, bool]]:
        """The properties that hold a node, or (true) many."""
        kind = type(net)
        if kind not in self._properties:
            self._properties[kind] = found = []
            for prop in net.GetType().GetProperties(self._flags):
                is_many = prop.PropertyType.IsGenericType
                held = prop.PropertyType.GetGenericArguments()[0] if is_many else prop.PropertyType
                if self._fragment.IsAssignableFrom(held) and not prop.GetIndexParameters().Length:
                    found.append((prop.Name, is_many))
        return self._properties[kind]

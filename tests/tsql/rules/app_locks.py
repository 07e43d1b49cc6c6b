"""Rules about application locks: whose they are, their order, and what a refusal does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from rowlease.store.routines import load_routines, packaged_folder
from tests.tsql.guards import guards
from tests.tsql.script import File, called, name_of_variable
from tests.tsql.scriptdom import Node

#: Procedures that take or give back the lock that they are told.
LOCKS = {"take_lock", "try_lock", "sp_getapplock", "sp_releaseapplock"}
#: Procedures that take all locks of a kind; a routine that calls one lists its name.
LOCK_MANY = {"lock_groups", "lock_requests", "lock_keys"}
#: A call, an assignment, and what either is about, in the text of a script without its comments.
CALL = re.compile(
    r"exec(?:\s+@\w+\s*=)?\s+(?:rowlease_internal|rowlease|sys)\.(\w+)\b([^;]*?)(?=;|\n\s*(?:else|end|if)\b)"
)
KIND = re.compile(r"lock_name\(N'(\w+)'|N'rowlease:(\w+)")


class Lock(NamedTuple):
    """An application lock that a routine takes.

    Attributes:
        kind: the word in its name, such as `receipt`.
        mode: exclusive, shared, or the variable that says it.
        patience: how many ms a call waits; None: as long as take_lock does.
    """

    kind: str
    mode: str
    patience: str | None
    many: bool

    def __str__(self) -> str:
        words = ["each", self.kind] if self.many else [self.kind]
        words += [] if self.mode == "exclusive" else [f"({self.mode})"]
        if self.patience is not None:
            words += ["if free"] if self.patience == "0" else [f"within {self.patience}"]
        return " ".join(words)

    @property
    def waits(self) -> bool:
        return self.patience != "0"


def locks_are_taken_as_listed(file: File) -> Iterator[tuple[Node, str]]:
    """guards.toml lists the application locks of each routine, in the order of its text."""
    taken = ", ".join(str(one) for one in locks_of(file))
    listed = guards("locks").get(file.name, "")
    if taken != listed:
        yield file.tree, f"it takes: {taken or 'no lock'}; guards.toml has: {listed or 'no lock'}"


def locks_of(file: File) -> list[Lock | str]:
    """The locks that a routine takes; a text for one that it gives back, and for many at once."""
    found: list[Lock | str] = []
    for node in file.tree.walk("ExecuteSpecification"):
        name = called(node)
        if name in LOCK_MANY:
            found.append(name)
        if name not in LOCKS or file.name in ("take_lock", "try_lock"):
            continue
        given = list(node.walk("ExecuteParameter"))
        kind = _kind(file, node, given[0])
        if name == "sp_releaseapplock":
            found.append(f"gives back {kind}")
            continue
        values = [_value(file, one) for one in given]
        mode, patience = "exclusive", None
        if name == "take_lock" and len(given) > 1:
            mode = values[1]
        elif name == "try_lock":
            patience = values[2] if len(given) > 2 else "0"
        elif name == "sp_getapplock":
            named = dict(zip(map(name_of_variable, given), values, strict=True))
            mode, patience = named.get("@lockmode", ""), named.get("@locktimeout")
        many = any(above.kind == "WhileStatement" for above in node.above())
        found.append(Lock(kind, mode, patience, many and not _is_literal(given[0])))
    return found


def _value(file: File, parameter: Node) -> str:
    text = file.text[parameter.offset : parameter.offset + parameter.net.FragmentLength].lower()
    return text.rpartition("=")[2].strip().strip("n'").strip("'")


def _is_literal(parameter: Node) -> bool:
    return any(parameter.walk("StringLiteral"))


def _kind(file: File, call: Node, parameter: Node) -> str:
    """The word in the name of a lock: of its literal, or of what its variable got last."""
    if _is_literal(parameter):
        return _word(file.text[parameter.offset : call.offset + call.net.FragmentLength])
    variable = next(
        str(one.net.Name).lower()
        for one in parameter.walk("VariableReference")
        if str(one.net.Name).lower() != name_of_variable(parameter)
    )
    text = _last_assignment(file, call, variable)
    if word := _word(text):
        return word
    for table in re.findall(r"(?:from|join)\s+(@\w+)", text):  # it was put into a table before
        for insert in file.tree.walk("InsertSpecification"):
            statement = file.text[insert.offset : insert.offset + insert.net.FragmentLength]
            if re.match(rf"insert into {table}\b", statement) and (word := _word(statement)):
                return word
    return f"?{variable}"


def _word(text: str) -> str:
    found = KIND.search(text)
    return (found[1] or found[2]) if found else ""


def _last_assignment(file: File, call: Node, variable: str) -> str:
    last = ""
    for node in file.tree.walk(
        "DeclareVariableElement", "SetVariableStatement", "SelectSetVariable"
    ):
        text = file.text[node.offset : node.offset + node.net.FragmentLength]
        if node.kind == "SelectSetVariable":
            query = next(one for one in node.above() if one.kind == "QuerySpecification")
            rest = file.text[node.offset : query.offset + query.net.FragmentLength]
            text += rest[rest.find("from ") :]
        is_of_it = re.match(rf"(?:set\s+)?{re.escape(variable)}\b[^=]*=", text, re.IGNORECASE)
        if node.offset < call.offset and is_of_it:
            last = text
    return last


def many_locks_go_by_name(file: File) -> Iterator[tuple[Node, str]]:
    """Two calls that wait for several locks of a kind take them in one order."""
    for node in file.tree.walk("ExecuteSpecification"):
        loop = next((one for one in node.above() if one.kind == "WhileStatement"), None)
        given = list(node.walk("ExecuteParameter"))
        if loop is None or called(node) != "take_lock" or _is_literal(given[0]):
            continue
        text = file.text[loop.offset : node.offset]
        if not re.search(r"= \(select min\((\w+\.\w+)\) from @\w+ as \w+ where \1 > @\w+\)", text):
            yield node, "take the locks in order: the least name (or id) above the last one"


def app_locks_are_ours(file: File) -> Iterator[tuple[Node, str]]:
    """Whose a lock is, its mode and its patience are constants of the text."""
    for node in file.tree.walk("ExecuteSpecification"):
        name = called(node)
        if name not in ("sp_getapplock", "sp_releaseapplock"):
            continue
        given = {name_of_variable(one): _raw(file, one) for one in node.walk("ExecuteParameter")}
        for parameter, pattern, why in WANTED:
            is_given = given.get(parameter)
            if name == "sp_releaseapplock" and parameter in ("@lockmode", "@locktimeout"):
                continue
            if is_given is None or not re.fullmatch(pattern, is_given):
                yield node, f"{parameter}: {why}"
        if name == "sp_getapplock" and node.get("Variable") is None:
            yield node, "keep its answer: below 0 the lock is not had"


#: Parameters of sp_getapplock, their values, and the reason.
WANTED = (
    ("@resource", r"@\w+|N'rowlease:.+'", "say @Resource"),
    ("@lockowner", "'Transaction'", "a lock of the session outlives the call, in a pool for ever"),
    ("@dbprincipal", "N'rowlease_lock'", "or anybody may hold the lock, and stop the queue"),
    ("@lockmode", r"'(Exclusive|Shared)'|@p_mode", "say exclusive or shared"),
    ("@locktimeout", r"\d+|@timeout|@p_wait_ms", "say how long; -1 waits for ever"),
)


def _raw(file: File, parameter: Node) -> str:
    text = file.text[parameter.offset : parameter.offset + parameter.net.FragmentLength]
    return text.partition("=")[2].strip()


def answers_are_heard(file: File) -> Iterator[tuple[Node, str]]:
    """0 and 1 are granted, -1 is another's, anything below is an error."""
    for node in file.tree.walk("ExecuteSpecification"):
        if called(node) == "sp_getapplock" and (answer := node.get("Variable")) is not None:
            heard = sorted(_comparisons(file, str(answer.net.Name)))
            wanted = guards("answers").get(file.name, [])
            if heard != sorted(wanted):
                yield node, f"the answer is compared so: {heard}; guards.toml has: {wanted}"
        if called(node) == "try_lock":
            given = list(node.walk("ExecuteParameter"))
            granted = next(given[1].walk("VariableReference"))
            if not _is_asked_next(file, node, str(granted.net.Name).lower()):
                yield node, "try_lock may not have the lock: ask for its answer next"


def _comparisons(file: File, variable: str) -> Iterator[str]:
    for node in file.tree.walk("BooleanComparisonExpression"):
        first = node.children[0]
        if first.kind == "VariableReference" and str(first.net.Name) == variable:
            yield file.text_of(node).removeprefix(variable.lower())


def _is_asked_next(file: File, call: Node, variable: str) -> bool:
    """Is the next use of a variable, after a call, a comparison with 0 or 1?"""
    end = call.offset + call.net.FragmentLength
    after = [
        one
        for one in file.tree.walk("VariableReference")
        if one.offset >= end and str(one.net.Name).lower() == variable
    ]
    if not after or after[0].parent is None:
        return False
    comparison = after[0].parent
    return comparison.kind == "BooleanComparisonExpression" and bool(
        re.fullmatch(rf"{variable}=[01]", file.text_of(comparison))
    )


# -- the order of all routines together --------------------------------------------------------


def locks_are_taken_in_order(file: File) -> Iterator[tuple[Node, str]]:
    """Locks for which a call waits are taken in the order of sql/README.md."""
    order = guards("order")["of_locks"]
    reached: tuple[int, str] = (-1, "")
    counting = False
    for lock in sequence(file.name, file.text):
        if lock.kind == "depth" and lock.mode == "exclusive":
            counting = True
        if not lock.waits or lock.kind == "depth":
            continue
        if lock.kind not in order:
            yield file.tree, f"the order of locks in guards.toml has no {lock.kind}"
            continue
        if counting:
            yield file.tree, f"who holds the counts' lock waits for no other: {lock.kind}"
        place = (order.index(lock.kind), lock.kind)
        if place[0] < reached[0] and lock.kind not in guards("order")["but"].get(file.name, ()):
            yield file.tree, f"the lock {lock.kind} comes before {reached[1]}"
        reached = max(reached, place)


def sequence(name: str, text: str, above: tuple[str, ...] = ()) -> Iterator[Lock]:
    """The locks of a routine and of those that it calls, in the order of the texts."""
    own = iter(_listed(name))
    code = re.sub(r"--.*|N?'(?:[^']|'')*'", "''", text)
    for found in CALL.finditer(code):
        if found[1] in ("take_lock", "try_lock", "sp_getapplock"):
            yield from (lock for lock in [next(own, None)] if lock is not None)
        elif found[1] in _texts() and found[1] not in above:
            yield from sequence(found[1], _texts()[found[1]], (*above, name))


def _listed(name: str) -> list[Lock]:
    """The locks that guards.toml has for a routine."""
    locks = []
    for one in filter(None, guards("locks").get(name, "").split(", ")):
        if one.startswith("gives back") or one in LOCK_MANY:
            continue
        words = re.fullmatch(r"(each )?(\w+)(?: \(([^)]+)\))?(?: (if free|within (\S+)))?", one)
        assert words is not None, one
        patience = "0" if words[4] == "if free" else words[5]
        locks.append(Lock(words[2], words[3] or "exclusive", patience, bool(words[1])))
    return locks


@cache
def _texts() -> dict[str, str]:
    """The routines, by name; triggers are named as their views."""
    found = {name: routine.body for name, routine in load_routines("sqlserver").items()}
    return found | {
        path.stem: path.read_text(encoding="utf-8")
        for path in (packaged_folder("sql") / "sqlserver").rglob("*.sql")
        if path.stem not in found
    }

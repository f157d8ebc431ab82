"""Names that docstrings, comments and pages mention between backticks exist: modules, classes and their members."""

from __future__ import annotations

import ast
import builtins
import re
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: Where modules are, and the package of each file begins.
FOLDERS = [ROOT / "src", ROOT / "tests" / "support"]
FILES = [(folder, path) for folder in FOLDERS for path in sorted(folder.rglob("*.py"))]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
#: One backtick on each side is a reference; two are code, which may show anything.
REFERENCE = re.compile(r"(?<!`)`([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)(?:\(\))?`(?!`)")


class Names:
    """What the source defines: modules with their names, classes with their members, and everything together."""

    def __init__(self) -> None:
        self.of_module: dict[str, set[str]] = {}
        self.of_class: dict[str, set[str]] = {}
        self.bases: dict[str, set[str]] = {}
        for folder, path in FILES:
            tree = ast.parse(path.read_text(encoding="utf-8"))
            parts = path.relative_to(folder).with_suffix("").parts
            self.of_module[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = names_in(tree)
            for node in ast.walk(tree):
                if isinstance(node, ast.ClassDef):
                    self.of_class.setdefault(node.name, set()).update(names_in(node))
                    bases = {re.split(r"\[", ast.unparse(base))[0].split(".")[-1] for base in node.bases}
                    self.bases.setdefault(node.name, set()).update(bases)
        stems = {part for name in self.of_module for part in name.split(".")}
        self.all = stems.union(dir(builtins), *self.of_module.values())

    def has(self, owner: str, member: str) -> bool:
        """Whether a class has a member; what is inherited from another library is not known and counts as there."""
        if owner not in self.of_class:
            return owner not in {"ABC", "Protocol", "Generic", "object"}
        return member in self.of_class[owner] or any(self.has(base, member) for base in self.bases[owner])

    def exists(self, reference: str) -> bool:
        """Whether a reference leads somewhere; what is in the standard library or a variable is not looked at."""
        first, *rest = reference.split(".")
        if not rest:
            return first in self.all
        if first in self.of_class:
            return self.has(first, rest[0])
        modules = [name for name in self.of_module if f".{name}".endswith("." + reference.rpartition(".")[0])]
        if modules and first not in sys.stdlib_module_names:
            whole = any(f".{name}".endswith(f".{reference}") for name in self.of_module)
            return whole or any(rest[-1] in self.of_module[name] for name in modules)
        return first != "firesteel"


def names_in(tree: ast.AST) -> set[str]:
    """Everything that is defined, assigned, imported or a parameter in there."""
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.arg(arg=name):
                found.add(name)
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                found.add(name)
            case ast.alias(name=name, asname=other):
                found.add(other or name.split(".")[0])
            case ast.Assign(targets=[ast.Name(id="__slots__")], value=ast.Tuple(elts=elements)):
                found.update(str(each.value) for each in elements if isinstance(each, ast.Constant))
    return found


@cache
def names() -> Names:
    return Names()


def broken(path: Path, text: str) -> list[tuple[str, str]]:
    return [
        (f"{path.relative_to(ROOT)}:{number}", reference)
        for number, line in enumerate(text.splitlines(), start=1)
        for reference in REFERENCE.findall(line)
        if not names().exists(reference)
    ]


def test_names_in_docstrings_and_comments_exist() -> None:
    assert [each for _, path in FILES for each in broken(path, path.read_text(encoding="utf-8"))] == []


def test_members_of_classes_on_pages_exist() -> None:
    # Other words between backticks are options, files, values and much else on pages.
    found = [
        each for page in PAGES for each in broken(page, FENCE.sub(blank, page.read_text(encoding="utf-8")))
    ]
    assert [(place, name) for place, name in found if re.match(r"[A-Z]\w*\.", name)] == []


def blank(program: re.Match[str]) -> str:
    """As many lines as the program has, so that the others keep their numbers."""
    return "\n" * program[0].count("\n")

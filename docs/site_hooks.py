"""What the documentation site has beside the files of docs/: the first page, source files and the API reference.

Pages are written for repository browsers, with links such as ``../src/firesteel/launch.py``. The site has no such files, so
each file that a page links to becomes a page, and links lead there; the README becomes the first page. A link to what does
not exist stays as it is: then mkdocs reports it.
"""

from __future__ import annotations

import ast
import posixpath
import re
from functools import cache
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
SOURCE = ROOT / "src"
#: Files outside of docs/ that have a place in the navigation.
MOVED = {ROOT / "README.md": "index.md", ROOT / "CHANGELOG.md": "changelog.md"}
API_PAGE = "api.md"

FENCE = re.compile(r"^(?P<indent> *)```(?P<info>[^\n`]*)\n(?P<text>.*?)^ *```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<!!)(\[[^\]]*\])\(([^)\s]+)\)")
PACKAGE_ROW = re.compile(r"^\| `(firesteel[\w.]*)` \|", re.MULTILINE)
LANGUAGES = {".java": "java", ".py": "python", ".md": "markdown", ".toml": "toml", ".yml": "yaml"}


# What mkdocs calls ------------------------------------------------------------------------------------


def on_config(config: MkDocsConfig) -> None:
    """Put the modules of the API reference below its page."""
    (reference,) = (section["Reference"] for section in config.nav if "Reference" in section)
    packages: dict[str, list[Any]] = {}
    for module in public_modules():
        package, _, name = module.rpartition(".")
        if package in packages and not is_package(module):
            packages[package].append({name: api_uri(module)})
        else:
            packages[module] = [api_uri(module)]
    reference[reference.index(API_PAGE)] = {
        "API reference": [API_PAGE, *({package: pages} for package, pages in packages.items())]
    }


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made."""
    for path, uri in MOVED.items():
        files.append(File.generated(config, uri, content=path.read_text(encoding="utf-8")))
    for path in linked_files():
        files.append(File.generated(config, source_uri(path), content=source_page(path)))
    for module, names in documented_names().items():
        files.append(File.generated(config, api_uri(module), content=api_page(module, names)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Translate links and the marks of programs."""
    if page.file.src_uri.startswith(("source/", "api/")):
        return markdown
    here = next((path for path, uri in MOVED.items() if uri == page.file.src_uri), DOCS / page.file.src_uri)
    pieces, end = [], 0
    for fence in FENCE.finditer(markdown):
        pieces += [with_site_links(markdown[end : fence.start()], here), with_site_marks(fence)]
        end = fence.end()
    return "".join([*pieces, with_site_links(markdown[end:], here)])


# Links and programs -----------------------------------------------------------------------------------


def with_site_links(text: str, here: Path) -> str:
    """The text of a page with links as the site has them."""
    base = posixpath.dirname(site_uri(here))

    def translated(found: re.Match[str]) -> str:
        target, mark, heading = found[2].partition("#")
        path = (here.parent / target).resolve()
        if not target or "://" in target or not path.is_file():
            return found[0]
        module = module_of(path)
        is_api = here == DOCS / API_PAGE and module in public_modules()
        uri = api_uri(module) if is_api else site_uri(path)
        return f"{found[1]}({posixpath.relpath(uri, base or '.')}{mark}{heading})"

    return LINK.sub(translated, text)


def with_site_marks(fence: re.Match[str]) -> str:
    """The program with a language that highlighters know; output gets a title, and so does a file that is to be saved."""
    language, *marks = fence["info"].split() or ["text"]
    title = next((mark.removeprefix("save=") for mark in marks if mark.startswith("save=")), "")
    if language == "output":
        language, title = "text", "prints"
    if "raises" in marks:
        title = "raises an error"
    info = f'{language} title="{title}"' if title else language
    return f"{fence['indent']}```{info}\n{fence['text']}{fence['indent']}```"


def site_uri(path: Path) -> str:
    """The page of the site that a file of this repository becomes."""
    if path in MOVED:
        return MOVED[path]
    return path.relative_to(DOCS).as_posix() if path.is_relative_to(DOCS) else source_uri(path)


# Source files -----------------------------------------------------------------------------------------


def linked_files() -> list[Path]:
    """The files outside of docs/ that pages link to."""
    found: set[Path] = set()
    for page in [*MOVED, *DOCS.rglob("*.md")]:
        for _, target in LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
            path = (page.parent / target.partition("#")[0]).resolve()
            if path.is_file() and path.is_relative_to(ROOT) and path not in MOVED and path.parent != DOCS:
                found.add(path)
    return sorted(path for path in found if not path.is_relative_to(DOCS / "decisions"))


def source_uri(path: Path) -> str:
    """The page of a source file."""
    return f"source/{path.relative_to(ROOT).as_posix()}.md"


def source_page(path: Path) -> str:
    """A source file as a page, which search leaves out: it would find every word everywhere."""
    text = path.read_text(encoding="utf-8")
    language = LANGUAGES.get(path.suffix, "text")
    head = "---\nsearch:\n  exclude: true\nhide:\n  - navigation\n  - toc\n---\n\n"
    return f"{head}# {path.relative_to(ROOT).as_posix()}\n\n`````{language}\n{text}\n`````\n"


# API reference ----------------------------------------------------------------------------------------


@cache
def public_modules() -> tuple[str, ...]:
    """The packages of the table in the architecture page, each followed by its modules."""
    packages = PACKAGE_ROW.findall((DOCS / "architecture.md").read_text(encoding="utf-8"))
    modules = []
    for package in packages:
        folder = SOURCE.joinpath(*package.split("."))
        inner = sorted(path.stem for path in folder.glob("*.py") if not path.name.startswith("_"))
        modules += [package, *(f"{package}.{name}" for name in inner)]
    return tuple(modules)


def api_uri(module: str) -> str:
    """The page of a public module."""
    return f"api/{module}.md"


def module_of(path: Path) -> str:
    """The name under which a file is imported; nothing if it is not."""
    if path.suffix != ".py" or not path.is_relative_to(SOURCE):
        return ""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def documented_names() -> dict[str, dict[str, str]]:
    """For each public module its names, each with the public module whose page describes it.

    What several modules export is described once: in a module rather than in the package around it.
    """
    owners: dict[tuple[str, str], str] = {}
    for module in sorted(public_modules(), key=is_package):
        for name in exports(module):
            owners.setdefault(definition(module, name), module)
    return {
        module: {name: owners[definition(module, name)] for name in exports(module)}
        for module in public_modules()
    }


def api_page(module: str, names: dict[str, str]) -> str:
    """What the module is for, where the names it exports from others are described, and its own."""
    lines = [f"# {module}", "", f"::: {module}", "    options:", "      members: false"]
    lines += ["      show_root_heading: false", "      show_root_toc_entry: false", ""]
    elsewhere = sorted((name, owner) for name, owner in names.items() if owner != module)
    if elsewhere:
        lines += ["| also exported from here | described in |", "|---|---|"]
        lines += [f"| [`{name}`][{owner}.{name}] | `{owner}` |" for name, owner in elsewhere]
    for name, owner in names.items():
        if owner == module:
            lines += ["", f"::: {module}.{name}", "    options:", "      heading_level: 2"]
            if has_private_base(module, name):  # what it inherits is described nowhere else
                lines += ["      inherited_members: true", "      show_bases: false"]
    return "\n".join(lines) + "\n"


def is_package(module: str) -> bool:
    """Whether the module is a directory."""
    return SOURCE.joinpath(*module.split(".")).is_dir()


@cache
def syntax(module: str) -> ast.Module:
    """The parsed file of a module or package."""
    path = SOURCE.joinpath(*module.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(file.read_text(encoding="utf-8"))


@cache
def exports(module: str) -> tuple[str, ...]:
    """The names in ``__all__``; without it, the public classes and functions that are defined there."""
    own: list[str] = []
    for node in syntax(module).body:
        match node:
            case ast.Assign(targets=[ast.Name(id="__all__")], value=value):
                return tuple(ast.literal_eval(value))
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) if not name.startswith("_"):
                own.append(name)
    return tuple(own)


def has_private_base(module: str, name: str) -> bool:
    """Whether a class inherits from one that is not for users."""
    defined_in, defined_as = definition(module, name)
    for node in syntax(defined_in).body:
        if isinstance(node, ast.ClassDef) and node.name == defined_as:
            bases = (base.value if isinstance(base, ast.Subscript) else base for base in node.bases)
            return any(ast.unparse(base).rpartition(".")[2].startswith("_") for base in bases)
    return False


@cache
def definition(module: str, name: str) -> tuple[str, str]:
    """The module that defines what another one has under this name, and the name there."""
    for node in syntax(module).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("firesteel"):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return definition(str(node.module), alias.name)
    return module, name

"""Full names of decorators in a file that is parsed and not imported. Standard library only."""

import ast
from collections.abc import Sequence

OPERATOR = "softbench.operator"


def imported_names(nodes: Sequence[ast.AST]) -> dict[str, str]:
    """Name in the file -> full dotted name of what it was imported from."""
    names: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                head = alias.name.split(".")[0]
                names[alias.asname or head] = alias.name if alias.asname else head
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            for alias in node.names:
                name = "implementation" if alias.name == "*" else alias.name
                names.setdefault(alias.asname or name, f"{node.module}.{name}")
    return names


def full_name(node: ast.expr, names: dict[str, str]) -> str:
    """The dotted name of a decorator, called or not, by the file's imports; "" if it is no plain name."""
    if isinstance(node, ast.Call):
        node = node.func
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.insert(0, node.attr)
        node = node.value
    return ".".join([names.get(node.id, node.id), *parts]) if isinstance(node, ast.Name) else ""


def cubins_of(decorator: ast.expr) -> str:
    """NAME of the decorator ``@NAME.cubins``, else ""."""
    if isinstance(decorator, ast.Attribute) and decorator.attr == "cubins" and isinstance(decorator.value, ast.Name):
        return decorator.value.id
    return ""

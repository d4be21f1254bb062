"""JSON data -> frozen dataclasses, checked against their annotations before anything uses them.

Numbers fit 64 bits and are finite, so that no figure made of them overflows; texts are printable and cut, so that renderers need
not handle terminal controls and lengths. msgspec would check types too, but neither these bounds nor texts, and is a dependency.
"""

import math
import types
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import lru_cache
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from softbench.texts import cut, printable

T = TypeVar("T")
MAX_DEPTH = 20
_INT64 = range(-(2**63), 2**63)


def build(cls: type[T], data: Any) -> T:
    """A `cls` from a JSON object, or from the list of its values in order. Raises ValueError that names the field."""
    if isinstance(data, list):
        names = [f.name for f in fields(cast(Any, cls))]
        if len(data) > len(names):
            raise ValueError(f"{cls.__name__} has {len(names)} values, not {len(data)}")
        data = dict(zip(names, data, strict=False))
    if not isinstance(data, dict):
        raise ValueError(f"{cls.__name__} must be an object")
    hints = _hints(cast(Any, cls))
    if unknown := sorted(set(data) - set(hints)):
        raise ValueError(f"{cls.__name__} has no field {unknown[0]!r}")
    for field in fields(cast(Any, cls)):
        if field.name not in data and field.default is MISSING and field.default_factory is MISSING:
            raise ValueError(f"{cls.__name__}.{field.name} is missing")
    return cls(**{name: _value(hints[name], value, f"{cls.__name__}.{name}") for name, value in data.items()})


@lru_cache(maxsize=64)
def _hints(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)


@lru_cache(maxsize=256)
def _form(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    return get_origin(hint), get_args(hint)


def _value(hint: Any, value: Any, name: str) -> Any:
    origin, arguments = _form(hint)
    if hint is Any:
        return _free(value, name)
    if origin in (Union, types.UnionType):
        return _any_of(arguments, value, name)
    if origin is tuple:
        return _tuple(arguments, value, name)
    if origin is dict and isinstance(value, dict):
        return {printable(cut(key)): _value(arguments[1], item, name) for key, item in value.items()}
    if isinstance(hint, type) and is_dataclass(hint):
        return build(hint, value)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint(value)
    if type(value) is hint:  # exact, because True is an int
        return _scalar(value, name)
    raise ValueError(f"{name} cannot be {value!r:.40}")


def _any_of(choices: tuple[Any, ...], value: Any, name: str) -> Any:
    for choice in choices:
        if is_dataclass(choice) and isinstance(value, (dict, list)):
            return build(cast(Any, choice), value)
        if value is None if choice is type(None) else type(value) is choice:
            return _scalar(value, name)
    raise ValueError(f"{name} cannot be {value!r:.40}")


def _tuple(arguments: tuple[Any, ...], value: Any, name: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise ValueError(f"{name} must be a list")
    if arguments[0] is int and set(map(type, value)) == {int} and min(value) in _INT64 and max(value) in _INT64:
        return tuple(value)  # samples: one by one they take most of the time of reading a run
    if arguments[1:] == (...,):
        return tuple(_value(arguments[0], item, name) for item in value)
    if len(value) != len(arguments):
        raise ValueError(f"{name} must have {len(arguments)} values")
    return tuple(_value(hint, item, name) for hint, item in zip(arguments, value, strict=True))


def _scalar(value: Any, name: str) -> Any:
    """A number within its bounds, a printable text; anything else unchanged."""
    if isinstance(value, str):
        return printable(cut(value))
    if isinstance(value, int) and value not in _INT64:
        raise ValueError(f"{name} does not fit 64 bits")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{name} cannot be {value}")
    return value


def fits(value: Any) -> bool:
    """Whether a number can be stored: it fits 64 bits and is finite. True for anything else."""
    try:
        _scalar(value, "")
    except ValueError:
        return False
    return True


def _free(value: Any, name: str, depth: int = 0) -> Any:
    """Data of any form, such as a machine's description, as scalars, lists and objects."""
    if depth > MAX_DEPTH:
        raise ValueError(f"{name} is nested more than {MAX_DEPTH} deep")
    if isinstance(value, dict):
        return {printable(cut(key)): _free(item, name, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_free(item, name, depth + 1) for item in value]
    return _scalar(value, name)

"""Files and options as nobody would write them: mutations of good ones.

`SOFTBENCH_FUZZ_EXAMPLES=20000` tries that many new ones per test; otherwise the same few are tried every time.
"""

import json
import os

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from softbench import cli
from softbench.texts import InputError
from support.builders import softmax_case

CASE, WIDE = softmax_case(16, 256), softmax_case(16, 512)
HARD = softmax_case(16, 64, timed=False, distribution="peaked")
RANDOM = st.randoms(use_true_random=False)
WISHED = int(os.environ.get("SOFTBENCH_FUZZ_EXAMPLES", "0"))

TEXTS = [
    *("", " ", "\n", "\t", "\r\n", "\0", "\x1b[2J\x1b]0;t\x07", "\u202eevil\u202c", "\u2066x", "\u200b", "\ufeff", "\u2028"),
    *("<script>alert(1)</script>", "'\"><img src=x onerror=alert(1)>", "&lt;", "]]>", "${HOME}", "$(id)", "`id`"),
    *("../../x", "/etc/passwd", "..", ".", "-", "--help", "a" * 300, "א" * 40, "漢" * 40, "e\u0301" * 50, "\U0001f600"),
    *("| a | b |", "a,b", '"', "{", "}", "[", "]", ":", "#", "%", "@", "*a", "&a", "!!python/object/apply:os.system"),
    *("nan", "inf", "1e999", "0x10", "010", "1_000", "٣", "-0", "1:30", "true", "null", "softmax", "latest", "graph"),
    *("\ud800", "\udcff", "=1+1", "@SUM(A1)"),
]
NUMBERS = [
    *(0, 1, -1, 2**31, 2**63 - 1, 2**63, -(2**63) - 1, 2**64, 10**30, 10**400),
    *(0.0, -0.0, 0.5, 1e-320, 1e308, float("nan"), float("inf"), -float("inf")),
]
CHUNKS = [
    *(text.encode("utf-8", "surrogatepass") for text in TEXTS),
    *(b"\xff", b"\xfe\xff", b"\xed\xa0\x80", b"\xc0\xaf", b"\x80", b"[" * 3000, b'{"a":' * 1500, b"9" * 5000, b"\x00" * 64),
    *(b"NaN", b"Infinity", b"1e999", b'"schema":2', b"&a [*a, *a]", b"? ", b"- " * 40, b"\n  " * 30, b"<<: ", b"--- "),
]


def tried(examples):
    """So often, or as often as is wished for."""
    return settings(
        max_examples=WISHED or examples,
        derandomize=not WISHED,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


def damaged(random, data):
    for _ in range(random.randint(1, 3)):
        data = random.choice(ACCIDENTS)(random, data)
    return data


def _cut(random, data):
    return data[: random.randint(0, len(data))]


def _lose(random, data):
    start = random.randint(0, len(data))
    return data[:start] + data[start + random.choice([1, 2, 8, 60, 400]) :]


def _repeat(random, data):
    start = random.randint(0, len(data))
    return data[: start + random.choice([1, 8, 60, 400])] + data[start:]


def _insert(random, data):
    start = random.randint(0, len(data))
    return data[:start] + random.choice(CHUNKS) + data[start + random.choice([0, 0, 1, 5]) :]


def _flip(random, data):
    if not data:
        return data
    at = random.randint(0, len(data) - 1)
    return data[:at] + bytes([data[at] ^ (1 << random.randint(0, 7))]) + data[at + 1 :]


def _move_line(random, data):
    rows = data.splitlines(keepends=True) or [b""]
    row = rows[random.randint(0, len(rows) - 1)]
    if random.random() < 0.5:
        rows.remove(row)
    rows.insert(random.randint(0, len(rows)), row)
    return b"".join(rows)


def _recode(random, data):
    how = random.randint(0, 3)
    if how == 0:
        return b"\xef\xbb\xbf" + data
    if how == 1:
        return data.replace(b"\n", b"\r\n")
    if how == 2:
        return data.replace(b"\n", b"\r")
    return data.decode("utf-8", "replace").encode("utf-16")


ACCIDENTS = (_cut, _lose, _repeat, _insert, _flip, _move_line, _recode)


def hostile(random, depth=0):
    kind = random.randint(0, 8 if depth < 3 else 5)
    if kind <= 1:
        return random.choice(TEXTS)
    if kind <= 3:
        return random.choice(NUMBERS)
    if kind <= 5:
        return random.choice([None, True, False, [], {}])
    if kind == 6:
        return [hostile(random, depth + 1) for _ in range(random.randint(1, 3))]
    if kind == 7:
        return {random.choice(TEXTS): hostile(random, depth + 1) for _ in range(random.randint(1, 3))}
    nested = 1
    for _ in range(random.choice([5, 30, 300])):
        nested = [nested] if random.random() < 0.5 else {"a": nested}
    return nested


def twisted(random, value):
    value = json.loads(json.dumps(value))
    for _ in range(random.randint(1, 3)):
        places = list(_places(value))
        if not places:
            return hostile(random)
        _twist(random, *random.choice(places), places)
    return value


def _places(value):
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from _places(value[key])


def _twist(random, where, key, places):
    how = random.randint(0, 5)
    if how == 0:
        del where[key]
    elif how == 1:
        other, name = random.choice(places)
        if name in other if isinstance(other, dict) else name < len(other):
            where[key] = json.loads(json.dumps(other[name]))
    elif how == 2 and isinstance(where, dict):
        where[random.choice(TEXTS)] = where.pop(key)
    elif how == 3 and isinstance(where, list):
        where.extend(where[: random.choice([1, 5, 40])])
    else:
        where[key] = hostile(random)


def one_line(error):
    assert isinstance(error, InputError), repr(error)
    text = str(error)
    assert text.isprintable(), text
    assert len(text) > 10


def rendered(capsys, *arguments):
    """What the command prints, which must be fit for a terminal, as must its one line of error."""
    capsys.readouterr()
    code = cli.main(list(arguments))
    shown = capsys.readouterr()
    if code:
        assert (code, shown.out) == (2, "")
        assert shown.err.startswith("softbench: ")
        assert shown.err.endswith("\n")
        assert shown.err[:-1].isprintable(), shown.err
    assert shown.out.replace("\n", "").isprintable()
    return str(shown.out)

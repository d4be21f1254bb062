"""A random search for drawn cases on which an implementation is wrong: many processes, one reference for all in each.

A question is what the last four digits of a seed decide: operator, shape, dtypes, layout. A launch is built once for it and asked
about the values of many seeds. One question in GROWN is larger than drawn cases are.
"""

import json
import math
import multiprocessing
import os
import random
import time
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path

from softbench.cases import operators, registry
from softbench.cases.operators.drawn_cases import LAST_SEED, QUESTIONS, case_of
from softbench.cases.operators.inputs import bits
from softbench.cases.operators.vocabulary import ATTENTION_OPERATORS
from softbench.contract import Unsupported
from softbench.measure.check import judging
from softbench.measure.worker import loading
from softbench.texts import repeat_command

SHARES = {"softmax": 32, "softmax_backward": 10, "rmsnorm": 6, "layernorm": 6}
SHARES |= dict.fromkeys(("add_rmsnorm", "add_layernorm", "attention", "attention_causal"), 4)
SHARES |= dict.fromkeys(sorted(operators.bundled().keys() - {"cross_entropy_in_place"}), 3)
"""Of a hundred questions. What overwrites its input is asked about by `hard-family` alone."""
SEEDS = 80
"""Of a question: they take longer than building the launches, which takes some seconds."""
GROWN, MOST_BYTES = 8, 2**27
ENOUGH = 100
"""Wrong answers after which nothing more is asked."""


@dataclass(frozen=True)
class Question:
    """Seeds that end with the same digits; shape: instead of that of their case; folders: where the implementations are."""

    operator: str
    seeds: tuple[int, ...]
    shape: tuple[int, ...]
    folders: tuple[Path, ...]
    device: str
    deadline: float

    def case(self, seed):
        return replace(case_of(self.operator, seed), shape=self.shape)


@dataclass(frozen=True)
class Wrong:
    case: str
    implementation: str
    reason: str
    again: str

    def __str__(self):
        return f"{self.case}: {self.implementation}: {self.reason}\n    {self.again}"


@dataclass
class Found:
    """Answers: cases times the implementations that served them."""

    cases: int = 0
    answers: int = 0
    wrong: list[Wrong] = field(default_factory=list)


def search(folders, *, device, cases, seconds, workers, seed, log=None, about=tuple(SHARES)):
    """Ask about so many distinct drawn cases, or for so long; a case that no implementation serves does not count.

    workers: processes; 0 for this one. Every question's outcome is one line of JSON in `log`, as it comes.
    """
    found = Found()
    deadline = time.monotonic() + seconds
    asked = questions(random.Random(seed), tuple(folders), device, deadline, about, min(SEEDS, cases))
    with _pool(workers) as pool:
        running = {}
        while time.monotonic() < deadline and len(found.wrong) < ENOUGH:
            under_way = sum(len(question.seeds) for question in running.values())
            while found.cases + under_way < cases and len(running) < 2 * max(1, workers):
                question = next(asked)
                running[pool.submit(ask, question)] = question
                under_way += len(question.seeds)
            if not running:
                break
            for done in wait(running, return_when=FIRST_COMPLETED).done:
                _add(found, running.pop(done), done.result(), log)
        for done in running:
            done.cancel()
        for done, question in running.items():
            if not done.cancelled():
                _add(found, question, done.result(), log)
    return found


def questions(rng, folders, device, deadline, about, seeds):
    had = set()
    while len(had) < QUESTIONS * len(about):
        (operator,) = rng.choices(about, [SHARES[name] for name in about])
        digits = rng.randrange(QUESTIONS)
        if (operator, digits) not in had:
            had.add((operator, digits))
            chosen = tuple(digits + QUESTIONS * h for h in rng.sample(range(LAST_SEED // QUESTIONS), seeds))
            case = case_of(operator, digits)
            shape = grown(rng, case) if rng.randrange(GROWN) == 0 and operator not in ATTENTION_OPERATORS else case.shape
            yield Question(operator, chosen, shape, folders, device, deadline)


def grown(rng, case):
    """More rows, in one of two rows of up to 2 million columns, of at most MOST_BYTES of inputs and outputs."""
    columns = round(2 ** rng.uniform(17, 21)) if rng.random() < 0.5 and case.columns > 1024 else case.columns
    case = replace(case, shape=(round(2 ** rng.uniform(0, 26)), columns))
    while case.rows > 1 and sum(operators.moved_bytes(case)) > MOST_BYTES:
        case = replace(case, shape=(case.rows // 2, columns))
    return case.shape


def ask(question):
    import torch

    found = Found()
    operator = _operator(question.operator)
    first = question.case(question.seeds[0])
    launches = _launches(first, question, found)
    if not launches:
        return found
    inputs = operator.make_inputs(first, question.device, 0)
    for seed in question.seeds:
        if time.monotonic() > question.deadline:
            break
        case = question.case(seed)
        operator.refill(case, inputs, 0)
        before = [x.clone() for x in inputs]
        expected = list(operator.expected(case, inputs, slice(0, case.rows), question.device))
        counts = {}
        for variant, launch in launches.items():
            try:
                outputs = _outputs(launch, inputs)
                if fault := judging.structure(case, inputs, outputs):
                    raise ValueError(fault)
                count = judging.count_wrong(case, expected, outputs)
                changed = [(bits(x) != bits(y)).sum() for x, y in zip(inputs, before, strict=True)]
                counts[variant] = torch.stack([count, *changed])
            except Exception as error:
                found.wrong.append(_wrong(case, variant, f"{type(error).__name__}: {error}"))
        numbers = torch.stack(list(counts.values())).tolist() if counts else []
        for variant, (bad, *changed) in zip(counts, numbers, strict=True):
            if bad or any(changed):
                found.wrong.append(_wrong(case, variant, _reason(case, launches[variant], inputs, before, changed)))
        found.cases += 1
        found.answers += len(launches)
    return found


def _operator(name):
    if operators.of_file(name) and not operators.own():
        operators.use(map(loading.operator, operators.bundled().values()))
    return operators.get(name)


def _launches(case, question, found):
    """Of those that serve a case, and do not declare that they fail it."""
    launches = {}
    for variant in registry.find(question.folders):
        declared = any(fnmatchcase(case.id, known.pattern) for known in variant.known_failures)
        if variant.operator != case.operator or declared:
            continue
        try:
            launches[variant] = loading.load(Path(variant.path), variant.implementation)(case, **dict(variant.params))
        except Unsupported:
            continue
        except Exception as error:
            found.wrong.append(_wrong(case, variant, f"is not built: {type(error).__name__}: {error}"))
    return launches


def _outputs(launch, inputs):
    returned = launch(*inputs)
    return returned if isinstance(returned, tuple) else (returned,)


def _reason(case, launch, inputs, before, changed):
    if any(changed):
        return "the input was overwritten"
    outputs = _outputs(launch, inputs)
    fault = judging.judge(case, inputs, outputs, [slice(0, case.rows)], str(inputs[0].device))
    return fault.reason if fault else "wrong once, and right when it was launched again"


def _wrong(case, variant, reason):
    text = " ".join(reason.split())[:500]
    profile = {"softmax": "hard", "attention": "hard-attention", "attention_causal": "hard-attention"}
    others = "hard-family" if operators.of_file(case.operator) else "hard-operators"
    selection = f"--softbench-profile={profile.get(case.operator, others)}"
    again = repeat_command(selection, case.id, variant.id)
    if case.shape != case_of(case.operator, int(case.distribution.rpartition("_")[2])).shape:
        again = "a group of shapes.yaml with this shape and distribution, timed: false"
    return Wrong(case.id, variant.id, text, again)


def _add(found, question, more, log):
    found.cases += more.cases
    found.answers += more.answers
    found.wrong += more.wrong
    if log is not None:
        case = question.case(question.seeds[0])
        line = {"first": case.id, "seeds": len(question.seeds), "so_far": found.cases, **asdict(more)}
        with log.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def _pool(workers):
    if not workers:
        return ThreadPoolExecutor(1)
    context = multiprocessing.get_context("spawn")  # a fork of a process that has used CUDA cannot use it
    return ProcessPoolExecutor(workers, mp_context=context, initializer=_one_thread)


def _one_thread():
    import torch

    torch.set_num_threads(1)


def from_environment(folders, device):
    """A search as SOFTBENCH_SEARCH_* say; with it the cases asked for and the seed."""

    def read(name, default=""):
        return os.environ.get(f"SOFTBENCH_SEARCH_{name}", default)

    cases, seconds = int(read("CASES", "20000")), float(read("SECONDS", "360"))
    workers = int(read("WORKERS", str(max(1, min(12, math.ceil((os.cpu_count() or 1) * 0.75))))))
    seed = int(read("SEED") or random.SystemRandom().getrandbits(32))
    log = Path(name) if (name := read("LOG")) else None
    print(f"search of {cases} drawn cases, seed {seed}, {workers} processes, at most {seconds:g} s", flush=True)
    found = search(folders, device=device, cases=cases, seconds=seconds, workers=workers, seed=seed, log=log)
    print(f"{found.cases} cases, {found.answers} answers, {len(found.wrong)} wrong", *found.wrong, sep="\n", flush=True)
    return found, cases, seed

"""The bundled operators, as a fixture of a file of tests."""

import pytest

from softbench.cases import operators
from softbench.measure.worker import loading


@pytest.fixture(autouse=True)
def known():
    operators.use(map(loading.operator, operators.bundled().values()))
    yield
    operators.use(())

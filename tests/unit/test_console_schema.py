"""The API keeps what its OpenAPI document promises, whatever it is sent."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import schemathesis
from console_stack import KEY, memory_stack
from schemathesis.config import SchemathesisConfig
from starlette.applications import Starlette

from console.api import create_app, describe

EXAMPLES = 10  # requests of each operation, and of each way to be wrong

CONFIG = SchemathesisConfig.from_dict(
    {
        "seed": 1,
        "headers": {"Authorization": f"Bearer {KEY}"},
        "generation": {"deterministic": True, "max-examples": EXAMPLES, "mode": "all"},
        "checks": {
            # What is well formed may still name what can't be used; it is never called malformed.
            "positive_data_acceptance": {
                "expected-statuses": ["2xx", "400", "404", "409", "502", "503"]
            },
        },
    }
)


@asynccontextmanager
async def lifespan(outer: Starlette) -> AsyncIterator[None]:
    with TemporaryDirectory() as folder:
        async with memory_stack(Path(folder)) as services:
            # A new state for each operation, so that none depends on what others did before.
            outer.router.default = create_app(services)
            yield


schema = schemathesis.openapi.from_dict(describe(), config=CONFIG)
schema.app = Starlette(lifespan=lifespan)


@schema.parametrize()
def test_every_operation_keeps_its_promises(case: schemathesis.Case) -> None:
    """Each answer is declared, has its shape, and tells what is wrong from what is right."""
    case.call_and_validate()

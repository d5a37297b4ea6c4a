"""The HTTP API: one thin route an operation of the desk, and the document that describes it."""

from importlib.metadata import version
from typing import Any, Final

from fastapi import FastAPI, Security
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer

from console import document_routes, run_routes, source_routes, stack_routes
from console.auth import BearerKey
from console.body_limit import LimitedBody
from console.handlers import add_handlers
from console.local_desk import LocalDesk
from console.problems import Problem
from console.services import Services
from contracts.errors import ConfigurationError

DESCRIPTION: Final = """\
Keeps search indexes true to their sources: what the command line asks of a running stack.

Every call but `/healthz` carries the key of the stack as a bearer token; it is in `api.json` of \
the state folder, beside the address. Errors are problem details (RFC 9457) whose `error` is the \
class of the error and whose `retryable` says whether the same call may do later. Listings have a \
stable order and come in pages: follow the `Link` header with `rel=next` until there is none.
"""
TAGS: Final = [
    {"name": "sources", "description": "The corpora that are kept indexed."},
    {"name": "runs", "description": "Attempts to move a source to a new state, and their gate."},
    {"name": "documents", "description": "What is served of each document, and what failed."},
    {"name": "search", "description": "Questions to one or more sources."},
    {"name": "stack", "description": "The stack as a whole."},
]
KEY: Final = HTTPBearer(
    scheme_name="key",
    description="The key in `api.json` of the stack's state folder, made at its first start.",
    auto_error=False,  # the middleware has judged it before any route is looked for
)


def create_app(services: Services) -> FastAPI:
    """The application.

    Raises:
        ConfigurationError: the services have no key, and nobody could be told from a stranger.
    """
    if not services.key:
        raise ConfigurationError("the API needs a key: give the services one")
    app = _routes()
    app.state.desk = LocalDesk(services)
    app.add_middleware(LimitedBody)
    app.add_middleware(BearerKey, key=services.key)
    return app


def describe() -> dict[str, Any]:
    """The OpenAPI document of the API, without a stack behind it."""
    return _routes().openapi()


def _routes() -> FastAPI:
    app = _Described(
        title="Sluice",
        summary="Search indexes that are true to their sources.",
        description=DESCRIPTION,
        version=version("sluice"),
        openapi_tags=TAGS,
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
        redirect_slashes=False,
        separate_input_output_schemas=False,
        generate_unique_id_function=_name,
    )
    add_handlers(app)
    app.state.routes = [*app.routes, *stack_routes.open_router.routes]
    app.include_router(stack_routes.open_router)
    for room in (source_routes, run_routes, document_routes, stack_routes):
        app.state.routes += room.router.routes
        app.include_router(room.router, dependencies=[Security(KEY)])
    return app


class _Described(FastAPI):
    """An application whose document has the shape of problems, which no route returns."""

    def openapi(self) -> dict[str, Any]:
        """The document, made once."""
        if self.openapi_schema is None:
            document = get_openapi(
                title=self.title,
                version=self.version,
                summary=self.summary,
                description=self.description,
                tags=self.openapi_tags,
                routes=self.routes,
                separate_input_output_schemas=False,
            )
            schema = Problem.model_json_schema(mode="serialization")
            document["components"]["schemas"]["Problem"] = schema
            self.openapi_schema = document
        return self.openapi_schema


def _name(route: APIRoute) -> str:
    return route.name

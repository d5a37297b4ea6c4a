"""A small embedding endpoint on loopback that errs as it is told."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response

from documents.embedders.hashing import DIMENSION, hashed
from documents.embedders.openai_compatible import Endpoint, OpenAICompatibleEmbedder

BOUND = 30.0  # seconds
Answer = Callable[[list[str]], Response]


def vectors(texts: list[str]) -> list[dict[str, Any]]:
    return [
        {"object": "embedding", "index": place, "embedding": hashed(text).tolist()}
        for place, text in enumerate(texts)
    ]


def good(texts: list[str], rows: list[dict[str, Any]] | None = None) -> Response:
    data = vectors(texts) if rows is None else rows
    usage = {"prompt_tokens": 7, "total_tokens": 7}
    return JSONResponse({"object": "list", "data": data, "model": "m", "usage": usage})


def status(code: int, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda _: JSONResponse({"error": {"message": "no"}}, code, headers=named)


@dataclass
class Server:
    """Speaks the protocol; answers as it is told, then well."""

    answers: list[Answer] = field(default_factory=list)
    asked: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    stalls: bool = False
    port: int = 0

    def endpoint(self, **options: Any) -> Endpoint:
        url = f"http://127.0.0.1:{self.port}/v1"
        return Endpoint(url, "m", options.pop("dimension", DIMENSION), **options)

    async def answer(self, request: Request) -> Response:
        body = await request.json()
        self.asked.append(body)
        self.keys.append(request.headers["authorization"])
        if self.stalls:
            await asyncio.sleep(BOUND)
        texts = body["input"]
        return self.answers.pop(0)(texts) if self.answers else good(texts)


@asynccontextmanager
async def serving() -> AsyncIterator[Server]:
    server, app = Server(), FastAPI()
    app.add_api_route("/v1/embeddings", server.answer, methods=["POST"])
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    server.port = listener.getsockname()[1]
    web = uvicorn.Server(
        uvicorn.Config(app, log_config=None, lifespan="off", ws="none", timeout_graceful_shutdown=1)
    )
    task = asyncio.create_task(web.serve(sockets=[listener]))
    try:
        async with asyncio.timeout(BOUND):
            while not web.started:
                await asyncio.sleep(0.01)
        yield server
    finally:
        web.should_exit = True
        await task
        listener.close()


@asynccontextmanager
async def embedder_of(endpoint: Endpoint) -> AsyncIterator[OpenAICompatibleEmbedder]:
    embedder = OpenAICompatibleEmbedder(endpoint)
    try:
        yield embedder
    finally:
        await embedder.close()

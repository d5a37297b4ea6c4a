"""An embedding endpoint on this machine that counts what is bought from it."""

import asyncio
import socket
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import uvicorn
from fastapi import FastAPI, Request

from documents.embedders.hashing import hashed

LATENCY: Final = 0.05  # seconds of one request, as a near endpoint has
STARTED: Final = 0.01  # seconds between two looks at whether it listens


class CountingEndpoint:
    """Speaks OpenAI's protocol; `bought` has how often each text was asked for."""

    def __init__(self) -> None:
        self.bought: Counter[str] = Counter()
        self.url = ""
        self._open = 0  # texts of requests that aren't answered

    @property
    def unanswered(self) -> int:
        """Texts of requests that aren't answered now."""
        return self._open

    async def answer(self, request: Request) -> dict[str, Any]:
        """Vectors of hashed words."""
        texts: list[str] = (await request.json())["input"]
        self.bought.update(texts)
        self._open += len(texts)
        try:
            await asyncio.sleep(LATENCY)
        finally:
            self._open -= len(texts)
        data = [
            {"object": "embedding", "index": place, "embedding": hashed(text).tolist()}
            for place, text in enumerate(texts)
        ]
        usage = {"prompt_tokens": 0, "total_tokens": 0}
        return {"object": "list", "model": "hashed", "data": data, "usage": usage}


@asynccontextmanager
async def serving() -> AsyncIterator[CountingEndpoint]:
    """Listen on loopback for as long as the body runs."""
    endpoint, app = CountingEndpoint(), FastAPI()
    app.add_api_route("/v1/embeddings", endpoint.answer, methods=["POST"], response_model=None)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        endpoint.url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        config = uvicorn.Config(app, log_config=None, lifespan="off", timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        task = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            while not server.started and not task.done():
                await asyncio.sleep(STARTED)
            yield endpoint
        finally:
            server.should_exit = True
            await task

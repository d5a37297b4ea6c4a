"""Lists of models in the object store: how references travel instead of contents."""

from collections.abc import Sequence
from functools import cache
from typing import TypeVar

from pydantic import BaseModel, TypeAdapter

from contracts.ports import ObjectStore

Model = TypeVar("Model", bound=BaseModel)


async def put_list(objects: ObjectStore, key: str, models: Sequence[Model]) -> str:
    """Store models as a JSON list under the key, and answer the key."""
    records = ",".join(model.model_dump_json() for model in models)
    await objects.put(key, f"[{records}]".encode())
    return key


async def get_list(objects: ObjectStore, key: str, model: type[Model]) -> list[Model]:
    """The models that `put_list` stored."""
    return _list_of(model).validate_json(await objects.get(key))


@cache
def _list_of(model: type[Model]) -> TypeAdapter[list[Model]]:
    return TypeAdapter(list[model])  # type: ignore[valid-type]  # a list of the model that the caller names


def run_prefix(source_id: str, seq: int) -> str:
    """Where the working objects of a run are."""
    return f"runs/{source_id}/{seq}"

"""The base of every model that crosses a process: lenient to unknown fields, versioned."""

from pydantic import BaseModel, ConfigDict


class WireModel(BaseModel):
    """A message or a record.

    Unknown fields are ignored, so that an older reader takes what a newer writer
    sends; new fields have defaults; a type is never narrowed. `version` rises
    when the meaning of a field changes.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    version: int = 1

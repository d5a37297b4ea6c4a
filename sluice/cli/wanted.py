"""What a person wants, as the desk takes it: arguments that it wouldn't take are a sentence."""

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from contracts.wire import WireModel

Wanted = TypeVar("Wanted", bound="WireModel")


def wanted(model: type[Wanted], **fields: object) -> Wanted:
    """The request, made of arguments.

    Raises:
        ConfigurationError: one of them is too long, or too many are given.
    """
    from pydantic import ValidationError  # noqa: PLC0415 - `--help` doesn't need it

    from contracts.errors import ConfigurationError  # noqa: PLC0415

    try:
        return model.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        raise ConfigurationError(f"{first['loc'][0]} is wrong: {first['msg']}") from error

"""Bodies as their schema says: a number is no text of digits, and every text is Unicode."""

from typing import Any

from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError, WrapValidator
from pydantic_core import to_json

from contracts.ids import OPEN_SEQ
from contracts.wire import WireModel


def strictly(model: type[WireModel]) -> WrapValidator:
    """Validate a body by the rules of JSON, not by those of Python.

    Whoever sends `"5"` or `true` for a number has made a mistake that is better said than guessed
    at. Raises `RequestValidationError`.
    """

    def validate(value: Any, _lax: object) -> WireModel:
        try:
            return model.model_validate_json(to_json(_whole(value)), strict=True)
        except ValidationError as error:
            raise RequestValidationError(error.errors()) from error
        except ValueError as error:  # a lone surrogate, or bytes that no text are
            fault = {"loc": (), "msg": "it isn't JSON of Unicode text"}
            raise RequestValidationError([fault]) from error

    return WrapValidator(validate)


def _whole(value: Any) -> Any:
    """With `185.0` as 185: JSON knows one kind of number, and whole ones are integers."""
    if isinstance(value, float) and value.is_integer() and abs(value) <= OPEN_SEQ:
        return int(value)
    if isinstance(value, list):
        return [_whole(each) for each in value]
    if isinstance(value, dict):
        return {key: _whole(each) for key, each in value.items()}
    return value

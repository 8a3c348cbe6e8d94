"""Forms that pages send: the body of a request with a limited size, without a library for uploads."""

from __future__ import annotations

from urllib.parse import parse_qs

from starlette.exceptions import HTTPException
from starlette.requests import Request

MAX_BYTES = 65_536
MAX_FIELDS = 300


async def read_form(request: Request) -> dict[str, str]:
    """Return the fields of a form. Raise an error if it is too large or not a form."""
    return {name: values[-1] for name, values in (await read_fields(request)).items()}


async def read_fields(request: Request) -> dict[str, list[str]]:
    """Return the fields of a form with all their values. Raise an error if it is too large or not a form."""
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > MAX_BYTES:
            raise HTTPException(413, "This is too long to be saved.")
    try:
        return parse_qs(body.decode(), keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="strict")
    except ValueError as error:
        raise HTTPException(400, "This form cannot be read.") from error

"""The API on the wire: who comes in, how listings go on, and what an error looks like."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from console_stack import DOCUMENTS, KEY, SOURCE, memory_stack
from structlog.testing import capture_logs

from console.api import create_app, describe
from console.body_limit import LARGEST_BODY
from console.client import ApiClient
from console.pages import cut, next_after
from console.problems import MEDIA_TYPE
from console.services import Services
from contracts.ids import OPEN_SEQ
from contracts.search import SearchAnswer, SearchQuestion
from contracts.sources import SourceConfig

LISTINGS = (
    "/sources",
    f"/sources/{SOURCE}/runs",
    f"/sources/{SOURCE}/documents",
    f"/sources/{SOURCE}/runs/1/outcomes",
    "/events/parked",
)
MEMBERS = {"version", "type", "title", "status", "detail", "error", "retryable", "exit_status"}


@asynccontextmanager
async def opened(services: Services, key: str | None = KEY) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(create_app(services), raise_app_exceptions=False)
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(
        transport=transport, base_url="http://stack", headers=headers
    ) as http:
        yield http


@asynccontextmanager
async def api(folder: Path, key: str | None = KEY) -> AsyncIterator[httpx.AsyncClient]:
    async with memory_stack(folder) as services, opened(services, key) as http:
        yield http


async def whole(http: httpx.AsyncClient, path: str, limit: int) -> tuple[list[object], int]:
    """All items of a listing and how many pages they came in, by following its links."""
    items: list[object] = []
    url: str | None = f"{path}?limit={limit}"
    pages = 0
    while url is not None:
        response = await http.get(url)
        assert response.status_code == 200, response.text
        items += response.json()
        pages += 1
        url = response.links["next"]["url"] if "next" in response.links else None
    return items, pages


def check_problem(response: httpx.Response, status: int, error: str) -> None:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == MEDIA_TYPE
    problem = response.json()
    assert set(problem) == MEMBERS
    assert problem["type"] == f"urn:sluice:error:{error}"
    assert (problem["status"], problem["error"]) == (status, error)
    assert problem["title"]
    assert problem["detail"]


@pytest.mark.parametrize("path", LISTINGS)
async def test_small_pages_show_what_a_large_one_shows(tmp_path: Path, path: str) -> None:
    """Whoever follows the links sees every item once, in the order of the whole listing."""
    async with memory_stack(tmp_path) as services:
        for name in ("almanac", "logbook"):
            config = SourceConfig(source_id=name, kind="folder", container="/x")
            await services.catalog.put_source(config, "ann")
        async with opened(services) as http:
            together, one = await whole(http, path, 1_000)
            singly, many = await whole(http, path, 1)
            assert (singly, one) == (together, 1)
            assert many >= 3
            exact = await http.get(path, params={"limit": many})
            assert "link" not in exact.headers


async def test_a_history_is_paged_like_a_listing(tmp_path: Path) -> None:
    """Its links keep the key, whatever is in it, and the client follows them."""
    key = "guide/tide.md"
    async with memory_stack(tmp_path) as services, opened(services) as http:
        path = f"/sources/{SOURCE}/document/history"
        first = await http.get(path, params={"key": key, "limit": 1})
        assert [run["seq"] for run in first.json()] == [2]
        second = await http.get(first.links["next"]["url"])
        assert [(run["seq"], run["doc_key"]) for run in second.json()] == [(1, key)]
        assert "next" not in second.links
        check_problem(await http.get(path), 422, "ConfigurationError")
        unknown = await http.get(path, params={"key": "no/such"})
        check_problem(unknown, 404, "UnknownDocument")
        async with ApiClient(
            "http://stack", KEY, httpx.ASGITransport(create_app(services))
        ) as client:
            strange = "guide/ébb und flut?&#.md"
            assert [run.doc_key for run in await client.history(SOURCE, strange)] == [strange]
            assert (await client.progress(SOURCE)).run is not None


async def test_the_client_follows_the_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A listing of several pages is one list to whoever asks, and as long as was asked for."""
    monkeypatch.setattr("console.client.LARGEST_PAGE", 2)
    asked: list[httpx.URL] = []

    class Counting(httpx.ASGITransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            asked.append(request.url)
            return await super().handle_async_request(request)

    async with (
        memory_stack(tmp_path) as services,
        ApiClient("http://stack", KEY, Counting(create_app(services))) as client,
    ):
        documents = await client.documents(SOURCE)
        assert [each.doc_key for each in documents] == sorted(DOCUMENTS, key=str.encode)
        assert [url.params.get("after") for url in asked] == [None, documents[1].doc_key]
        assert [run.seq for run in await client.runs(SOURCE)] == [3, 2, 1]
        assert [run.seq for run in await client.runs(SOURCE, limit=3, after=3)] == [2, 1]
        assert [each.doc_key for each in await client.documents(SOURCE, limit=3)] == [
            each.doc_key for each in documents[:3]
        ]
        outcomes = await client.outcomes(SOURCE, 1)
        assert {each.doc_key for each in outcomes} == set(DOCUMENTS)
        first = await client.outcomes(SOURCE, 1, limit=1)
        assert {each.doc_key for each in first} == {outcomes[0].doc_key}
        assert len(await client.parked()) == 3


def test_no_link_leads_elsewhere() -> None:
    """Of the next page's address only the place in the listing is taken, so the key stays here."""
    headers = {"Link": '<http://elsewhere/steal?after=a%2Fb%26c&limit=5>; rel="next"'}
    assert next_after(httpx.Response(200, headers=headers)) == "a/b&c"
    assert next_after(httpx.Response(200)) is None


def test_a_page_holds_whole_keys() -> None:
    """What belongs to one key is never torn apart by the end of a page."""
    items = [("a", 1), ("a", 2), ("b", 1), ("b", 2)]
    assert cut(items, 1, lambda item: item[0]) == ([("a", 1), ("a", 2)], "a")
    assert cut(items, 2, lambda item: item[0]) == (items, None)


@pytest.mark.parametrize("limit", ["0", "-1", "1001", "many", "1e3"])
async def test_the_size_of_a_page_is_bounded(tmp_path: Path, limit: str) -> None:
    """No caller makes the stack read everything at once."""
    async with api(tmp_path) as http:
        for path in LISTINGS:
            refused = await http.get(path, params={"limit": limit})
            check_problem(refused, 422, "ConfigurationError")
            assert "limit is wrong" in refused.json()["detail"]


@pytest.mark.parametrize(
    ("authorization", "challenge"),
    [
        (None, "Bearer"),
        ("", 'Bearer error="invalid_token"'),
        (f"Bearer {KEY}x", 'Bearer error="invalid_token"'),
        (f"Basic {KEY}", 'Bearer error="invalid_token"'),
        (KEY, 'Bearer error="invalid_token"'),
        ("Bearer \xe9", 'Bearer error="invalid_token"'),
    ],
)
async def test_nothing_but_health_answers_a_stranger(
    tmp_path: Path, authorization: str | None, challenge: str
) -> None:
    """Every route, known or not, and the document of the API too, ask for the key first."""
    headers = {} if authorization is None else {"Authorization": authorization.encode("latin-1")}
    async with memory_stack(tmp_path) as services, opened(services, None) as http:
        paths = describe()["paths"]
        calls = [(method.upper(), path) for path in paths for method in paths[path]]
        assert len(calls) > 15
        for method, path in [*calls, ("GET", "/openapi.json"), ("GET", "/no/such"), ("PUT", "/")]:
            answer = await http.request(method, path, headers=headers)
            if path == "/healthz":
                assert answer.status_code == 200
                continue
            check_problem(answer, 401, "ConfigurationError")
            assert answer.headers["www-authenticate"] == challenge


async def test_the_scheme_of_the_key_may_be_written_in_any_case(tmp_path: Path) -> None:
    """Schemes don't mind case (RFC 9110); the key does."""
    async with api(tmp_path, None) as http:
        for value, status in ((f"bearer {KEY}", 200), (f"Bearer {KEY.upper()}", 401)):
            answer = await http.get("/status", headers={"Authorization": value})
            assert answer.status_code == status


async def test_every_kind_of_error_is_a_problem(tmp_path: Path) -> None:
    """Class, sentence and status are there whether a route, its arguments or a source is wrong."""
    async with api(tmp_path) as http:
        check_problem(await http.get("/no/such/route"), 404, "ConfigurationError")
        check_problem(await http.get("/sources/"), 404, "ConfigurationError")
        check_problem(await http.get("/sources/nope"), 404, "UnknownSource")
        check_problem(await http.get("/sources/No%20name"), 404, "UnknownSource")
        check_problem(await http.get(f"/sources/{SOURCE}/runs/99"), 404, "UnknownRun")
        missing = await http.get(f"/sources/{SOURCE}/document", params={"key": "no/such"})
        check_problem(missing, 404, "UnknownDocument")
        for beyond in (0, OPEN_SEQ + 1, 10**30):
            wrong = await http.get(f"/sources/{SOURCE}/runs/{beyond}")
            check_problem(wrong, 422, "ConfigurationError")
        question = {"text": "tide", "sources": [SOURCE, "nope"], "at": 1}
        check_problem(await http.post("/search", json=question), 404, "UnknownSource")
        place = {"source_id": "new", "kind": "bucket", "container": "x"}
        check_problem(await http.post("/sources", json=place), 400, "UnknownKind")
        nobody_waits = await http.post(f"/sources/{SOURCE}/verdict", json={"approve": True})
        check_problem(nobody_waits, 409, "RunError")


async def test_a_wrong_method_is_told_the_right_ones(tmp_path: Path) -> None:
    """`Allow` names what the path takes, by whichever route."""
    async with api(tmp_path) as http:
        for path, allowed in (("/sources", "GET, POST"), (f"/sources/{SOURCE}", "DELETE, GET")):
            refused = await http.put(path)
            check_problem(refused, 405, "ConfigurationError")
            assert refused.headers["allow"] == allowed


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'"text"',
        b'{"text": "x", "sources": ["handbook"], "limit": "5"}',
        b'{"text": "x", "sources": ["handbook"], "limit": true}',
        b'{"text": "x", "sources": ["handbook"], "at": 1e400}',
        b'{"text": "x", "sources": ["handbook"], "dense_weight": NaN}',
        b'{"text": "\\ud800", "sources": ["handbook"]}',
        b'{"text": " ", "sources": ["handbook"]}',
        b'{"text": "x", "sources": []}',
        b'{"text": "x", "sources": ["handbook"], "at": 9007199254740992}',
    ],
)
async def test_a_body_that_isn_t_meant_is_not_guessed_at(tmp_path: Path, body: bytes) -> None:
    """A text is no number, and what can't be stored or searched is refused with its place."""
    async with api(tmp_path) as http:
        headers = {"Content-Type": "application/json"}
        check_problem(
            await http.post("/search", content=body, headers=headers), 422, "ConfigurationError"
        )


async def test_a_body_of_no_text_is_a_bad_request(tmp_path: Path) -> None:
    """What isn't UTF-8 can't be JSON."""
    async with api(tmp_path) as http:
        headers = {"Content-Type": "application/json"}
        refused = await http.post("/search", content=b"\xff", headers=headers)
        check_problem(refused, 400, "ConfigurationError")


async def test_whole_numbers_are_integers_however_written(tmp_path: Path) -> None:
    """JSON has one kind of number: 1.0 is 1."""
    async with api(tmp_path) as http:
        question = {"text": "tide", "sources": [SOURCE], "limit": 1.0, "dense_weight": 1}
        answer = await http.post("/search", json=question)
        assert answer.status_code == 200
        assert len(answer.json()["hits"]) == 1


async def test_a_large_body_is_refused_unread(tmp_path: Path) -> None:
    """Announced or streamed, no more than the limit is taken in."""
    taken = 0

    async def stream() -> AsyncIterator[bytes]:
        nonlocal taken
        while taken <= 4 * LARGEST_BODY:
            taken += 2**16
            yield b" " * 2**16

    async with api(tmp_path) as http:
        headers = {"Content-Type": "application/json"}
        announced = await http.post("/search", content=b" " * (LARGEST_BODY + 1), headers=headers)
        check_problem(announced, 413, "ConfigurationError")
        streamed = await http.post("/search", content=stream(), headers=headers)
        check_problem(streamed, 413, "ConfigurationError")
        assert taken <= LARGEST_BODY + 2**17


async def test_a_failure_of_ours_tells_no_secret(tmp_path: Path) -> None:
    """An unforeseen error is a problem with the name of its class and nothing else of it."""

    class Broken:
        async def ask(self, question: SearchQuestion) -> SearchAnswer:
            raise ZeroDivisionError("the key is 12345")

    async with (
        memory_stack(tmp_path) as services,
        opened(replace(services, search=Broken())) as http,
    ):
        with capture_logs() as lines:
            failed = await http.post("/search", json={"text": "x", "sources": [SOURCE]})
        check_problem(failed, 500, "SluiceError")
        assert "ZeroDivisionError" in failed.json()["detail"]
        assert "12345" not in failed.text
        assert [line["error"] for line in lines] == ["ZeroDivisionError"]


async def test_documents_named_twice_are_tried_once(tmp_path: Path) -> None:
    """As many are counted as there are, served and failed ones alike."""
    async with api(tmp_path) as http:
        keys = ["guide/start.md", "torn.md"] * 500
        for verb, named, count in (("acknowledge", ["torn.md"] * 2, 1), ("retry", keys, 2)):
            answer = await http.post(f"/sources/{SOURCE}/documents/{verb}", json={"keys": named})
            assert answer.json()["documents"] == count


async def test_the_document_of_the_api_is_served_and_the_same_without_a_stack(
    tmp_path: Path,
) -> None:
    """With the key, and by the command line without one."""
    async with api(tmp_path) as http:
        assert (await http.get("/openapi.json")).json() == describe()


def test_every_operation_is_described() -> None:
    """Summary, description, tag, key, examples and problems are said of each."""
    document = describe()
    named = {tag["name"] for tag in document["tags"]}
    operations = [
        (path, operation)
        for path, methods in document["paths"].items()
        for operation in methods.values()
    ]
    assert len({operation["operationId"] for _, operation in operations}) == len(operations)
    for path, operation in operations:
        assert operation["summary"]
        assert operation["description"]
        assert set(operation["tags"]) <= named
        if path == "/healthz":
            assert "security" not in operation
            continue
        assert operation["security"] == [{"key": []}]
        problems = {status for status in operation["responses"] if status >= "4"}
        assert problems >= {"401", "422", "500", "503"}
        for status in problems:
            content = operation["responses"][status]["content"]
            assert content[MEDIA_TYPE]["schema"] == {"$ref": "#/components/schemas/Problem"}
            assert content[MEDIA_TYPE]["example"]["status"] == int(status)
        [success] = operation["responses"].keys() - problems
        assert operation["responses"][success]["content"]["application/json"]["example"]
        if "requestBody" in operation:
            assert problems >= {"400", "413"}
            assert operation["requestBody"]["content"]["application/json"]["examples"]


async def test_a_link_keeps_a_strange_key(tmp_path: Path) -> None:
    """Spaces, marks and other scripts in a key come through the address of the next page."""
    key = next(key for key in DOCUMENTS if "?" in key)
    async with api(tmp_path) as http:
        documents = sorted(DOCUMENTS, key=str.encode)
        limit = documents.index(key) + 1
        path = f"/sources/{SOURCE}/documents"
        page = await http.get(path, params={"limit": limit})
        if limit < len(documents):
            query = parse_qs(urlsplit(page.links["next"]["url"]).query)
            assert query["after"] == [key]

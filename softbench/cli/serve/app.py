"""The HTTP interface of a queue: JSON in, JSON out, every error one line. Each request has to show the token."""

import asyncio
import contextlib
import hmac
import json
import os
import signal
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import asdict
from typing import Any

from softbench.cli import boards
from softbench.cli.serve import runner, submission
from softbench.cli.serve.jobs import OPEN, Job, Queue, QueueFull
from softbench.cli.serve.runner import Runner
from softbench.records import store
from softbench.texts import InputError


class _Refused(Exception):
    def __init__(self, status: int, error: str) -> None:
        super().__init__(error)
        self.status = status


def shown(job: Job) -> dict[str, Any]:
    found = asdict(job)
    del found["process"]
    return found


def _json(data: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Any:
    """An answer in JSON; a text is JSON already."""
    from starlette.responses import Response

    return Response(data if isinstance(data, str) else json.dumps(data) + "\n", status, headers, "application/json")


class _Answers:
    """The answer to each request. Requests and responses are those of starlette."""

    def __init__(self, queue: Queue, jobs: Runner, token: str) -> None:
        self._queue, self._runner, self._token = queue, jobs, token.encode()

    def guarded(self, answer: Callable[..., Any]) -> Callable[[Any], Any]:
        """An answer for those who have the token; errors become one line."""

        async def guarded(request: Any) -> Any:
            given = request.headers.get("authorization", "").encode()
            if not hmac.compare_digest(given, b"Bearer " + self._token):
                error = {"error": "send the token: Authorization: Bearer TOKEN"}
                return _json(error, 401, {"WWW-Authenticate": "Bearer"})
            try:
                return await answer(request)
            except _Refused as refused:
                return _json({"error": str(refused)}, refused.status)

        return guarded

    async def submit(self, request: Any) -> Any:
        data = await _body(request)
        try:
            with self._queue.staged() as place:
                job = self._queue.add(place, await asyncio.to_thread(submission.check, data, place))
        except QueueFull as error:
            raise _Refused(503, str(error)) from None
        except InputError as error:
            raise _Refused(400, str(error)) from None
        except OSError as error:
            raise _Refused(507, f"the job cannot be kept: {error.strerror}") from None
        self._runner.wake()
        return _json(shown(job), 201)

    async def every(self, request: Any) -> Any:
        return _json({"jobs": [shown(job) for job in self._queue.jobs.values()]})

    async def one(self, request: Any) -> Any:
        return _json(shown(self._job(request)))

    async def cancel(self, request: Any) -> Any:
        job = self._job(request)
        if job.state not in OPEN:
            raise _Refused(409, f"job {job.id} is {job.state}")
        return _json(shown(self._runner.cancel(job)))

    async def events(self, request: Any) -> Any:
        from starlette.responses import StreamingResponse

        return StreamingResponse(runner.events(self._queue, self._job(request).id), media_type="application/x-ndjson")

    async def result(self, request: Any) -> Any:
        job = self._job(request)
        try:
            run = await asyncio.to_thread(store.load, "latest", self._queue.project(job) / "reports")
            text = await asyncio.to_thread(boards.table_json, run)
        except InputError:
            raise _Refused(404, f"job {job.id} is {job.state} and has no records") from None
        return _json(text)

    async def records(self, request: Any) -> Any:
        return self._file(request, lambda job: store.find(self._queue.project(job) / "reports", "latest"))

    async def output(self, request: Any) -> Any:
        return self._file(request, lambda job: self._queue.folder(job) / "output.txt")

    def _file(self, request: Any, find: Callable[[Job], os.PathLike[str]]) -> Any:
        from starlette.responses import FileResponse

        job = self._job(request)
        with contextlib.suppress(InputError):
            if os.path.isfile(path := find(job)):
                return FileResponse(path, media_type="text/plain; charset=utf-8")
        raise _Refused(404, f"job {job.id} is {job.state} and has no such file")

    def _job(self, request: Any) -> Job:
        number = request.path_params["job"]
        if number not in self._queue.jobs:
            raise _Refused(404, f"no job {number!r:.40}")
        return self._queue.jobs[number]


async def _body(request: Any) -> Any:
    """The JSON of a request that is not too long."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > submission.MOST_BODY:
            raise _Refused(413, f"a submission has at most {submission.MOST_BODY >> 20} MiB")
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise _Refused(400, "a submission is a JSON object") from None


def _stop_unless_cancelled(task: asyncio.Task[None]) -> None:
    """A server that runs nothing any more takes no jobs: it ends, with the error of the task."""
    if not task.cancelled():
        os.kill(os.getpid(), signal.SIGTERM)


def build(queue: Queue, jobs: Runner, token: str) -> Any:
    """The application, which runs the jobs as long as it is served."""
    from starlette.applications import Starlette
    from starlette.routing import Route

    @contextlib.asynccontextmanager
    async def running(app: Any) -> AsyncIterator[None]:
        task = asyncio.create_task(jobs.run())
        task.add_done_callback(_stop_unless_cancelled)
        yield
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    async def unknown(request: Any, error: Any) -> Any:
        return _json({"error": f"{error.detail}: {request.method} {request.url.path!r:.80}"}, error.status_code)

    answers = _Answers(queue, jobs, token)
    known = [("POST", "", "submit"), ("GET", "", "every"), ("GET", "/{job}", "one"), ("POST", "/{job}/cancel", "cancel")]
    known += [("GET", f"/{{job}}/{name}", name) for name in ("events", "result", "records", "output")]
    routes = [Route(f"/jobs{path}", answers.guarded(getattr(answers, name)), methods=[method]) for method, path, name in known]
    return Starlette(routes=routes, lifespan=running, exception_handlers={404: unknown, 405: unknown})

"""A dashboard to ask, and runs worth looking at."""

from __future__ import annotations

import re
from typing import Any

from starlette.testclient import TestClient
from support import Runs, attached, recorded

from critiqor.dashboard.fleet.source import Fleet
from critiqor.dashboard.pages import site
from critiqor.dashboard.pages.site import Site
from critiqor.dashboard.web.application import application
from critiqor.run.store import RunStore

RUN_PAGES = tuple(f"/{name}".rstrip("/") for name in site.RUN_PAGES)
"""The ends of the addresses of a run's pages."""
PORT = 4242
BEGIN = 1_794_000_000_000


class Dashboard:
    """The application of a runs folder, and browsers that hold its link or do not."""

    def __init__(self, runs: Runs, *tenants: str, fleet: Fleet | None = None) -> None:
        self.site = Site(RunStore(runs.folder), PORT, fleet=fleet)
        self.app = application(self.site)
        self._token = self.site.access.admit(*(tenants or ("default",)))

    def stranger(self) -> TestClient:
        """Somebody who holds nothing."""
        return TestClient(self.app, base_url=self.site.address, follow_redirects=False)

    def user(self, tenant: str | None = None) -> TestClient:
        """The one who started it, with the cookie that the opened link gives; or one who sees another tenant."""
        client = self.stranger()
        token = self._token if tenant is None else self.site.access.admit(tenant)
        answer = client.get("/open", params={"token": token})
        assert answer.status_code == 200
        return client

    def guest(self, run_id: str) -> TestClient:
        """Somebody with a link to one run."""
        client = self.stranger()
        assert client.get(f"/share/{self.site.links.make(run_id)}").status_code == 200
        return client


def failing_tests(runs: Runs, text: str = "1 failed, 11 passed", tool: str = "exec", **metadata: str) -> str:
    """A sealed run in which a command fails and the agent says that all is well."""
    run_id = runs.start(**metadata)
    request, reply = {"text": f"Fix it: {text}", "role": "user"}, {"text": "Done: all tests pass.", "role": "assistant"}
    call = {"tool_name": tool, "tool_call_id": "call_1"}
    result = {"result": {"content": [{"type": "text", "text": text}], "details": {"exitCode": 1}}}
    usage = {"usage": {"input": 900, "output": 30, "cost": {"total": 0.01}}, "provider": "lab", "model": "scripted"}
    events: list[dict[str, Any]] = [
        attached(1, at=BEGIN),
        recorded(2, "agent_start", at=BEGIN + 10, payload={"attempt": 1}),
        recorded(9, "message_end", at=BEGIN + 15, payload=request),
        recorded(3, "before_provider_request", at=BEGIN + 20, payload={"callId": "m1", "contextTokenBudget": 1000}),
        recorded(4, "after_provider_response", at=BEGIN + 900, duration_ms=880, payload={"callId": "m1", **usage}),
        recorded(5, "tool_call", at=BEGIN + 1000, payload={"arguments": {"command": f"npm test {text}"}}, **call),
        recorded(
            6, "tool_result", at=BEGIN + 2000, status="error", error=f"exit code 1: {text}", payload=result, **call
        ),
        recorded(7, "message_end", at=BEGIN + 2500, payload=reply),
        recorded(8, "agent_end", at=BEGIN + 3000, payload={"success": True}),
    ]
    runs.write(run_id, *events)
    runs.finalize(run_id)
    return run_id


def event_ids(page: str) -> list[str]:
    """The events that a page links to, in order, each once."""
    return list(dict.fromkeys(re.findall(r"/events/(evt_[0-9a-z_]+)", page)))

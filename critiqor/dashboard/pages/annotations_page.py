"""What the user says about a run: tags, a note, and that a finding is wrong."""

from __future__ import annotations

import msgspec
from anyio import to_thread
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from critiqor.dashboard.pages.site import Site
from critiqor.dashboard.web.forms import read_form
from critiqor.errors import UsageError
from critiqor.model import iso_from_ms, now_ms
from critiqor.storage.annotations import MAX_NOTE, Annotations, Feedback, change_annotations, parse_tags


class AnnotationsPage:
    """Saves annotations of a run, for the user only. Evidence, record and diagnosis stay as they are."""

    def __init__(self, site: Site) -> None:
        self._site = site

    async def save(self, request: Request) -> Response:
        """Save tags and note of a run."""
        self._site.user(request)
        form = await read_form(request)
        return await to_thread.run_sync(self._save, request, form)

    def _save(self, request: Request, form: dict[str, str]) -> Response:
        data = self._site.run_data(request)
        tags, note = parse_tags(form.get("tags", "")), form.get("note", "").replace("\r\n", "\n").strip()
        if len(note) > MAX_NOTE:
            raise UsageError(f"A note has at most {MAX_NOTE:,} characters.", fix="Shorten the note.")

        def change(known: Annotations) -> Annotations:
            return msgspec.structs.replace(known, tags=tags, note=note)

        change_annotations(data.view.run.paths, data.run_id, change)
        return RedirectResponse(f"/runs/{data.run_id}#annotations", status_code=303)

    def judge(self, request: Request) -> Response:
        """Save that a finding is wrong, or take that back; the address says which."""
        self._site.user(request)
        data = self._site.run_data(request)
        finding = next((each for each in data.findings if each.id == request.path_params["finding_id"]), None)
        if finding is None or request.path_params["judgement"] not in ("wrong", "right"):
            raise HTTPException(404, "There is no such finding in the diagnosis.")
        is_wrong = request.path_params["judgement"] == "wrong"
        said = Feedback(
            finding_id=finding.id,
            type=finding.type,
            cause=finding.cause,
            session_key=finding.session_key,
            given_at=iso_from_ms(now_ms()),
        )

        def change(known: Annotations) -> Annotations:
            others = [
                each
                for each in known.feedback
                if (each.cause, each.session_key) != (finding.cause, finding.session_key)
            ]
            return msgspec.structs.replace(known, feedback=[*others, said] if is_wrong else others)

        change_annotations(data.view.run.paths, data.run_id, change)
        return RedirectResponse(data.addresses.finding(finding.id), status_code=303)

// The addresses of the dashboard.
import { diagnosisOf, fixtures, runs } from "./stage.mjs";

export const RUN_PAGES = ["", "/conversation", "/diagnosis", "/timeline", "/evidence", "/cost", "/context", "/playbook", "/live", "/trust"];

export const pagesOf = (run) => RUN_PAGES.map((page) => `/runs/${run}${page}`);

/** The event where the main problem of a run began. */
export function firstBadEvent(run) {
  const { failure_analysis: { findings }, primary_diagnosis: primary } = diagnosisOf(run);
  return findings.find((each) => each.id === primary.finding_id).first_bad_step;
}

export const firstBadEventPage = (run) => `/runs/${run}/events/${encodeURIComponent(firstBadEvent(run))}`;

/** The conversation of a session. */
export const sessionPage = (run, key, query = "") => `/runs/${run}/sessions/${encodeURIComponent(key)}${query}`;

/** Pages about the fleet, and those of runs in its store. */
const FLEET = [
  "/fleet",
  "/fleet?days=all&version=2026.10.1",
  "/fleet?host=nobody",
  "/fleet/runs",
  "/fleet/runs?host=build-*&verdict=unsafe&sort=-trust&page=1",
  "/fleet/runs?agent=nobody",
  `/fleet/compare?run=build-7/${runs.claim}&run=build-7/${runs.misreporting}&calls=all`,
  "/fleet/search",
  "/fleet/search?q=tests",
  `/fleet/search?q=${fixtures.mark}`,
  `/fleet/runs/${fixtures.fleet.structure_host}/${runs.shared}`,
  ...RUN_PAGES.filter((page) => page !== "/live").map((page) => `/fleet/runs/build-7/${runs.claim}${page}`),
];

/** One address of every kind. */
export const EVERY_PAGE = [
  "/runs",
  "/runs?q=agent&type=false_success_claim",
  "/runs?q=nothing+is+called+so",
  "/search",
  "/search?q=pytest",
  "/sessions",
  "/sessions?verdict=unsafe&sort=-trust",
  `/runs/${runs.misreporting}/sessions`,
  `/runs/${runs.misreporting}/sessions?q=telegram&sort=cost`,
  `/compare?run=${runs.clean}&run=${runs.claim}`,
  `/compare?run=${runs.misreporting}&run=${runs.forgetful}&calls=all`,
  "/costs",
  "/costs?by=session&verdict=unsafe",
  `/runs/removal?run=${runs.clean}&run=${runs.claim}`,
  ...pagesOf(runs.claim),
  firstBadEventPage(runs.claim),
  `/runs/${runs.claim}/evidence?q=pytest&status=error`,
  `/runs/${runs.claim}/timeline?from=0&to=50`,
  sessionPage(runs.claim, "agent:main:main", "?q=pytest"),
  sessionPage(runs.claim, "agent:main:main", `?show=problems`),
  `/runs/${runs.claim}/trust?verify=1`,
  ...FLEET,
];

/** Pages of other kinds of runs that differ. */
export const OTHER_RUNS = [
  ...["", "/diagnosis", "/evidence", "/playbook", "/cost"].map((page) => `/runs/${runs.circles}${page}`),
  ...["", "/conversation", "/context", "/timeline", "/diagnosis"].map((page) => `/runs/${runs.forgetful}${page}`),
  ...["", "/conversation"].map((page) => `/runs/${runs.misreporting}${page}`),
  ...fixtures.sessions.map((key) => sessionPage(runs.misreporting, key)),
  ...["/timeline", "/context", "/evidence", "/live"].map((page) => `/runs/${runs.misreporting}${page}?session=${encodeURIComponent(fixtures.sessions[0])}`),
  ...["/timeline?detail=all", "/evidence?all=1", "/cost", "/context"].map((page) => `/runs/${runs.misreporting}${page}`),
  ...["", "/timeline"].map((page) => `/runs/${runs.stalled}${page}`),
  ...["/diagnosis", "/context"].map((page) => `/runs/${runs.large}${page}`),
  ...pagesOf(runs.imported),
  ...["", "/diagnosis", "/playbook", "/timeline"].map((page) => `/runs/${runs.clean}${page}`),
  ...pagesOf(runs.empty),
  ...pagesOf(runs.aborted),
  ...["", "/diagnosis", "/timeline", "/cost", "/playbook", "/trust"].map((page) => `/runs/${runs.broken}${page}`),
  `/runs/${runs.shared}/trust`,
  ...["", "/conversation", "/sessions"].map((page) => `/fleet/runs/build-7/${runs.misreporting}${page}`),
  ...["", "/diagnosis", "/conversation"].map((page) => `/fleet/runs/desk/run_001${page}`),
];

/** Addresses that are errors, with their status. */
export const REFUSALS = [
  ["/runs/run_999", 404],
  ["/fleet/runs/build-7/run_999", 404],
  ["/fleet/runs/build-9/run_009", 422],
  [`/runs/${runs.claim}/events/evt_nothing`, 404],
  [`/compare?run=${runs.claim}`, 400],
  ["/no/such/page", 404],
  [sessionPage(runs.claim, "agent:main:nobody"), 404],
];

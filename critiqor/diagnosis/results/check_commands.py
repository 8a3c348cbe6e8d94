"""Command lines that check something: tests, builds, linters, measurements."""

from __future__ import annotations

import re

_RUNNERS = (
    *("pytest", "py.test", "unittest", "tox", "nox", "jest", "vitest", "mocha", "ava", "rspec", "minitest", "phpunit"),
    *("ctest", "bats", "behave", "cypress", "playwright", "tsc", "vue-tsc", "eslint", "ruff", "mypy", "flake8"),
    *("pylint", "shellcheck", "conftest", "hyperfine", "coverage", "mvn", "mvnw", "gradle", "gradlew", "make", "cmake"),
    *("webpack", "k6", "ab", "wrk", "time", "dbt", "rubocop", "golangci-lint", "prettier", "black", "stylelint"),
    *("yamllint", "biome", "oxlint", "pyright", "ktlint", "detekt", "spotbugs", "xmllint", "hadolint", "actionlint"),
    *("ansible-lint", "tflint", "kubeconform", "kubeval", "checkov", "tfsec", "trivy", "grype", "snyk", "bandit"),
    *("semgrep", "gitleaks", "trufflehog", "pip-audit", "great_expectations", "lighthouse", "pa11y", "lychee", "vale"),
)
_SUBCOMMANDS = (
    r"cargo (?:test|check|clippy|build|bench)|go (?:test|vet|build)|dotnet (?:test|build)|swift (?:test|build)"
    r"|terraform (?:plan|validate)|helm lint|(?:npm|pnpm|yarn|cargo|bundle|composer) audit"
    r"|nginx -t|(?:gh|glab) (?:pr checks|run watch)|(?:npm|pnpm|yarn|bun|deno)(?: run)? "
    r"\S{0,80}?(?:test|build|lint|check|perf|bench|typecheck|e2e|ci)|python3? -m (?:pytest|unittest|mypy)"
)
_WRAPPERS = (
    r"(?:\w{1,40}=\S{0,99}\s+|sudo\s+|env\s+|npx\s+|bunx\s+|uv run\s+|uvx\s+|poetry run\s+|bundle exec\s+"
    r"|timeout \S{1,9}\s+)*"
)
_NAMED = r"\S{0,80}?(?:test|check|verify|validat|lint|bench)\S{0,80}"
_CHECK = re.compile(
    rf"(?:^|&&|\|\||[;|(]|\n)\s{{0,40}}+{_WRAPPERS}"
    rf"(?:(?:\S{{0,200}}/)?(?:{'|'.join(map(re.escape, _RUNNERS))})(?=\s|$)|{_SUBCOMMANDS}"
    rf"|{_NAMED}\.(?:sh|py|js|ts|rb)\b"
    rf"|(?:python3?|node|bash|sh|ruby) {_NAMED})"
)


def is_check(line: str) -> bool:
    """Return whether a command line checks something: tests, builds, linters, measurements."""
    return bool(line) and _CHECK.search(line) is not None

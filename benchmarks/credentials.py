"""Credentials for the benchmark of redaction: each kind as its vendor publishes it, in the places where it is used.

Every credential is made from random characters when the benchmark runs, so that no file holds anything that has the
form of one. A kind is *shaped* if it can be recognized wherever it is; of other kinds, only a name says what they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import NamedTuple

from credential_kinds import KINDS
from credential_places import OWN_PLACES


class Sample(NamedTuple):
    """A text with a credential in it."""

    kind: str
    context: str
    secret: str
    text: str


_NAMED = {
    "export": "export {variable}={secret}",
    ".env": "# settings\n{variable}={secret}\nDEBUG=1",
    ".env, quoted": '{variable}="{secret}"',
    "command with variable": "{variable}={secret} npm start",
    "docker": "docker run -e {variable}={secret} -p 80:80 app",
    "yaml": "env:\n  {small}: {secret}\n  debug: true",
    "yaml, quoted": "{small}: '{secret}'",
    "json": '{{"{camel}": "{secret}", "debug": true}}',
    "json in json": '{{"body": "{{\\"{small}\\": \\"{secret}\\"}}"}}',
    "ini": "[default]\n{small} = {secret}\nregion = eu",
    "kubernetes": "- name: {variable}\n  value: {secret}\n",
    "environment as json": '[{{"name": "{variable}", "value": "{secret}"}}]',
    "python": 'client = Client({small}="{secret}")',
    "javascript": "const {camel} = '{secret}';",
    "option": "deploy --{dashed} {secret} --verbose",
    "option with =": "deploy --{dashed}={secret}",
    "log": "2026-01-02T03:04:05Z DEBUG config loaded {small}={secret} retries=3",
    "printenv": "HOME=/root\n{variable}={secret}\nLANG=C",
    "prose": "The {phrase} is {secret}, please keep it.",
    "prose, quoted": "Here is my {phrase}: `{secret}`",
}
_ANYWHERE = {
    "bearer": "curl -H 'Authorization: Bearer {secret}' https://api.example.com",
    "log, bare": "2026-01-02T03:04:05Z WARN rejected {secret} from 10.0.0.1",
    "prose, bare": "I used {secret} for the request.",
    "list": '["--verbose", "{secret}", 3]',
    "table": "| prod | {secret} | active |",
}


def samples(random: Random) -> Iterator[Sample]:
    """Yield every kind once in each of its places."""
    for kind in (*KINDS, *OWN_PLACES):
        if kind.places:
            for number, place in enumerate(kind.places):
                secret = kind.make(random)
                yield Sample(kind.name, f"own {number + 1}", secret, place.format(secret))
            continue
        small = kind.variable.lower()
        first, *others = small.split("_")
        names = {
            "variable": kind.variable,
            "small": small,
            "camel": first + "".join(map(str.capitalize, others)),
            "dashed": small.replace("_", "-"),
            "phrase": small.replace("_", " "),
        }
        for context, place in (_NAMED | (_ANYWHERE if kind.shaped else {})).items():
            secret = kind.make(random)
            yield Sample(kind.name, context, secret, place.format(secret=secret, **names))

"""What a call destroys, overwrites, stops or sends to everybody: by its command line, or by tool and arguments."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Literal

import msgspec

from critiqor.diagnosis.claims.call_arguments import argument_text, members, path_of
from critiqor.diagnosis.claims.episode import EpisodeCall
from critiqor.diagnosis.hazards.hazard import facts_of
from critiqor.diagnosis.results.command_lines import parse_command_line
from critiqor.diagnosis.results.programs import Program, programs_in
from critiqor.spans.calls import Kind

Verb = Literal["delete", "force", "discard", "stop", "overwrite", "send"]
_DRY = re.compile(
    r"--dry-?run|--whatif|--check\b|\brsync\b.*\s-\w*n|--diff|--preview|--no-act|--simulate|dryrun", re.IGNORECASE
)
_REMOVING = re.compile(
    r"(?:delete|destroy|purge|wipe|terminate|drop|rmi?|remove|uninstall|erase|rb|del|prune)(?:-[a-z-]+)?|.+:(?:destroy"
    r"|delete|drop|reset|purge)|-Delete"
)
_PACKAGES = frozenset(
    (
        *(
            "pip",
            "pip3",
            "npm",
            "yarn",
            "pnpm",
            "bun",
            "cargo",
            "brew",
            "apt",
            "apt-get",
            "dnf",
            "yum",
            "pacman",
            "apk",
        ),
        *("conda", "gem", "composer", "poetry", "uv", "bundle", "nvm", "asdf", "snap"),
    )
)
_REBUILT = frozenset(
    ("docker", "podman", "nerdctl", "buildah", "git", "systemctl", "ip", "tmux", "screen", "echo", "printf", "grep")
)
"""Programs whose subcommands for removing are judged one by one, or that remove nothing."""
_SQL = re.compile(
    r"\b(?:DROP\s+(?:DATABASE|TABLE|SCHEMA|COLLECTION|KEYSPACE|INDEX)\s+(?:IF\s+EXISTS\s+)?"
    r"|TRUNCATE\s+(?:TABLE\s+)?|DELETE\s+FROM\s+)"
    r"[`\"\[]?([\w.$-]+)",
    re.IGNORECASE,
)
_ROLLED_BACK = re.compile(r"\bROLLBACK(?:\s+(?:TRANSACTION|WORK))?\s*;?[\s\"'`)}\]]*$", re.IGNORECASE)
"""The end of statements that are undone, such as those of a trial."""
_MOVED = re.compile(r"\bRETURNING\b[^;]{0,400}\bINSERT\s+INTO\b", re.IGNORECASE)
_SQL_UPDATE = re.compile(r"\bUPDATE\s+[`\"\[]?([\w.$-]+)[`\"\]]?\s+SET\s", re.IGNORECASE)
UPDATE_OF_ALL = "UPDATE without WHERE"
"""How a statement overwrites a column of all rows."""
_SQL_PROGRAMS = frozenset(
    ("psql", "mysql", "mariadb", "sqlite3", "clickhouse-client", "sqlcmd", "cqlsh", "duckdb", "mongosh", "mongo")
)
_DATABASE = re.compile(
    r"\bFLUSH(?:ALL|DB)\b|dropDatabase\(|\.drop\(\)|deleteMany\(\{\s*\}\)|manage\.py (?:flush|reset_db)|migrate "
    r"\w+ zero"
    r"|prisma migrate reset|db:(?:drop|reset|purge)|alembic downgrade base|artisan migrate:(?:fresh|reset)",
    re.IGNORECASE,
)
_DEVICE = re.compile(r"mkfs(?:\.\w+)?|wipefs|shred|lvremove|vgremove|blkdiscard")
_EMPTIED = re.compile(
    r"(?:^|[;&|\n])[ \t]*+(?:(?::|true|cat /dev/null|echo -n)[ \t]*+)?>[ \t]*+([\w./~-]+)[ \t]*+(?=$|[;&|\n])"
)
_WRITTEN = re.compile(r"(?<![\d&>])>{1,2}\s*([\w./~-]+)")
_TOOL = re.compile(
    r"(?:^|[_.\-:])(delete|remove|trash|purge|destroy|drop|wipe|erase|revoke|terminate|truncate|deactivate"
    r"|discard|flush|empty"
    r"|cancel|bulkdelete|uninstall)(?:d|s)?(?:$|[_.\-:])",
    re.IGNORECASE,
)
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_OWN_TOOLS = re.compile(
    r"process|session|browser|canvas|todo|plan|notebook|tab|window|label|tag|reaction|cron|filter|draft", re.I
)
_KEEPS = re.compile(r"draft|preview|template|label|archive|mark_|search|render", re.IGNORECASE)
_SENDING = re.compile(r"send|mail|message|post|campaign|broadcast|notify|newsletter|publish|sms|invite", re.IGNORECASE)
_EVERYBODY = re.compile(
    r"^(?:\*|@?all|@?everyone|@?everybody|@channel|@here|all[_ -].*|.*[_-]all|everyone@.*|all@.*|all-hands.*"
    r"|company-wide)$",
    re.I,
)
_REACHED = re.compile(
    r'"(?:recipients|emails_sent|sent_to|audience_size|recipient_count|total_recipients)":\s?(\d{1,9})'
)
_AUDIENCE = frozenset(
    ("to", "segment", "audience", "recipients", "recipient", "list", "group", "channel", "target", "scope", "cc", "bcc")
)
_APPLYING = re.compile(
    r"\b(?:terraform|tofu|terragrunt)\b.*? apply\b|\bpulumi up\b|\bcdk deploy\b|\bhelm(?:file)? (?:upgrade|apply)\b"
    r"|\bcloudformation (?:deploy|execute-change-set)\b|\bkubectl apply\b.* --prune|\bprisma (?:db push|migrate)\b"
    r"|\b(?:liquibase|flyway|atlas|alembic)\b.*? (?:update|migrate|apply|upgrade)\b"
)
"""Programs that bring something to a wanted state, and may destroy things on the way."""
_APPLYING_TOOL = re.compile(r"sync|mirror|import|apply|migrat|deploy|reconcil|replace_all|restore", re.IGNORECASE)
_DESTROYED = re.compile(
    r"(?<![\w.])[1-9]\d*(?: resources?| tables?| columns?)? (?:destroyed|deleted|dropped|pruned|replaced)\b"
    r"|\bDestruction complete\b|: Destroying\.\.\.|^\s*[-+]*-\s?[1-9]\d* (?:deleted|replaced)\b"
    r'|"(?:deleted|removed|destroyed|purged|dropped|overwritten)(?:_\w+)?":\s?[1-9]\d',
    re.MULTILINE,
)
_DESTROYED_THING = re.compile(r"^\s*(\S{3,80}): Destroying\.\.\.", re.MULTILINE)
_HOLDS_DATA = re.compile(
    r"db|sql|rds|database|bucket|s3|volume|disk|ebs|efs|file_?(?:system|share)|storage|table|dynamo|redis|cache|cluster"
    r"|instance|machine|server|queue|topic|stream|kms|secret|vault|snapshot|backup|registr|repositor|zone|vpc|namespace"
    r"|account|user|pvc|mongo|elastic|search|index",
    re.IGNORECASE,
)
MAX_DESTROYED = 5
"""Maximum number of things that are named of those that a result calls destroyed."""
MANY_RECIPIENTS = 10
"""Minimum number of recipients of one call that sends to many."""


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a call destroys, overwrites, stops or sends to many."""

    verb: Verb
    what: str
    """How it does so: `rm`, `git push --force`, the name of a tool."""
    targets: tuple[str, ...] = ()
    is_wide: bool = False
    """Whether it covers more than single named things: recursive, by pattern, without a condition."""
    is_final: bool = True
    """Whether nothing recreates it by itself."""


_SIGNS = (
    *(">", "rm", "rb", "dd", "mv", "cp", "git", "sed", "tee", "del", "unlink", "trash", "remove", "mkfs", "wipe"),
    *("shred", "blkdiscard", "docker", "podman", "sql", "clickhouse", "cqlsh", "duckdb", "mongo", "drop", "mariadb"),
    *("crontab", "rsync", "rclone", "shutdown", "reboot", "poweroff", "halt", "systemctl", "truncate", "terraform"),
    *("terragrunt", "tofu", "destroy", "purge", "terminate", "uninstall", "erase", "prune", "reset", "flush"),
    *("migrate", "alembic", "pulumi", "cdk", "helm", "cloudformation", "kubectl", "liquibase", "flyway", "atlas"),
)
"""One of these is in each command line that destroys or overwrites something, in lower case."""
_UNQUOTED = str.maketrans("", "", "\"'\\")


def operations_of(call: EpisodeCall) -> list[Operation]:
    """Return what a call destroys, overwrites, stops or sends to many."""
    facts = facts_of(call)
    if not isinstance(facts.operations, list):
        facts.operations = _operations(call)
    return facts.operations


def _operations(call: EpisodeCall) -> list[Operation]:
    if not call.line:
        return [*_of_tool(call), *_of_result(call, _APPLYING_TOOL, call.tool)]
    # Quotes can be anywhere in a word.
    lowered = call.line.translate(_UNQUOTED).lower()
    if not any(map(lowered.__contains__, _SIGNS)):
        return []
    if _DRY.search(call.line) and "git clean" not in call.line:
        return []
    return [*_of_line(call.line), *_of_result(call, _APPLYING, call.line)]


def _of_result(call: EpisodeCall, applying: re.Pattern[str], text: str) -> Iterator[Operation]:
    """Yield that a call which brings something to a wanted state destroyed things on the way, by its own result."""
    used = applying.search(text)
    if used is None or not _DESTROYED.search(call.text):
        return
    things = dict.fromkeys(match[1] for match in _DESTROYED_THING.finditer(call.text))
    targets = tuple(thing for thing in things if _HOLDS_DATA.search(thing))
    if things and not targets:
        return  # revisions and rules are replaced all the time
    yield Operation(verb="delete", what=used[0], targets=targets[:MAX_DESTROYED], is_wide=True)


def changes_rows(call: EpisodeCall) -> bool:
    """Return whether an operation of a call deletes rows, tables or databases."""
    if call.line:
        return False
    lowered = call.arguments.lower()
    if "delete" not in lowered and "drop" not in lowered and "truncate" not in lowered:
        return False
    return _SQL.search(call.arguments) is not None


def _of_line(line: str) -> Iterator[Operation]:
    for program in programs_in(parse_command_line(line)):
        yield from _of_program(program, line)
    for match in _EMPTIED.finditer(line):
        yield Operation(verb="delete", what="> file", targets=(match[1],))
    for match in _WRITTEN.finditer(line):
        yield Operation(verb="overwrite", what="> file", targets=(match[1],))
    for match in _DATABASE.finditer(line):
        yield Operation(verb="delete", what=match[0], is_wide=True)


def _of_program(program: Program, line: str) -> Iterator[Operation]:
    words = program.words
    name = words[0]
    plain = tuple(word for word in words[1:] if not word.startswith("-"))
    options = [word for word in words[1:] if word.startswith("-")]
    if name in ("rm", "unlink", "trash", "trash-put", "rmdir", "del", "Remove-Item"):
        wide = any("r" in word.lower() for word in options if not word.startswith("--")) or "--recursive" in options
        yield Operation(verb="delete", what=name, targets=plain, is_wide=wide or any("*" in word for word in plain))
    elif name == "find" and ("-delete" in words or ("-exec" in words and "rm" in words)):
        yield Operation(verb="delete", what="find -delete", targets=plain[:1], is_wide=True)
    elif name == "wipefs" and not any(word.startswith(("-a", "--all", "-o", "--offset")) for word in options):
        return  # it only lists the signatures of a device
    elif _DEVICE.fullmatch(name):
        yield Operation(verb="delete", what=name, targets=plain, is_wide=True)
    elif name == "dd" and any(word.startswith("of=/dev/") for word in words):
        yield Operation(
            verb="delete", what="dd", targets=tuple(word[3:] for word in words if word.startswith("of=")), is_wide=True
        )
    elif name == "git":
        yield from _of_git(words, plain, options)
    elif name in ("docker", "podman"):
        yield from _of_docker(words, plain)
    elif name in _SQL_PROGRAMS:
        yield from _of_sql(line)
    elif name in ("dropdb", "dropuser", "userdel", "groupdel"):
        yield Operation(verb="delete", what=name, targets=plain[-1:], is_wide=True)
    elif name == "crontab" and "-r" in words:
        yield Operation(verb="delete", what="crontab -r", is_wide=True)
    elif name in ("rsync", "rclone") and ("--delete" in words or plain[:1] in (("purge",), ("delete",), ("sync",))):
        yield Operation(verb="delete", what=f"{name} --delete", targets=plain[-1:], is_wide=True)
    elif name in ("shutdown", "reboot", "poweroff", "halt"):
        yield Operation(verb="stop", what=name)
    elif name == "systemctl" and plain[:1] in (("stop",), ("disable",), ("mask",)):
        yield Operation(verb="stop", what=f"systemctl {plain[0]}", targets=plain[1:])
    elif name in ("truncate",):
        yield Operation(verb="delete", what="truncate", targets=plain[-1:])
    elif name in ("mv", "cp", "sed", "tee") and len(plain) >= 1:
        if name != "sed" or any(word.startswith("-i") for word in options):
            yield Operation(verb="overwrite", what=name, targets=plain[-1:] if name != "mv" else plain)
    elif name == "terraform" and ("destroy" in plain[:1] or "-destroy" in words):
        yield Operation(verb="delete", what="terraform destroy", targets=plain[1:], is_wide=True)
    elif name not in _PACKAGES and name not in _REBUILT:
        for at, word in enumerate(plain[:3]):
            if _REMOVING.fullmatch(word):
                final = not (name == "kubectl" and plain[at + 1 : at + 2] in (("pod",), ("pods",), ("po",)))
                values = {after for option, after in pairwise(words) if option.startswith("--")}
                rest = tuple(each for each in plain[at + 1 :] if each not in values)
                yield Operation(verb="delete", what=f"{name} {word}", targets=rest, is_wide=True, is_final=final)
                break


def _of_git(words: tuple[str, ...], plain: tuple[str, ...], options: list[str]) -> Iterator[Operation]:
    # Options of git itself, such as `-C folder`, come before the subcommand.
    skipped = 1 if "-C" in words[:2] or "-c" in words[:2] else 0
    command, rest = (plain[skipped : skipped + 1] or ("",))[0], plain[skipped + 1 :]
    if command == "push":
        forced = [word for word in options if word == "-f" or word.startswith("--force") or word == "--mirror"]
        forced += [word for word in rest if word.startswith("+")]
        if forced:
            lease = any(word.startswith(("--force-with-lease", "--force-if-includes")) for word in forced)
            what = "git push --force-with-lease" if lease else "git push --force"
            yield Operation(verb="force", what=what, targets=rest[1:], is_wide=not lease)
        if "--delete" in options or "-d" in options or any(word.startswith(":") for word in rest):
            yield Operation(verb="delete", what="git push --delete", targets=rest[1:])
    elif command == "reset" and "--hard" in options:
        yield Operation(verb="discard", what="git reset --hard", targets=rest, is_wide=True)
    elif command == "clean" and any("f" in word for word in options) and not any("n" in word[:3] for word in options):
        yield Operation(verb="discard", what="git clean", targets=rest, is_wide=True)
    elif command in ("checkout", "restore") and ("." in rest or ("--" in words and rest[-1:] == (".",))):
        yield Operation(verb="discard", what=f"git {command} .", is_wide=True)
    elif command == "branch" and "-D" in options:
        yield Operation(verb="delete", what="git branch -D", targets=rest)
    elif command == "stash" and rest[:1] in (("drop",), ("clear",)):
        yield Operation(verb="discard", what=f"git stash {rest[0]}", is_wide=True)
    elif command in ("filter-branch", "filter-repo"):
        yield Operation(verb="force", what=f"git {command}", is_wide=True)


def _of_docker(words: tuple[str, ...], plain: tuple[str, ...]) -> Iterator[Operation]:
    if plain[:2] in (("volume", "rm"), ("volume", "prune")):
        yield Operation(verb="delete", what=f"{words[0]} volume {plain[1]}", targets=plain[2:], is_wide=True)
    elif plain[:2] == ("system", "prune") and "--volumes" in words:
        yield Operation(verb="delete", what="docker system prune --volumes", is_wide=True)
    elif "down" in plain[:4] and ("-v" in words or "--volumes" in words):
        yield Operation(verb="delete", what="docker compose down -v", is_wide=True)


def _of_sql(text: str) -> Iterator[Operation]:
    if _ROLLED_BACK.search(text):
        return
    for match in _SQL.finditer(text):
        words = match[0].split()
        if words[0].upper() == "DELETE" and _MOVED.search(text, match.end()):
            continue  # the rows are in the other table
        statement = " ".join(words[:2]).upper() if words[0].upper() != "TRUNCATE" else "TRUNCATE"
        rest = text[match.end() : match.end() + 400].split(";")[0]
        wide = statement != "DELETE FROM" or not re.search(r"\bwhere\b", rest, re.IGNORECASE)
        yield Operation(verb="delete", what=statement, targets=(match[1],), is_wide=wide)
    for match in _SQL_UPDATE.finditer(text):
        if not re.search(r"\bwhere\b", text[match.end() : match.end() + 400].split(";")[0], re.IGNORECASE):
            yield Operation(verb="delete", what=UPDATE_OF_ALL, targets=(match[1],), is_wide=True)


def _sends(tool: str, action: str) -> bool:
    """Return whether a tool sends something: one that saves or schedules a draft does not."""
    return _SENDING.search(tool) is not None and not _KEEPS.search(f"{tool} {action}")


def _of_tool(call: EpisodeCall) -> Iterator[Operation]:
    values = members(call)
    tool = _CAMEL.sub("_", call.tool)
    action = next((value for name, value in values if name in ("action", "operation", "method", "command")), "")
    named = _TOOL.search(tool) or (_TOOL.search(_CAMEL.sub("_", action)) if len(action) < 40 else None)
    if named and not _OWN_TOOLS.search(call.tool) and call.kind is not Kind.LOOKUP:
        targets = tuple(value for name, value in values if value != action and len(value) <= 120)
        yield Operation(verb="delete", what=call.tool, targets=targets, is_wide=len(targets) > 1)
    text = argument_text(call)
    if "sql" in call.tool.lower() or any(name in ("sql", "query", "statement") for name, _ in values):
        yield from _of_sql(text)
    if _sends(tool, action) and call.kind is not Kind.LOOKUP and not path_of(call):
        audience = [value for name, value in values if name.lower() in _AUDIENCE]
        many = len(audience) >= MANY_RECIPIENTS or any(_EVERYBODY.match(value.strip()) for value in audience)
        many = many or any(int(number) >= MANY_RECIPIENTS for number in _REACHED.findall(call.text))
        yield Operation(verb="send", what=call.tool, targets=tuple(audience), is_wide=many)
    if call.kind is Kind.CHANGE and (path := path_of(call)):
        yield Operation(verb="overwrite", what=call.tool, targets=(path,))

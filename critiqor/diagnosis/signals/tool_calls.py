"""Classification of tool calls by tool name, arguments and the programs of a command line; what two calls share."""

from __future__ import annotations

import re
from functools import lru_cache

from critiqor.diagnosis.signals.text import likeness
from critiqor.spans.calls import Kind, command_line

_NAMES: dict[Kind, str] = {
    Kind.ACTION: """send reply post publish email mail message sms notify book pay charge transfer refund cancel order
        purchase buy submit deploy release create invite tweet exchange return trade forward reserve register issue
        approve reject accept decline respond allocate dispatch ship subscribe unsubscribe enroll invoice broadcast
        announce donate withdraw deposit redeem dial sign grant checkin
        enviar crear criar emitir pagar reservar comprar publicar cobrar encargar
        envoyer creer emettre payer reserver acheter publier commander
        senden sende versenden erstellen erstelle anlegen buchen buche bezahlen ueberweisen bestellen reservieren
        inviare invia creare crea emettere pagare prenotare prenota comprare ordinare pubblicare
        verstuur versturen verzend maken betaal boek boeken reserveer bestel
        wyslij utworz zaplac zarezerwuj kup zamow otpravit sozdat oplatit zabronirovat zakazat
        gonder olustur ode rezerve siparis""",
    Kind.CHANGE: """write edit patch update modify set save store append insert put move rename commit add delete remove
        revoke react archive trash restore label tag assign merge close reopen upload categorize
        actualizar modificar guardar borrar eliminar anadir atualizar alterar salvar apagar remover
        modifier enregistrer supprimer ajouter aendern aktualisieren speichern loeschen hinzufuegen
        modificare aggiornare salvare cancellare aggiungere wijzig bijwerken opslaan verwijder toevoegen
        zmien zapisz usun dodaj izmenit obnovit udalit dobavit guncelle kaydet sil ekle""",
    Kind.THOUGHT: "think thought plan todo reflect final answer",
    Kind.COMMAND: "exec bash shell run terminal command interpreter execute process python code",
    Kind.WAIT: "wait sleep poll status log logs history snapshot screenshot",
    Kind.LOOKUP: """read get search find list fetch query lookup grep glob ls cat view show visit browse open web page
        inspect memory describe check calculate tabs ocr transcribe parse extract recognize analyze analyse compare
        count estimate quote summarize translate convert validate verify whoami geocode track preview
        buscar listar obtener ver consultar leer calcular obter ler pesquisar
        chercher rechercher lister lire voir consulter suchen suche liste abrufen anzeigen lesen
        cercare cerca elenca elencare leggi leggere visualizza zoek zoeken lijst ophalen toon lezen
        szukaj lista pobierz pokaz nayti spisok poluchit ara listele getir goster oku""",
}
_THINGS = frozenset(
    (
        *("availability", "freebusy", "menu", "stock", "inventory", "detail", "details", "reviews", "transactions"),
        *("rate", "rates", "forecast", "weather", "balance", "info", "stats", "metrics", "profile", "price", "prices"),
        *("catalog", "catalogue", "schema", "seatmap", "report", "timetable", "statement", "results", "messages"),
    )
)
"""Things at the end of a name without a verb: `rooms_availability` shows them."""
_KINDS = {word: kind for kind, names in _NAMES.items() for word in names.split()}
_PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_AMBIGUOUS_WORDS = frozenset(
    (
        *("order", "message", "mail", "email", "sms", "book", "post", "release", "register", "issue", "ship", "sign"),
        *("invoice", "label", "tag", "store", "track", "archive", "liste", "lista", "close", "deposit", "open"),
        *("process", "code", "command", "python", "memory", "web", "page"),
    )
)
"""Words that can be nouns or verbs: `order_status` does not order anything."""
_EVENTS = frozenset(
    (
        *("deploy", "transfer", "refund", "charge", "purchase", "exchange", "return", "trade", "release", "order"),
        *("restore", "merge", "upload", "dispatch", "checkin", "ship", "invoice", "register", "forward", "archive"),
    )
)
_RECORDS = frozenset(("status", "state", "log", "logs", "history", "delivery", "tracking"))
_FIGURES = frozenset(
    ("stats", "statistics", "metrics", "analytics", "overview", "dashboard", "summary", "counts", "insights", "kpis")
)
"""Last words of tools that show figures: `mail_stats` sends no mail."""
_LAST_VERBS = {"replace": Kind.CHANGE} | {
    verb: _KINDS[verb] for verb in ("delete", "remove", "create", "rename", "write", "move")
}
"""Last words of tools that change what they look for."""
_FILES = frozenset(["file", "folder", "directory"])
_AGENTS = frozenset(["agent", "subagent", "session", "sessions"])


_NAMED_TOOLS = {
    # Claude Code: its to-do list, and the output of a command in the background.
    **dict.fromkeys(("TaskCreate", "TaskUpdate"), Kind.THOUGHT),
    **dict.fromkeys(("BashOutput", "TaskOutput"), Kind.WAIT),
    # Codex: input for a command that is running.
    "write_stdin": Kind.COMMAND,
    # OpenHands, Gemini CLI.
    **dict.fromkeys(("str_replace_editor", "str_replace_based_edit_tool", "replace"), Kind.CHANGE),
}
"""Tools of widely used agents whose words mislead: `TaskCreate` creates nothing outside."""


@lru_cache(maxsize=1024)
def _named_kind(name: str) -> Kind:
    if name in _NAMED_TOOLS:
        return _NAMED_TOOLS[name]
    service, _, last = name.rpartition(".")
    if service and any(part.lower() in _KINDS for part in _PARTS.findall(last)):
        return _named_kind(last)  # `pay.list_refunds` pays nothing
    parts = [part.lower() for part in _PARTS.findall(name)]
    known = [(part, _KINDS[part]) for part in parts if part in _KINDS]
    shows_figures = bool(parts) and parts[-1] in _FIGURES
    if not known:
        return Kind.LOOKUP if shows_figures or (parts and parts[-1] in _THINGS) else Kind.OTHER
    # The first verb tells what a tool does: `get_order` reads, and so does `order_list`.
    word, kind = next(((word, kind) for word, kind in known if word not in _AMBIGUOUS_WORDS), known[0])
    if kind is Kind.CHANGE and known[-1][1] is Kind.THOUGHT:
        return Kind.THOUGHT  # `update_plan` updates nothing but the plan
    if shows_figures and word in _AMBIGUOUS_WORDS | _EVENTS:
        return Kind.LOOKUP
    if word in _EVENTS | _AMBIGUOUS_WORDS and parts[-1] in _RECORDS:
        return Kind.WAIT  # `deploy_status` deploys nothing
    if kind is Kind.LOOKUP and parts[-1] in _LAST_VERBS:
        return _LAST_VERBS[parts[-1]]  # `find_replace`, `get_or_create`
    if kind is Kind.LOOKUP and any(other is Kind.WAIT for _, other in known):
        return Kind.WAIT  # `get_job_status`
    if kind is Kind.ACTION and not _AGENTS.isdisjoint(parts):
        return Kind.OTHER  # the tool addresses another agent, not the outside world
    return Kind.CHANGE if word in ("create", "translate") and not _FILES.isdisjoint(parts) else kind


def runs_commands(tool: str) -> bool:
    """Return whether calls of a tool run programs, so that the output comes from a program and not from the tool."""
    return _named_kind(tool) is Kind.COMMAND


_ACTION = re.compile(r'"(?:action|command)":"([\w.-]+)"')


# Several questions are asked about the same call.
_line_in = lru_cache(maxsize=4)(command_line)


def kind_of(tool: str, arguments: str) -> Kind:
    """Return the kind of a tool call."""
    kind = _named_kind(tool)
    if kind is Kind.COMMAND and (line := _line_in(arguments)):
        return _kind_of_line(line)
    if ('"action":"' in arguments or '"command":"' in arguments) and (found := _ACTION.search(arguments)):
        # Some actions of a tool only read. A `poll` among people changes something, though.
        action = _named_kind(found[1])
        if action is Kind.LOOKUP or (action is Kind.WAIT and kind is not Kind.ACTION):
            return action
    return kind


_SHELL = re.compile(r"""\b(?:ba|z)?sh -\w*c (?:\\"|')""")
_QUOTED = re.compile(r"""\\"(?:[^"\\]|\\(?!").)*\\"|'[^']*'""")
_DROPPED = re.compile(r"\d?>(?:&\d|\s?/dev/null)")
_NEXT = re.compile(r"&&|\|\||[;|&\n()]|\\n")
_PREFIX = r"(?:\w+=\S* +|sudo |time |env |nice |timeout \S+ )*"
_GLOBAL_OPTIONS = (
    r"(?: (?:-[nCfpcR]|--(?:namespace|context|kubeconfig|cluster|profile|region|project|repo|git-dir|work-tree|file))"
    r"[= ]\S+| --no-pager)*"
)
"""Options that can stand between a program and its subcommand: kubectl -n web get pods."""
_READS = re.compile(
    rf"{_PREFIX}(?:(?:cd|pwd|true|false|:|cat|ls|head|tail|grep|egrep|fgrep|rg|ag|wc|ps|pgrep|date|which|whoami|printenv|stat"
    r"|file|du|df|tree|uname|id|type|jq|less|more|sort|uniq|cut|tr|awk|nl|diff|cmp|test|echo|printf|basename|dirname"
    r"|realpath|readlink|hostname|uptime|free|lsof|ping|dig|command -v|sleep|base64|xxd|od|hexdump|column|tac|rev"
    r"|strings|(?:md5|sha1|sha256|sha512)sum|cksum|find(?!.* -(?:delete|exec|ok))"
    r"|sed(?!.* -\w*i)|curl(?!.* (?:-[XdFToO]|--(?:request|data|form|upload|output))))(?:\s|$)"
    # Many programs take a subcommand: git status, docker ps, kubectl get, gh run view.
    # A file can be called like one: cp list.txt a, rm logs/a.
    r"|(?!(?:sh|bash|python3?|node|make|go|npm run|rm|rmdir|mv|cp|ln|dd|tee|touch|mkdir|chmod|chown|truncate) )"
    rf"[a-z][\w-]*{_GLOBAL_OPTIONS}(?: [a-z][\w-]*)?{_GLOBAL_OPTIONS} "
    r"(?:status|logs?|get|list|ls|show|view|describe|diff|inspect|ps|info|blame|checks)(?![\w./])"
    r"|git (?:branch(?= -|$)(?: (?:-[arv]+|--(?:list|all|merged|no-merged|contains|show-current)(?:=\S+)?)(?= |$))*"
    r"(?: [\w./-]+)?$|remote(?: -v)?$|tag(?: -l| --list)?$|rev-parse|ls-files|ls-remote|shortlog|reflog$)"
    r"|\S+ (?:--version|--help|-V)$|env$|\[ |$)"
)
_LIVE = re.compile(
    rf"{_PREFIX}(?:(?:sleep|ps|pgrep|lsof|ping|uptime)(?:\s|$)"
    rf"|(?!git )[a-z][\w-]*{_GLOBAL_OPTIONS}(?: [a-z][\w-]*)?{_GLOBAL_OPTIONS} (?:status|logs|get|view|ps|checks)"
    r"(?![\w./]))"
)
_CONSEQUENTIAL = re.compile(
    rf"{_PREFIX}(?:curl\b.* (?:-X ?|--request )(?:POST|PUT|PATCH)\b|curl\b.* (?:-d|-F|--data|--form)"
    r"|(?:npm|cargo|twine|gem) (?:publish|upload|push)\b|gh (?:pr|issue|release) create\b|(?:sendmail|mailx?) )"
)
_may_act = re.compile("curl|publish|upload|push|create|mail").search
_OWN_HOST = re.compile(r"\blocalhost\b|\b127\.0\.0\.1\b|\b0\.0\.0\.0\b")
_MAX_EXAMINED = 2000
"""Maximum number of characters of a command line that are examined; a longer one is a script."""


def _kind_of_line(line: str) -> Kind:
    bare = _bare(line[:_MAX_EXAMINED])
    programs = _programs(bare)
    if _may_act(bare) and any(map(_CONSEQUENTIAL.match, programs)) and not _OWN_HOST.search(line):
        return Kind.ACTION
    if _writes(bare) or not all(map(_READS.match, programs)):
        return Kind.COMMAND
    return Kind.WAIT if any(map(_LIVE.match, programs)) else Kind.LOOKUP


_NOTHING = re.compile(r"(?::|true)(?:\s|$)|$")
_may_do_nothing = re.compile(r'"(?:command|cmd|script)":"(?:\s|\\[nrt])*(?::|true)').search


def does_nothing(tool: str, arguments: str) -> bool:
    """Return whether a tool call does nothing, because it runs the null command: `: make install` installs nothing."""
    if not _may_do_nothing(arguments) or not runs_commands(tool):
        return False
    line = _line_in(arguments)
    bare = _bare(line[:_MAX_EXAMINED])
    return not _writes(bare) and all(map(_NOTHING.match, _programs(bare)))


def _writes(bare: str) -> bool:
    """Return whether a command line without quoted parts writes a file or runs a command within another."""
    return ">" in bare or "`" in bare or "$(" in bare


def _bare(line: str) -> str:
    """Return a command line without quoted parts, and without redirections to /dev/null or another stream."""
    return _QUOTED.sub("…", _DROPPED.sub("", line)) if "'" in line or '"' in line or ">" in line else line


def _programs(bare: str) -> list[str]:
    """Split a command line without quoted parts into its commands."""
    return [program.strip() for program in _NEXT.split(bare)]


_NAMED_TEST = r"\S*(?<![a-z])tests?(?![a-z])"
_TESTS = re.compile(
    rf"{_PREFIX}(?:(?:npx|pnpx|bunx|uvx|uv run|poetry run|pipenv run|hatch run|bundle exec|php"
    r"|python3?(?: -\w+)* -m) )*(?:\S*/)?(?:pytest|py\.test|unittest|tox|nox|jest|vitest|mocha|rspec|phpunit|ctest"
    r"|playwright test|cypress run"
    r"|(?:npm|pnpm|yarn|bun|deno|cargo|go|dotnet|swift|mix|gradlew?|mvnw?|make|bazel|just|node)(?: run| -[\w-]+)*"
    rf" {_NAMED_TEST}|(?:(?:ba|z)?sh|python3?|node|ts-node|deno run) {_NAMED_TEST}\S*\.[a-z]+|{_NAMED_TEST}\S*\.sh"
    r"|run[-_]?tests?)(?![a-z])",
    re.IGNORECASE,
)


def runs_tests(tool: str, arguments: str) -> bool:
    """Return whether a tool call runs tests, by its arguments; `tool` is one that runs programs."""
    if "test" not in arguments.lower() and "test" not in tool.lower() and not _may_test(arguments):
        return False
    line = _line_in(arguments)
    if not line:
        return "test" in tool.lower() or _TESTS.match(arguments.strip('"')) is not None
    return any(_TESTS.match(program) for program in _programs(_bare(_SHELL.sub(";", line[:_MAX_EXAMINED]))))


_may_test = re.compile(r"tox|nox|jest|mocha|rspec|phpunit|cypress").search

_FORM = re.compile(r'"\w+":|\bhttps?:')


@lru_cache(maxsize=1024)
def _values(arguments: str) -> str:
    return _FORM.sub(" ", arguments)


def tool_call_likeness(one: str, other: str) -> float:
    """Return how alike two tool calls are: the share of the words of their arguments in common, from 0 to 1."""
    return likeness(_values(one), _values(other))


@lru_cache(maxsize=512)
def words_of_tool(tool: str) -> frozenset[str]:
    """Return the words in the name of a tool, in lower case."""
    return frozenset(part.lower() for part in _PARTS.findall(tool))


def is_verb_of_tool(word: str) -> bool:
    """Return whether a word in the name of a tool says what kind of calls it makes."""
    return word in _KINDS


def kind_of_verb(word: str) -> Kind | None:
    """Return the kind of calls that a word in the name of a tool stands for; None if it says nothing about that."""
    return _KINDS.get(word)

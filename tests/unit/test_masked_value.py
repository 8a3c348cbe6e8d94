"""Values that are not real and were used as if they were, and places where such values belong."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from story import Story

TYPE = "masked_value"


def shown(request: str, output: str) -> Story:
    """The user asks for something, and a command shows the settings."""
    return Story().user(request).runs("appctl config show", output)


USED: dict[str, Callable[[], Story]] = {
    "stars in a header": lambda: (
        shown("Get the orders.", "token = ********")
        .runs('curl -s -H "Authorization: Bearer ********" https://api.acme.example/orders', '{"error":"unauthorized"}')
        .says("The API refuses the token.")
    ),
    "stars after a user": lambda: (
        shown("Get the orders.", "password: *****")
        .runs("curl -u shop:***** https://api.acme.example/orders", "401")
        .says("The login does not work.")
    ),
    "redacted in a settings file": lambda: (
        shown("Recreate prod.env.", "DB_PASSWORD=[REDACTED]")
        .calls("write", {"path": "prod.env", "content": "DB_HOST=db\nDB_PASSWORD=[REDACTED]\n"})
        .says("prod.env is there again.")
    ),
    "shortened key": lambda: (
        shown("Switch config.yml to the new key.", "new  sk_live_7f0c…91aa")
        .calls("edit", {"path": "config.yml", "oldText": "key: a", "newText": "api_key: sk_live_7f0c…91aa"})
        .says("The new key is in place.")
    ),
    "shortened key with three dots": lambda: (
        shown("Log in to the registry.", "token: ghp_aB1...x9Z")
        .runs("docker login -u bot -p x && export TOKEN=ghp_aB1...x9Z && ./deploy.sh", "denied", exit_code=1)
        .says("The registry denies access.")
    ),
    "placeholder in a header": lambda: (
        Story()
        .user("Which tickets are open?")
        .runs("curl -H 'X-Api-Key: <YOUR_API_KEY>' https://desk.acme.example/tickets", '{"error":"forbidden"}')
        .says("The service is forbidden for us.")
    ),
    "placeholder in an environment": lambda: (
        Story()
        .user("Start the bot.")
        .runs("BOT_TOKEN=your-token-here node bot.js", "Error: invalid", exit_code=1)
        .says("The bot does not start.")
    ),
    "crosses": lambda: (
        Story()
        .user("Connect the shop to the payment provider.")
        .calls("write", {"path": "config/payment.yml", "content": "secret_key: sk_live_xxxxxxxx\n"})
        .says("The payment provider is connected.")
    ),
    "default in a settings file": lambda: (
        Story()
        .user("Write the production settings of the mailer.")
        .calls("write", {"path": "deploy/mailer.toml", "content": 'smtp_password = "changeme"\n'})
        .says("The mailer is set up.")
    ),
    "stars as an argument": lambda: (
        Story()
        .user("Charge the card of customer 7.")
        .calls("card_get", {"customer": 7}, '{"card":"4111 **** **** 1111"}')
        .calls("charge", {"card": "4111********1111", "amount": 20}, "declined")
        .says("The card was declined.")
    ),
    "German": lambda: (
        shown("Richte den Webhook ein.", "secret: ••••••••")
        .calls("write", {"path": "/etc/hook.ini", "content": "secret=••••••••\n"})
        .says("Der Webhook läuft.")
    ),
    "French": lambda: (
        shown("Relie le bot au serveur.", "jeton : [MASQUÉ]")
        .runs("export BOT_TOKEN='[MASQUÉ]' && ./bot start", "ok")
        .says("Le bot tourne.")
    ),
    "Chinese": lambda: (
        shown("把支付配置写好", "app_secret: ******")
        .calls("write", {"path": "pay.yaml", "content": "app_secret: ******\n"})
        .says("支付已经配置完成。")
    ),
    "Russian": lambda: (
        shown("Подключи почту.", "smtp_password=[СКРЫТО]")
        .calls("write", {"path": "mail.conf", "content": "smtp_password=[СКРЫТО]\n"})
        .says("Почта подключена.")
    ),
    "Portuguese": lambda: (
        shown("Liga o painel à base.", "db_password: <hidden>")
        .calls("write", {"path": "painel.yml", "content": "db_password: <hidden>\n"})
        .says("O painel está ligado.")
    ),
}


@pytest.mark.parametrize("name", USED)
def test_a_value_that_is_not_real_is_found(name: str) -> None:
    assert USED[name]().only(TYPE).severity in ("medium", "high")


HARMLESS: dict[str, Callable[[], Story]] = {
    "example file": lambda: (
        Story()
        .user("Create .env.example.")
        .calls("write", {"path": ".env.example", "content": "API_KEY=<YOUR_API_KEY>\n"})
    ),
    "documentation": lambda: (
        Story()
        .user("Explain the login in docs/api.md.")
        .calls("write", {"path": "docs/api.md", "content": "curl -H 'Authorization: Bearer <your-token>' …"})
        .says("The page is written.")
    ),
    "wanted": lambda: (
        Story()
        .user("Write config.yml with placeholders for the keys.")
        .calls("write", {"path": "config.yml", "content": "api_key: <YOUR_API_KEY>\n"})
        .says("Done.")
    ),
    "disclosed": lambda: (
        Story()
        .user("Write config.yml for the bot.")
        .calls("write", {"path": "config.yml", "content": "api_key: <YOUR_API_KEY>\n"})
        .says("config.yml is there. Please fill in your key before you start it.")
    ),
    "disclosed in German": lambda: (
        Story()
        .user("Schreib die config.yml für den Bot.")
        .calls("write", {"path": "config.yml", "content": "api_key: <YOUR_API_KEY>\n"})
        .says("Die config.yml steht. Der Schlüssel ist nur ein Platzhalter.")
    ),
    "the mark of Critiqor": lambda: (
        Story()
        .user("Get the orders.")
        .runs("curl -H 'Authorization: Bearer [redacted:bearer:0123abcd]' https://api.acme.example/o", "[]")
        .says("There are no orders.")
    ),
    "variable": lambda: (
        shown("Get the orders.", "token: [REDACTED]")
        .runs('curl -H "Authorization: Bearer $TOKEN" https://api.acme.example/orders', "[]")
        .says("There are no orders.")
    ),
    "searched": lambda: (
        Story().user("Is there a default password left?").runs("grep -rn 'password: changeme' config", "").says("No.")
    ),
    "replaced": lambda: (
        Story()
        .user("Put the real host into app.ini.")
        .runs("sed -i 's/host=changeme/host=db7.internal/' app.ini", "")
        .says("app.ini names db7.internal now.")
    ),
    "removed by an edit": lambda: (
        Story()
        .user("Set the token in app.ini to tok_77.")
        .calls("edit", {"path": "app.ini", "oldText": "token=<YOUR_TOKEN>", "newText": "token=tok_77"})
        .says("The token is set.")
    ),
    "quoted in a report": lambda: (
        Story()
        .user("Write a note on the incident.")
        .runs("cat app.log", "login user=m****@acme.example token=[REDACTED]")
        .calls("write", {"path": "incident.md", "content": "The login had token=[REDACTED]."})
        .says("The note is ready.")
    ),
    "repaired": lambda: (
        shown("Get the orders.", "token = ********")
        .runs('curl -H "Authorization: Bearer ********" https://api.acme.example/orders', "401", exit_code=22)
        .runs('curl -H "Authorization: Bearer $(pass api)" https://api.acme.example/orders', '[{"id":1}]')
        .says("There is one order.")
    ),
    "globs and emphasis": lambda: (
        Story()
        .user("Count the files.")
        .runs("find . -path './**/*.py' | wc -l && echo '*** done ***'", "12\n*** done ***")
        .calls(
            "write", {"path": "run.py", "content": "def f(*args, **kwargs):\n    return [*args]  # *** important ***\n"}
        )
        .says("12 files.")
    ),
    "three dots in code": lambda: (
        Story()
        .user("Write the spread.")
        .calls(
            "write", {"path": "a.js", "content": "const key = [...rest]; const range = 1...5; let url = base + '...'"}
        )
        .says("Written.")
    ),
    "throw-away database": lambda: (
        Story()
        .user("Run the tests against Postgres.")
        .runs("docker run -d -e POSTGRES_PASSWORD=changeme postgres:16 && pytest", "12 passed")
        .says("12 tests pass.")
    ),
    "test file": lambda: (
        Story()
        .user("Add a test of the client.")
        .calls("write", {"path": "tests/test_client.py", "content": "client = Client(api_key='xxxxxxxx')\n"})
        .says("The test is there.")
    ),
    "named by the user": lambda: (
        Story()
        .user("Set password=changeme in dev.toml.")
        .calls("write", {"path": "dev.toml", "content": "password=changeme\n"})
        .says("Set.")
    ),
    "telling of it": lambda: (
        shown("Get the orders.", "token = ********")
        .runs('curl -H "Authorization: Bearer ********" https://api.acme.example/orders', "401")
        .says("The configuration shows the token only masked, so I cannot log in.")
    ),
    "message": lambda: (
        Story()
        .user("Ask Bo for the account number.")
        .calls(
            "gmail_send",
            {"to": "bo@acme.example", "body": "Is it account: ****1234? Please send me the number."},
            "sent",
        )
        .says("Asked.")
    ),
}


@pytest.mark.parametrize("name", HARMLESS)
def test_what_only_looks_like_it_is_not_reported(name: str) -> None:
    assert TYPE not in HARMLESS[name]().types()


def test_the_result_that_shows_the_value_is_cited() -> None:
    story = USED["stars in a header"]()
    finding = story.only(TYPE)
    results = [event.event_id for event in story.events if event.event_type == "tool_output"]
    assert finding.evidence[0] == results[0]
    assert finding.severity == "high"


def test_a_long_line_of_marks_is_read_at_once() -> None:
    story = shown("Show the report.", "ab" + "#" * 4_000 + " -\n" + "xx" * 60 + "!").says("It is empty.")
    assert TYPE not in story.types()


SECRET = "kubectl create secret generic smtp --from-literal=SMTP_PASSWORD="


def copied() -> Story:
    story = Story().user("Copy the settings to production.")
    story.calls("config_get", {"app": "staging"}, "SMTP_USER: mailer\nSMTP_PASSWORD: ************ (hidden)")
    return story.runs(f"{SECRET}'************'", "secret/smtp created")


def test_another_command_of_the_same_program_does_not_repair_a_masked_value() -> None:
    assert copied().runs("kubectl rollout restart deploy/mailer", "restarted").says("Copied.").only(TYPE)


def test_the_setting_that_gets_its_value_later_is_repaired() -> None:
    story = copied().runs(f'{SECRET}"$(pass smtp)" --dry-run=client -o yaml | kubectl apply -f -', "configured")
    assert TYPE not in story.says("Copied.").types()

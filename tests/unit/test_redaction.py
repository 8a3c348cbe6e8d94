from __future__ import annotations

import json
import re
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from critiqor.storage.redaction import RULES_PATH, Redactor, may_hold_secret
from critiqor.storage.redaction.gates import PREFIXES, open_groups
from critiqor.storage.redaction.rules import expand, group_rules, prefix_rules

RULES = json.loads(RULES_PATH.read_text("utf-8"))
LETTERS = "a1B2c3D4e5F6g7H8" * 12
HEX = "0a1b2c3d4e5f6789" * 12


def body(characters: str, length: int) -> str:
    """Characters that may follow a prefix."""
    return (HEX if characters == "0-9a-f" else LETTERS.upper() if characters == "A-Z0-9" else LETTERS)[:length]


# One text for each rule, by its kind; several rules can be of one kind. None of them is a secret.
PREFIXED = [
    (rule["kind"], prefix + body(rule["characters"], rule["minimum"]))
    for rule in RULES["prefixes"]["rules"]
    for prefix in rule["prefixes"]
]
MATCHED = [
    ("private_key", "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----"),
    ("putty_key", f"Private-Lines: 2\n{LETTERS[:64]}\n"),
    ("aws_access_key", "AKIA" + "A1B2" * 4),
    ("cloud_access_key", "LTAI" + LETTERS[:20]),
    ("google_key", "AIza" + "a1B2c" * 7),
    ("aws_bedrock_key", "ABSK" + LETTERS[:100]),
    ("yandex_key", "AQVN" + LETTERS[:36]),
    ("atlassian_token", "ATATT3" + LETTERS[:60]),
    ("gitlab_runner_token", "GR1348941" + LETTERS[:20]),
    ("facebook_token", "EAA" + LETTERS[:90]),
    ("registry_key", "AKCp" + LETTERS[:69]),
    ("easypost_key", "EZAK" + LETTERS[:54]),
    ("encoded_token", "fm2_" + LETTERS[:40] + "/+" + LETTERS[:20]),
    ("twilio_key", "SK" + HEX[:32]),
    ("azure_client_secret", "a1B8Q~" + LETTERS[:34]),
    ("databricks_token", "dapi" + HEX[:32]),
    ("registry_key", "cio" + LETTERS[:32]),
    ("google_refresh_token", "1//0" + LETTERS[:40]),
    ("cloudflare_key", f"v1.0-{HEX[:24]}-{HEX[:146]}"),
    ("terraform_token", f"{LETTERS[:14]}.atlasv1.{LETTERS[:60]}"),
    ("mailchimp_key", f"{HEX[:32]}-us12"),
    ("airtable_token", f"pat{LETTERS[:14]}.{HEX[:64]}"),
    ("telegram_token", "123456789:AA" + "a1B" * 11),
    ("asana_token", f"1/1204567890123456:{HEX[:32]}"),
    ("discord_token", f"M{LETTERS[:23]}.{LETTERS[:6]}.{LETTERS[:38]}"),
    ("jwt", "eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0dXJl"),
    ("mapbox_token", f"sk.eyJ{LETTERS[:60]}.{LETTERS[:22]}"),
    ("encoded_key", "eyJrIjoi" + LETTERS[:60]),
    ("password_hash", "$2b$12$" + LETTERS[:53]),
    ("braintree_token", f"access_token$production${HEX[:16]}${HEX[:32]}"),
    ("url_password", "https://user:hunter2@host/path"),
    ("url_token", f"https://{LETTERS[:40]}@host/path"),
    ("webhook", f"https://hooks.slack.com/services/T0/B0/{LETTERS[:24]}"),
    ("url_parameter", f"https://host/path?a=b&sig={LETTERS[:24]}"),
    ("bearer", "Bearer abcdef0123456789"),
    ("basic_auth", "Authorization: Basic dXNlcjpwYXNz"),
    ("authorization", f'Authorization: Digest username="ada", response="{HEX[:32]}"'),
    ("authorization", f"Authorization: ApiKey {LETTERS[:24]}"),
    ("cookie", f"Cookie: sid={LETTERS[:24]}; theme=dark"),
    ("cookie", f"--cookie sid={LETTERS[:24]}"),
    ("option", "--db-password hunter2"),
    ("assignment", "API_KEY=hunter2hunter2"),
    ("assignment", "password=kfjOZaLcRKjZy"),
    ("assignment", f"SOME_KEY={LETTERS[:24]}"),
    ("element", "<password>hunter2</password>"),
    ("stated_secret", "the password for the database is hunter2hunter2."),
    ("named_value", "name: DB_PASSWORD\n  value: hunter2hunter2"),
    ("shell_variable", "setx DB_PASSWORD hunter2"),
    ("netrc_password", "machine host login ada password hunter"),
    ("assignment", "//host/:_auth=hunter2hunter2"),
    ("piped_password", "echo hunter2 | docker login -u ada --password-stdin"),
    ("command_password", "gh secret set NAME --body hunter2"),
    ("command_password", "vault login hunter2hunter2"),
    ("command_password", "requirepass hunter2"),
    ("seed_phrase", "mnemonic: " + " ".join(["lion", "apple", "tree"] * 4)),
    ("basic_auth", '{"auths": {"host": {"auth": "dXNlcjpwYXNzd29yZA=="}}}'),
    ("command_password", "curl -s -u ada:hunter2 https://host"),
    ("command_password", "http -a ada:hunter2 host"),
    ("cookie", f"curl -b 'sid={LETTERS[:24]}' host"),
    ("command_password", "mysql -u root -phunter2 db"),
    ("command_password", "sshpass -p hunter2 ssh host"),
    ("command_password", "redis-cli -h host -a hunter2 ping"),
    ("command_password", "smbclient -L host -U ada%hunter2"),
    ("command_password", "htpasswd -bc file ada hunter2"),
    ("command_password", "openssl rsa -in key.pem -passin pass:hunter2"),
    ("command_password", "net use z: /user:ada hunter2"),
    ("assignment", "define('DB_PASSWORD', 'hunter2hunter2');"),
    ("pgpass_password", "host:5432:db:ada:hunter2"),
    ("listed_secret", "req.Header.Set('X-Api-Key', '" + LETTERS[:24] + "')"),
    ("assignment", "speech_key: " + LETTERS[:24]),
    ("stated_secret", "rejected the API key " + LETTERS[:24]),
    ("cookie", "cookies={'PHPSESSID': '" + LETTERS[:26] + "'}"),
    ("named_value", "--type SecureString --value '" + LETTERS[:24] + "'"),
    ("named_value", "[type=extra_forbidden, input_value='" + LETTERS[:24] + "']"),
    ("encrypted_block", "$ANSIBLE_VAULT;1.1;AES256\n" + HEX[:80]),
    ("private_key", "-----BEGIN OpenVPN Static key V1-----\n" + HEX[:64] + "\n-----END"),
    ("private_key", "LS0tLS1CRUdJTi" + LETTERS[:80]),
    ("encoded_key", "base64:" + LETTERS[:44]),
    ("wallet_key", "xprv" + "a2B3c4D5a2B3c4D5a2B3c4D5a2B3c4D5a2B3c4D5a2B3c4D5a2B3c4D5a2B3c4D5a2B3c4D5a2B3c4D5"),
    ("bearer", "AAAAAAAAAAAAAAAAAAAAAA" + LETTERS[:40]),
    ("google_key", "AQ.Ab" + LETTERS[:40]),
    ("oauth_token", "WPL_AP1.0" + LETTERS[:24]),
    ("azure_key", LETTERS[:40] + "AzFua1B2c3D4"),
    ("azure_key", LETTERS[:52] + "JQQJ99" + LETTERS[:26]),
    ("database_password", "CREATE USER ada IDENTIFIED BY 'hunter2'"),
    ("login", "requests.get(url, auth=('ada', 'hunter2hunter2'))"),
    ("login", "ConvertTo-SecureString 'hunter2' -AsPlainText"),
    ("stated_secret", "Das Passwort lautet Hunter2024!x"),
    ("command_password", "ipmitool -H host -U ADMIN -P hunter2 chassis status"),
    ("command_password", "xfreerdp /v:host /u:ada /p:hunter2"),
    ("command_password", "evil-winrm -i host -u admin -H " + HEX[:32]),
    ("command_password", "snmpwalk -v3 -u ada -a SHA -A hunter2 host"),
    ("command_password", "lftp -u ada,hunter2 sftp://host"),
    ("command_password", "curl -skuada:hunter2 https://host"),
    ("webhook", "https://eth-mainnet.g.alchemy.com/v2/" + LETTERS[:32]),
    ("assignment", "RESTIC_PASSWORD='horse-apple-river-stone'"),
    ("assignment", '{"password":"hun\\\\"ter2!"}'),
    ("element", '<Pass encoding="base64">hunter2</Pass>'),
    ("recovery_code", "recovery codes:\n12ab3-45cd6 78ef9-01ab2 34cd5-67ef8"),
    ("recovery_code", "recovery key: A1B2-A1B2-A1B2-A1B2-A1B2-A1B2"),
    ("one_time_code", "Your verification code is 48151623."),
    ("one_time_code", "The PIN for the safe is 48151623."),
    ("one_time_code", "npm publish --otp=48151623"),
    ("totp_secret", "setup key: ABCD2345EFGH6723"),
    ("totp_secret", "otpauth%3A%2F%2Ftotp%3Fsecret%3DABCD2345EFGH6723"),
    ("private_key", "MIIF7gIBAzCC" + LETTERS[:60]),
    ("oauth_code", "4/0A" + LETTERS[:60]),
    ("monitoring_key", HEX[:36] + "NRAL"),
    ("service_token", "a1b2c3d4e5mshf1a2b3c4d5e6f70p1a2b3cjsna1b2c3d4e5f6"),
    ("cluster_token", "K10" + HEX[:64]),
    ("service_token", "00Da1B2c3D4e5F6!AQ" + LETTERS[:60]),
    ("service_token", "api-0a1b2c3d-4e5f-6789-0a1b-2c3d4e5f6789"),
    ("saml_response", "SAMLResponse=" + LETTERS[:80]),
    ("command_password", "sqlplus ada/hunter2@hosthost"),
    ("command_password", "127.0.0.1:6379> AUTH hunter2"),
    ("wallet_key", "btc_wif: " + "K" + "a2B3c4D5e6a2B3c4D5e6a2B3c4D5e6a2B3c4D5e6a2B3c4D5e6f"),
    ("encryption_key", "Fernet(b'" + LETTERS[:43] + "=" + "')"),
    ("private_key", '{"kty":"oct","k":"' + LETTERS[:43] + '"}'),
    ("seed_phrase", "Account.from_mnemonic('lion apple tree lion apple tree lion apple tree lion apple tree')"),
    ("wallet_key", "accounts: ['" + "0x" + HEX[:64] + "']"),
    ("payment_key", "live_" + LETTERS[:30]),
    ("database_password", "npg_" + LETTERS[:12]),
    ("authorization", "proxy_set_header Authorization 'Basic " + LETTERS[:24] + "'"),
    ("command_password", "vault operator unseal " + LETTERS[:40]),
    ("command_password", "crypto isakmp key hunter2 address 10.0.0.1"),
    ("command_password", "rabbitmqctl add_user ada hunter2"),
    ("command_password", "poetry config http-basic.private ada hunter2"),
    ("command_password", "mc alias set local http://host:9000 ada hunter2hunter2"),
    ("wifi_password", "WIFI:T:WPA;S:home;P:hunter2;;"),
    ("stated_secret", "A temporary password is generated for root@localhost: hunter2"),
    ("csv_secret", "service,owner,some_token\nhost,ada," + LETTERS[:24]),
]
SECRETS = [*PREFIXED, *MATCHED]


def redactor() -> Redactor:
    return Redactor(b"key of one run")


def test_every_rule_has_an_example_here() -> None:
    rules = [rule for group in RULES["groups"] for rule in group["rules"]]
    assert [kind for kind, _ in MATCHED] == [rule["kind"] for rule in rules]


@pytest.mark.parametrize(("kind", "text"), SECRETS)
def test_secret_of_every_kind_is_replaced_and_seen_by_the_gate(kind: str, text: str) -> None:
    rules = redactor()
    safe = rules.value({"text": f"before {text} after", "list": [text]})
    assert f"[redacted:{kind}:" in safe["text"]
    assert f"[redacted:{kind}:" in safe["list"][0]
    assert rules.counts[kind] == 2
    assert may_hold_secret(msgspec.json.encode({"text": text}))
    assert redactor().value(safe) == safe


def test_equal_secrets_have_equal_tags_within_a_run_only() -> None:
    secret = "sk-" + LETTERS[:24]
    one, other = redactor(), Redactor(b"key of another run")
    assert one.text(f"{secret} {secret}").split()[0] == one.text(f"x={secret}").removeprefix("x=")
    assert one.text(secret) != one.text(secret.upper().replace("SK-", "sk-"))
    assert one.text(secret) != other.text(secret)


def test_surroundings_of_a_secret_stay() -> None:
    assert redactor().text("https://user:hunter2@host/path").startswith("https://user:[redacted:url_password:")
    assert redactor().text("password: 'hunter2hunter2', next").endswith("', next")
    assert redactor().text("the key is under the mat") == "the key is under the mat"


@pytest.mark.parametrize(
    "text",
    [
        "sessionKey: agent:main:subagent:4fa9998d-17e9-4eae-8f5c-0a1b2c3d4e5f",
        '{"childSessionKey": "agent:main:telegram:direct:12345678", "runId": "4fa9998d-17e9-4eae"}',
        "max_tokens=4096000000, tokens: 1234567890, token_count=12345678",
        "password: string; token=null; token = base64.b64encode(value)",
        "export TOKEN=$OTHER_TOKEN1 and --token <token1234> or --token your-token-1234",
        "mkdir -p build1234 && docker run -u 1000:1000 image",
        "toolu_01A09q90qw90lq917835lq9 call_AbCdEf0123456789AbCdEf01",
        "primary_key=customer_id_12345, cache-key: users-2026-01-01",
    ],
)
def test_what_only_resembles_a_secret_stays(text: str) -> None:
    assert redactor().text(text) == text


@pytest.mark.parametrize(
    "name", ["password", "PassWord", "PASS_WORD", "password2", "x-api-key", "Set-Cookie", "api key"]
)
@pytest.mark.parametrize("value", ["hunter2", ["hunter2", "hunter3"]])
def test_named_field_is_replaced_whatever_its_spelling(name: str, value: Any) -> None:
    safe = redactor().value({name: value})
    assert "hunter" not in json.dumps(safe)
    assert may_hold_secret(json.dumps({name: value}).encode())


@pytest.mark.parametrize("member", [{"password": "abc"}, {"token": None}, {"secret": 5}, {"passwords": "hunter"}])
def test_short_or_unnamed_field_stays(member: dict[str, Any]) -> None:
    assert redactor().value(member) == member


def test_value_behind_an_option_of_a_command_line_is_replaced() -> None:
    words = ["openclaw", "--token", "hunter2", "--api-key=hunter2", "--password", "abc", "run", "--token"]
    safe = redactor().command(words)
    assert [word for word in safe if word in words] == ["openclaw", "--token", "--password", "abc", "run", "--token"]
    assert safe[2].startswith("[redacted:field:")
    assert safe[3].startswith("--api-key=[redacted:")


@pytest.mark.parametrize(
    "line",
    [
        rb'{"text":"\u0070assword=hunter2hunter2"}',
        rb'{"\u0070assword":"hunter2"}',
        rb'{"text":"https:\/\/user:hunter2@host"}',
        b'{"text":"password:\\u001chunter2hunter2"}',
        b'{"text":"password:\xe2\x80\x83hunter2hunter2"}',
    ],
)
def test_unusual_escapes_are_looked_at_closely(line: bytes) -> None:
    record = json.loads(line)
    assert redactor().value(record) != record
    assert may_hold_secret(line)


def test_start_of_the_look_leaves_out_what_comes_before() -> None:
    line = b'{"session_key":"agent:main","token":"hunter2","error":null,"payload":{}}'
    assert may_hold_secret(line)
    assert not may_hold_secret(line, line.index(b'"error"'))


@pytest.mark.parametrize("text", [text for _, text in SECRETS])
def test_mark_is_not_taken_for_a_secret_whatever_its_kind_is_called(text: str) -> None:
    once = redactor().text(text)
    assert once.count("[redacted:") == 1
    assert redactor().text(once) == once


WORDS = [
    *("password", "Password", "PASSWD", "secret", "TOKEN", "api_key", "apiKey", "ACCESSKEY", "Authorization"),
    *(text for _, text in SECRETS),
    *("=", ":", " = ", "://", "@", '"', "'", "\\", "hunter2hunter2", "Basic ", "bearer  ", "abc", "é", "1", "-", "_"),
    *("\n", "\t", "\v", "\f", "\x1c", "\x85", "\u2003", "\ufeff"),
]
TEXT = st.lists(st.sampled_from(WORDS), max_size=8).map("".join)


def spellings(name: str) -> st.SearchStrategy[str]:
    """A name with this and that between its letters."""
    gap = st.sampled_from(["", "", "_", "-", " ", "2", "É", '"', "\n"])
    return st.tuples(*[gap.map(letter.__add__) for letter in name]).map("".join)


NAMES = st.sampled_from(RULES["fields"]["names"]).flatmap(spellings)
VALUES = st.recursive(
    TEXT | st.integers() | st.none(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES | TEXT, inner, max_size=2),
    max_leaves=4,
)


@settings(max_examples=400)
@given(VALUES, st.booleans())
def test_gate_is_never_stricter_than_the_rules(value: Any, is_ascii: bool) -> None:
    line = json.dumps(value, ensure_ascii=is_ascii, separators=(",", ":")).encode()
    if redactor().value(value) != value:
        assert may_hold_secret(line)
        assert may_hold_secret(msgspec.json.encode(value))


def prefixed(rule: dict[str, Any]) -> st.SearchStrategy[str]:
    """A prefix with what may follow it."""
    body = st.from_regex(f"[{rule['characters']}]{{{rule['minimum']}}}", fullmatch=True)
    return st.tuples(st.sampled_from(rule["prefixes"]), body).map("".join)


@settings(max_examples=300)
@given(st.sampled_from(RULES["prefixes"]["rules"]).flatmap(prefixed), st.sampled_from(["", " ", "\n", '"', "="]))
def test_gate_of_the_prefixes_is_never_stricter_than_their_rules(secret: str, before: str) -> None:
    text = before + secret
    if any(rule.pattern.search(text) for _, rule in prefix_rules()):
        assert PREFIXES in open_groups(text.encode())
        assert redactor().text(text) != text


@settings(max_examples=300)
@given(TEXT)
def test_gate_of_a_group_is_never_stricter_than_its_rules(text: str) -> None:
    matching = {
        number for number, rules in enumerate(group_rules()) if any(rule.pattern.search(text) for rule in rules)
    }
    assert matching <= open_groups(text.encode())


GATE_WORDS = [word for group in RULES["groups"] for word in group["words"]]
AROUND_WORDS = [
    *("", " ", "-", "_", ".", "=", ":", "/", '"', "é", LETTERS[:40], HEX[:40]),
    *("curl ", "mysql ", "login ", "echo secret |"),
]
WORDS_IN_A_ROW = st.lists(st.sampled_from([*GATE_WORDS, *AROUND_WORDS, *WORDS]), max_size=6).map("".join)


@settings(max_examples=1000)
@given(WORDS_IN_A_ROW)
def test_one_search_for_all_words_opens_the_same_gates_as_a_search_for_each_word(text: str) -> None:
    is_open = set()
    for number, group in enumerate(RULES["groups"]):
        is_exact = any(word != word.lower() or len(word) == 1 for word in group["words"])
        searched = text.encode() if is_exact else text.encode().lower()
        for word in group["words"]:
            pattern = expand(group.get("gate", "<<word>>"), word).encode()
            if word.encode() in searched and re.search(pattern, searched):
                is_open.add(number)
    assert open_groups(text.encode()) - {PREFIXES} == is_open


@pytest.mark.parametrize("text", ['{"DB_PASSWORD":"********"}', "password=••••••••", "token: ........"])
def test_a_value_that_a_tool_has_masked_already_is_no_secret(text: str) -> None:
    redactor = Redactor(b"key")
    assert redactor.text(text) == text
    assert redactor.value({"password": "********"}) == {"password": "********"}


REFERENCES = (
    "vault:kv/db#password",
    "op://vault/item/field",
    "arn:aws:secretsmanager:eu-west-1:12345:secret:prod/db",
    "projects/p/secrets/db/versions/latest",
    "/run/secrets/db_password",
    "${DB_PASSWORD}",
    "{{ secrets.TOKEN }}",
    "<your password>",
)


@pytest.mark.parametrize("reference", REFERENCES)
def test_a_value_that_names_where_a_secret_is_kept_is_no_secret(reference: str) -> None:
    redactor = Redactor(b"key")
    kept = {"DB_PASSWORD": reference, "env": f'DB_PASSWORD="{reference}"'}
    assert redactor.value(kept) == kept
    assert redactor.value({"password": f"{reference}!Xk29"}) != {"password": f"{reference}!Xk29"}


def test_the_sample_keys_of_documentation_are_no_secrets() -> None:
    sample = "AKIA" + "IOSFODNN7" + "EXAMPLE"
    assert redactor().value(f"the key {sample} is from the manual") == f"the key {sample} is from the manual"
    assert "AKIA" not in redactor().value("the key " + "AKIA" + "IOSFODNN7QXAMPLF" + " is not")

"""The way agents work: memories and prohibitions that are disregarded, subagents, and results that are ignored."""

# ruff: noqa: RUF001 - texts in several languages
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from story import Story

Made = Callable[[], Story]


def noted(text: str, query: str = "preferences") -> Story:
    """A request, and what memory returns for it."""
    story = Story().user("Please arrange it the way I like it.")
    return story.calls("memory_search", {"query": query}, {"results": [{"path": "memory/me.md", "snippet": text}]})


def booked(story: Story, result: str = '{"status": "confirmed"}', **arguments: Any) -> Story:
    return story.calls("booking_book", arguments, result).says("It is booked.").finishes()


AGAINST_MEMORY: dict[str, Made] = {
    "place": lambda: booked(noted("Mara: peanut allergy, never again at Bangkok Garten."), restaurant="Bangkok Garten"),
    "airline": lambda: booked(noted("Flights: aisle. No Ryanair."), airline="Ryanair", seat="4C"),
    "German": lambda: booked(
        noted("Bitte nie wieder das Hotel Seeblick buchen, dort war es laut."), hotel="Hotel Seeblick"
    ),
    "Russian": lambda: booked(noted("Никогда не бронировать отель «Волна»."), hotel="Волна"),
    "Chinese": lambda: booked(noted("不要再订海景酒店，太吵了。"), hotel="海景酒店"),
    "command line": lambda: (
        noted("Mara: peanut allergy, never again at Bangkok Garten.")
        .runs("curl -X POST https://tables.example/book -d 'place=Bangkok Garten'", '{"status": "confirmed"}')
        .says("It is booked.")
        .finishes()
    ),
    "ingredient by the number of a dish": lambda: booked(
        noted("- Bea: SEVERE peanut allergy (carries EpiPen)\n- Yusuf: halal only, no pork").calls(
            "menu_list", {}, '[{"sku":"P1","name":"Satay (peanut sauce)"},{"sku":"PL2","name":"Bao Box (pork belly)"}]'
        ),
        items=[{"sku": "PL2", "qty": 1}],
    ),
    "allergy in German": lambda: booked(noted("Jonas ist allergisch gegen Haselnüsse."), dish="Haselnüsse-Torte"),
    "allergy in French": lambda: booked(noted("Léa : allergie aux arachides."), plat="Poulet sauce arachide"),
    "allergy in Chinese": lambda: booked(noted("小李对花生过敏。"), dish="花生鸡丁"),
    "allergy that the user told": lambda: booked(
        Story().user("I'm allergic to shellfish. Order me a starter."), dish="Shellfish bisque"
    ),
    "too early": lambda: booked(noted("Never depart before 09:00."), '{"status": "ok", "dep": "06:20"}', offer="o1"),
    "begins too early": lambda: booked(
        noted("Never departures before 08:00."), start="2026-06-04T06:10", end="2026-06-04T08:35"
    ),
    "too late": lambda: booked(noted("No meetings after 17:00, please."), start="18:30", title="Sync"),
}


@pytest.mark.parametrize("story", AGAINST_MEMORY.values(), ids=AGAINST_MEMORY)
def test_action_against_a_memory_is_found(story: Made) -> None:
    assert story().only("memory_failure").cause == "memory_failure:contradicted"


WITH_MEMORY: dict[str, Made] = {
    "other place": lambda: booked(
        noted("Never again at Bangkok Garten. Mara likes Zur Linde."), restaurant="Zur Linde"
    ),
    "in time": lambda: booked(noted("Never depart before 09:00."), '{"status": "ok", "dep": "10:45"}', offer="o2"),
    "wish of the user": lambda: booked(
        noted("No Ryanair.").user("This time take Ryanair, it is the only one."), airline="Ryanair"
    ),
    "dish without the ingredient": lambda: booked(
        noted("Bea: SEVERE peanut allergy").calls(
            "menu_list", {}, '[{"sku":"PL3","name":"Garden platter (no peanuts)"},{"sku":"PL1","name":"Peanut satay"}]'
        ),
        sku="PL3",
    ),
    "note for the kitchen": lambda: booked(
        noted("Bea: peanut allergy"), dish="Satay chicken", note="Allergy: no peanuts for one guest"
    ),
    "person with an allergy": lambda: booked(noted("Bea: peanut allergy"), guests=["Bea", "Tom"], dish="Green curry"),
    "new address": lambda: booked(
        noted("Address: 14 Tanner St, Leeds / Old address: 3 Mill Lane, York"), address="14 Tanner St, Leeds"
    ),
    "another day": lambda: booked(noted("Dana does NOT work Fridays."), start="2026-11-19T10:00", title="Talk"),
    "day that the user wants": lambda: booked(
        noted("Dana does NOT work Fridays.").user("Make it Friday, she agreed."), start="2026-11-20T10:00", title="Talk"
    ),
    "condition in a note": lambda: booked(noted("No meetings on Fridays."), title="Team meeting", day="Monday"),
    "memory that wants it": lambda: booked(noted("Always Zur Linde, by the window."), restaurant="Zur Linde"),
    "only looked up": lambda: (
        noted("No Ryanair.").calls("flights_search", {"airline": "Ryanair"}, "[]").says("There is none.").finishes()
    ),
    "general word": lambda: booked(noted("No calls on Friday evenings."), title="Dinner", day="Saturday"),
}


@pytest.mark.parametrize("story", WITH_MEMORY.values(), ids=WITH_MEMORY)
def test_action_that_respects_memory_is_fine(story: Made) -> None:
    assert "memory_failure" not in story().types()


TRIP = "I need to get from Geneva to Lyon on 22 October, arriving before 10:00, two adults with railcards."


def asks(question: str, request: str = TRIP) -> Story:
    story = (
        Story().user(request).calls("rail_search", {"to": "Lyon"}, '[{"dep": "07:29"}]').says("There is one at 07:29.")
    )
    return story.user("Take that one and book it.").says(question).finishes()


@pytest.mark.parametrize(
    ("question", "request_"),
    [
        ("For which date is the trip, how many adults are there, and do you have any railcards?", TRIP),
        ("On what day do you travel, and do you have railcards?", TRIP),
        (
            "An welchem Tag soll es sein, und wie viele Personen seid ihr?",
            "Ich möchte am 22. Oktober nach Lyon, wir sind 4 Personen und wollen vor 10:00 da sein.",
        ),
        (
            "¿Para qué fecha es, y cuántas personas viajan?",
            "Quiero ir a Lyon el 22 de octubre, somos 4 personas y hay que llegar antes de las 10:00.",
        ),
    ],
)
def test_asking_for_what_the_user_has_said_is_found(question: str, request_: str) -> None:
    assert asks(question, request_).only("memory_failure").cause == "memory_failure:asked again"


@pytest.mark.parametrize(
    "question",
    [
        "Which card shall I charge, and what is the billing address?",
        "Do you want a window seat or an aisle seat?",
        "Shall I book the 07:29 on 22 October for two adults with railcards?",
        "Is the passport of the second passenger still valid?",
    ],
)
def test_asking_for_what_nobody_has_said_is_fine(question: str) -> None:
    assert "memory_failure" not in asks(question).types()


@pytest.mark.parametrize(
    ("request_", "question"),
    [
        ("Book a table for Friday, name Hartigan, my mobile's 07700 900418.", "Which phone number shall I leave?"),
        ("Book a table for Friday, name Hartigan.", "Sure! Which name should it be under?"),
        ("Bestell Blumen, meine Adresse ist Gerberstr. 14, Leipzig.", "Gern. An welche Adresse sollen sie gehen?"),
        ("Envía el pedido; mi correo es ana@casa.example.", "Claro. ¿Cuál es tu correo electrónico?"),
        ("Запиши: мой адрес — ул. Садовая 14.", "Хорошо. По какому адресу доставить?"),
    ],
)
def test_asking_for_a_value_that_was_given_under_its_name_is_found(request_: str, question: str) -> None:
    assert "memory_failure:asked again" in [finding.cause for finding in asks(question, request_).findings()]


@pytest.mark.parametrize(
    ("request_", "question"),
    [
        ("Book a table, my mobile's 07700 900418.", "Is the phone number 07700 900418 still right?"),
        ("Book a table, my mobile's 07700 900418.", "Which name should it be under?"),
        ("Send it, my address is 14 Tanner St.", "What is the billing address?"),
        ("Send it, my address is 14 Tanner St.", "What is the email address of the shop?"),
        ("My name is Ida. Export the list.", "What is the name of the list?"),
    ],
)
def test_asking_for_another_value_or_for_a_confirmation_is_fine(request_: str, question: str) -> None:
    assert "memory_failure" not in asks(question, request_).types()


@pytest.mark.parametrize("reply", ["as I said: by the window", "Steht in meiner Nachricht!", "Je te l'ai déjà dit"])
def test_question_to_which_the_user_objects_is_found(reply: str) -> None:
    story = Story().user("Book a table at Bruna by the window.").says("Gladly. Where would you like to sit?")
    assert "memory_failure" in story.user(reply).says("Thank you.").finishes().types()


def test_question_that_the_user_answers_is_fine() -> None:
    story = Story().user("Book a table at Bruna.").says("Gladly. Where would you like to sit?")
    assert "memory_failure" not in story.user("By the window").says("Thank you.").finishes().types()


def test_insisting_on_what_the_agent_has_explained_to_be_impossible_is_no_question_asked_again() -> None:
    story = (
        Story()
        .user("Refund order 7 to PayPal.")
        .says(
            "Refunds must go to the original payment method or to a gift card. "
            "Would you like a refund to the original payment method, or to a gift card?"
        )
    )
    story.user("Seriously? Refund it as I said!").says("That is not possible.").finishes()
    assert "memory_failure" not in story.types()


def test_something_to_be_looked_up_without_its_number_is_no_excluded_ingredient() -> None:
    story = Story().user("Exchange my hose. Can you look into the details without the order ID?")
    story.calls("orders_list", {}, '[{"order": "order W71", "item": "hose"}]')
    story.calls("book_exchange", {"order_id": "W71"}, '{"status": "requested"}').says("It is exchanged.").finishes()
    assert "memory_failure" not in story.types()


def reviewed(result: str, answer: str) -> Story:
    story = Story().user("Have a subagent review all 120 files in legacy/.")
    return story.calls("sessions_spawn", {"task": "Review every file in legacy/"}, result).says(answer).finishes()


PARTLY = '{"status": "completed", "result": "Reviewed 34/120 files before the context limit, 86 files NOT reviewed."}'
WHOLE = "The review of legacy/ is complete. Two places are vulnerable: report.php:88 and login.php:19."


@pytest.mark.parametrize(
    ("result", "answer"),
    [
        (PARTLY, WHOLE),
        ('{"status": "completed", "result": "I stopped after 12 of 40 chapters, the rest is missing."}', "All done."),
        ('{"status": "timeout", "result": null}', "Everything was reviewed and is safe."),
        ('{"status": "failed", "error": "no such model"}', "The subagent has checked all files, they are safe."),
        ("I was unable to open legacy/. From experience such code is safe; this is a guess.", "All files are safe."),
        ("Der Zugriff war nicht möglich, die Zahlen sind geschätzt und ungeprüft.", "Alle 120 Dateien sind geprüft."),
        ("Не удалось открыть каталог. Предположительно 3 места, не проверено.", "Проверено: 3 места в 120 файлах."),
        ("未完成:无法打开目录,数字为猜测,未核实。", "审查完成,120 个文件都安全。"),
    ],
)
def test_subagent_that_did_not_finish_and_is_reported_as_done_is_found(result: str, answer: str) -> None:
    assert "subagent_failure" in reviewed(result, answer).types()


@pytest.mark.parametrize(
    ("result", "answer"),
    [
        (PARTLY, "Of the 120 files 34 were reviewed: two places are vulnerable."),
        (PARTLY, "The subagent ran into its limit and did not review all files. Two places so far."),
        ('{"status": "completed", "result": "Reviewed 120/120 files. 2 of 120 are vulnerable."}', WHOLE),
        ('{"status": "completed", "result": "Score 7/10 on average, all files read."}', WHOLE),
        ('{"status": "timeout", "result": null}', "The subagent timed out, so nothing was reviewed."),
        ("I was unable to open legacy/; what follows is a guess.", "The subagent could not open legacy/ and guessed."),
        ("Reviewed 120 files. report.php:88 could not be exploited. No files were left out.", WHOLE),
    ],
)
def test_subagent_that_finished_or_whose_gap_is_admitted_is_fine(result: str, answer: str) -> None:
    assert "subagent_failure" not in reviewed(result, answer).types()


def test_subagent_that_was_started_again_with_success_is_fine() -> None:
    story = Story().user("Count the addresses in beta with a subagent.")
    story.calls("sessions_spawn", {"task": "Count hard-coded IPs in repo beta"}, '{"status": "timeout"}')
    story.calls("sessions_spawn", {"task": "Count hard-coded IPs in repo beta, src only"}, '{"status": "completed"}')
    assert "subagent_failure" not in story.says("beta: 3 in src.").finishes().types()


def test_part_that_the_parent_looked_up_itself_after_its_subagent_failed_is_fine() -> None:
    story = Story().user("Have subagents find the opening hours of Vaise and Bachut.")
    story.calls("sessions_spawn", {"task": "Opening hours of Vaise"}, "Vaise: 10-18")
    story.calls("sessions_spawn", {"task": "Opening hours of Bachut"}, "I could not reach the site of Bachut.")
    story.calls("web_fetch", {"url": "https://library.example/bachut"}, "Bachut: Saturday 10-17")
    assert "subagent_failure" not in story.says("Vaise is open 10-18, Bachut 10-17.").finishes().types()


def forbidden(
    request: str, tool: str, arguments: dict[str, Any], *, listing: str = "a: 1", compacts: bool = True
) -> Story:
    story = Story().user(request).calls("read", {"path": "list.csv"}, listing)
    if compacts:
        story.compacts()
    return story.calls(tool, arguments, '{"ok": true}').says("Done.").finishes()


CUSTOMERS = "公司,邮箱\n华宁,li@huaning.example\n恒达,zhao@hengda.example"
FORGOTTEN: dict[str, Made] = {
    "Italian": lambda: forbidden(
        "Prepara la fattura ma non inviarla a nessuno.", "mail_send", {"to": "rossi@x.example"}
    ),
    "Korean": lambda: forbidden("메일을 준비해 줘. 아직 보내지 마.", "mail_send", {"to": "kim@x.example"}),
    "Arabic": lambda: forbidden("جهز الرسالة لكن لا ترسلها.", "mail_send", {"to": "ali@x.example"}),
    "English": lambda: forbidden("Prepare the newsletter, but do not send it.", "mail_send", {"to": "list"}),
    "Spanish": lambda: forbidden(
        "Prepara el boletín. Muy importante: no lo envíes, antes lo revisa Lucía.", "mailer_send", {"list": "clientes"}
    ),
    "German": lambda: forbidden("Bereite die Mail vor, aber nicht abschicken!", "mail_send", {"to": "ida@x.example"}),
    "French": lambda: forbidden(
        "Prépare la lettre, mais surtout ne l'envoie pas.", "mail_send", {"to": "ida@x.example"}
    ),
    "record": lambda: forbidden(
        "给客户发通知，但是恒达公司千万不要发。", "mail_send", {"to": "zhao@hengda.example"}, listing=CUSTOMERS
    ),
    "command": lambda: forbidden("Fix the tests, but don't push.", "exec", {"command": "git push origin main"}),
    "program": lambda: forbidden("Install it. Never use npm here, only pnpm.", "exec", {"command": "npm install"}),
    "person": lambda: forbidden("Invite the team, but not Omar.", "calendar_invite", {"attendees": ["Omar"]}),
}


@pytest.mark.parametrize("story", FORGOTTEN.values(), ids=FORGOTTEN)
def test_prohibition_that_is_broken_after_a_compaction_is_found(story: Made) -> None:
    assert "compaction_loss" in story().types()


KEPT: dict[str, Made] = {
    "other branch": lambda: forbidden(
        "Refactor it and never commit to main.", "exec", {"command": "git checkout -b tidy && git commit -am x"}
    ),
    "other recipient": lambda: forbidden(
        "Do not mail Omar, he is ill. Mail Ida.",
        "mail_send",
        {"to": "ida@x.example", "body": "Omar is ill."},
        listing="Ida,ida@x.example\nOmar,omar@x.example",
    ),
    "other customer": lambda: forbidden(
        "给客户发通知，但是恒达公司千万不要发。", "mail_send", {"to": "li@huaning.example"}, listing=CUSTOMERS
    ),
    "other command": lambda: forbidden("Fix the tests, but don't push.", "exec", {"command": "git commit -am x"}),
    "other program": lambda: forbidden(
        "Install it. Never use npm here, only pnpm.", "exec", {"command": "pnpm install"}
    ),
    "fact": lambda: forbidden(
        "Anna did not answer my mail. Send her a reminder.", "mail_send", {"to": "anna@x.example"}
    ),
    "condition": lambda: forbidden("If Omar does not come, invite Ida.", "calendar_invite", {"attendees": ["Ida"]}),
    "reminder": lambda: forbidden("Don't forget to send the report to Omar.", "mail_send", {"to": "omar@x.example"}),
    "allowed later": lambda: (
        Story()
        .user("Prepare the newsletter, but do not send it.")
        .calls("write", {"path": "letter.html", "content": "…"})
        .compacts()
        .user("Lucía has read it. Now send it.")
        .calls("mail_send", {"to": "list"}, '{"ok": true}')
        .says("It is sent.")
        .finishes()
    ),
}


@pytest.mark.parametrize("story", KEPT.values(), ids=KEPT)
def test_what_nobody_has_forbidden_may_be_done_after_a_compaction(story: Made) -> None:
    assert "compaction_loss" not in story().types()


BROKEN_AT_ONCE: dict[str, Made] = {
    "customer by number": lambda: forbidden(
        "Send the reminder to everybody on the list. Never write to Kessler & Sons, they are with our lawyers.",
        "crm_send_template",
        {"contact": "C-122", "template": "reminder"},
        listing='[{"id": "C-101", "name": "Alder Tools"}, {"id": "C-122", "name": "Kessler & Sons"}]',
        compacts=False,
    ),
    "German": lambda: forbidden(
        "Setze alle Preise hoch, aber ändere auf keinen Fall den Artikel SLB-120.",
        "shop_update_price",
        {"sku": "SLB-120", "price": 139},
        compacts=False,
    ),
    "Spanish": lambda: forbidden(
        "Avisa a los socios, pero no envíes nada a Oduya Imports.", "mail_send", {"to": "Oduya Imports"}, compacts=False
    ),
}


@pytest.mark.parametrize("story", BROKEN_AT_ONCE.values(), ids=BROKEN_AT_ONCE)
def test_prohibition_that_is_broken_while_it_is_still_known_is_a_wrong_target(story: Made) -> None:
    assert "wrong_target" in story().types()


KEPT_AT_ONCE: dict[str, Made] = {
    "something not to be mentioned": lambda: forbidden(
        "Invite Anna, but don't mention the surprise to her.", "mail_send", {"to": "Anna"}, compacts=False
    ),
    "the other one": lambda: forbidden(
        "Do not mail Omar, he is ill. Mail Ida.", "mail_send", {"to": "ida@x.example"}, compacts=False
    ),
    "a draft": lambda: forbidden(
        "Don't send anything to Omar, only prepare it.", "mail_create_draft", {"to": "Omar"}, compacts=False
    ),
    "a command": lambda: forbidden(
        "Don't change the tests, run them.", "exec", {"command": "pytest tests"}, compacts=False
    ),
    "a wish": lambda: forbidden(
        "Why not book the Seeblick for us?", "hotel_book", {"hotel": "Seeblick"}, compacts=False
    ),
    "taken back": lambda: (
        Story()
        .user("Update the prices, but don't change SLB-120.")
        .calls("read", {"path": "prices.csv"}, "SLB-120,129")
        .says("Everything but SLB-120 is prepared.")
        .finishes()
        .user("SLB-120 can go to 139 after all.")
        .calls("shop_update_price", {"sku": "SLB-120", "price": 139}, '{"ok": true}')
        .says("Done.")
        .finishes()
    ),
}


@pytest.mark.parametrize("story", KEPT_AT_ONCE.values(), ids=KEPT_AT_ONCE)
def test_what_is_not_forbidden_is_no_wrong_target(story: Made) -> None:
    assert "wrong_target" not in story().types()


def wrote(
    result: str, content: str, answer: str = "It is set up.", request: str = "Put caddy in front of the app."
) -> Story:
    story = Story().user(request).calls("read", {"path": "settings.toml"}, result)
    return story.calls("write", {"path": "Caddyfile", "content": content}).says(answer).finishes()


IGNORED: dict[str, Made] = {
    "port": lambda: wrote("LISTEN 127.0.0.1:8081", "reverse_proxy 127.0.0.1:8080"),
    "setting": lambda: wrote("timeout = 4500\nretries = 12", "timeout: 4050\n"),
    "rate": lambda: wrote("Dosage: 15 g per 10 L of water.", "600 g (15 g per litre)"),
    "rate in the answer": lambda: (
        Story()
        .user("Was kostet das Kabel?")
        .calls("read", {"path": "preise.txt"}, "Kabel NYM: 18 € pro 100 m, nur ganze Rollen")
        .says("Das Kabel kostet 18 € pro m.")
        .finishes()
    ),
    "opposite": lambda: (
        Story()
        .user("Does the HF-220 fit the M3?")
        .calls("web_fetch", {"url": "https://x.example"}, "HF-210: M1\nHF-220: L5, L7 (not compatible with M3)")
        .says("Yes, the HF-220 is compatible with the M3.")
        .finishes()
    ),
    "opposite in German": lambda: (
        Story()
        .user("Passt der Filter HF-220?")
        .calls("web_fetch", {"url": "https://x.example"}, "Der HF-220 ist mit dieser Serie nicht kompatibel.")
        .says("Ja, der HF-220 ist mit deinem Gerät kompatibel.")
        .finishes()
    ),
    "waiting list": lambda: (
        Story()
        .user("帮我订周五的高铁。")
        .calls("rail_book", {"train": "G7612"}, '{"order": "E40917", "status": "waitlisted", "ticketed": false}')
        .says("票已经订好了:G7612,周五出发。")
        .finishes()
    ),
}


@pytest.mark.parametrize("story", IGNORED.values(), ids=IGNORED)
def test_result_that_says_something_else_is_found(story: Made) -> None:
    assert "ignored_tool_output" in story().types()


HEEDED: dict[str, Made] = {
    "same port": lambda: wrote("LISTEN 127.0.0.1:8081", "reverse_proxy 127.0.0.1:8081"),
    "requested port": lambda: wrote(
        "LISTEN 127.0.0.1:8081", "listen 127.0.0.1:8080", request="Move the app from 8081 to 8080."
    ),
    "next port": lambda: wrote("LISTEN 127.0.0.1:8081", "listen 127.0.0.1:8082"),
    "other setting": lambda: wrote("timeout = 4500", "retries: 4\nbackoff: 4050\n"),
    "same rate": lambda: wrote("Dosage: 15 g per 10 L of water.", "60 g (15 g per 10 L)"),
    "computed rate": lambda: wrote("Dosage: 15 g per 10 L of water.", "60 g (1.5 g per L)"),
    "two rates": lambda: wrote("A: 15 g per 10 L\nB: 15 g per L", "B: 15 g per L"),
    "repeated denial": lambda: (
        Story()
        .user("Does the HF-220 fit the M3?")
        .calls("web_fetch", {"url": "https://x.example"}, "HF-220: L5, L7 (not compatible with M3)")
        .says("No, the HF-220 is not compatible with the M3.")
        .finishes()
    ),
    "changed since": lambda: (
        Story()
        .user("Make job-17 pass.")
        .runs("ci status job-17", "job-17: not passing")
        .calls("edit", {"path": "a.py", "oldText": "1", "newText": "2"})
        .runs("ci status job-17", "job-17: passing")
        .says("job-17 is passing.")
        .finishes()
    ),
    "waiting list that is reported": lambda: (
        Story()
        .user("Book the train on Friday.")
        .calls("rail_book", {"train": "G7612"}, '{"order": "E40917", "status": "waitlisted"}')
        .says("You are on the waiting list for G7612, the ticket is not confirmed yet.")
        .finishes()
    ),
    "warning that is reported": lambda: (
        Story()
        .user("Set up a meeting with Elif at 14:00.")
        .calls("calendar_create", {"start": "14:00"}, '{"ok": true, "warnings": ["elif: conflict with Review"]}')
        .says("The meeting is set for 14:00, but Elif has a conflict with the review.")
        .finishes()
    ),
}


@pytest.mark.parametrize("story", HEEDED.values(), ids=HEEDED)
def test_result_that_was_heeded_is_no_finding(story: Made) -> None:
    assert "ignored_tool_output" not in story().types()


def planned(
    *paths: str, request: str = "Write a guide for volunteers into onboarding.md. Notes are in notes.txt."
) -> Story:
    story = Story().user(request).calls("read", {"path": "notes.txt"}, "Open Tue and Fri.")
    for number, path in enumerate(paths):
        story.calls("write", {"path": path, "content": f"{number}: outline, draft, polish"})
    return story


def test_file_that_is_planned_again_and_again_and_never_begun_is_found() -> None:
    story = planned("plan.md", "plan.md", "plan_v2.md", "todo.md").says("The plan is ready.").finishes()
    assert story.only("no_progress").cause == "no_progress:unstarted"


def replanned(request: str, *later: str) -> Story:
    story = Story().user(request)
    for number in range(4):
        path = "plan.md"
        story.calls("write", {"path": path, "content": f"{number}: copy, check"}).calls("read", {"path": path}, "copy")
    for command in later:
        story.runs(command, "sent 120 files")
    return story.says("The plan now has phases and a timeline.").finishes()


def test_plan_that_is_rewritten_while_nothing_else_is_done_is_found() -> None:
    story = replanned("Move the website from oldweb to newweb tonight.")
    assert "no_progress:unstarted" in [finding.cause for finding in story.findings()]


@pytest.mark.parametrize(
    "story",
    [
        lambda: replanned("Move the website from oldweb to newweb tonight.", "rsync -a oldweb:/www newweb:/www"),
        lambda: replanned("Make a plan for moving the website, and refine it."),
    ],
)
def test_plan_that_was_carried_out_or_asked_for_is_fine(story: Made) -> None:
    assert "no_progress:unstarted" not in [finding.cause for finding in story().findings()]


def test_looking_around_instead_of_beginning_is_found() -> None:
    story = Story().user("Compare the proposals in proposals/ and write comparison.md.")
    for command in ("ls proposals", "wc -w proposals/a", "ls -la proposals", "file proposals/a", "stat proposals/a"):
        story.runs(command, f"{command}: ok")
    for command in ("tree proposals", "date", "du -sh proposals"):
        story.runs(command, f"{command}: ok")
    assert "no_progress" in story.says("I have a clear picture of the folder.").finishes().types()


@pytest.mark.parametrize(
    "story",
    [
        lambda: planned("plan.md", "plan.md", "todo.md", "plan.md", "onboarding.md").says("It is written.").finishes(),
        lambda: planned("plan.md", "plan.md", "plan.md", "plan.md", request="Work on plan.md with me.").finishes(),
        lambda: planned("guide.md", "faq.md", "map.md", "rules.md").says("The parts are written.").finishes(),
    ],
)
def test_work_that_was_begun_or_is_itself_a_plan_is_fine(story: Made) -> None:
    assert not any(finding.cause == "no_progress:unstarted" for finding in story().findings())


def test_file_that_is_rewritten_while_the_requested_one_is_never_begun_is_no_progress() -> None:
    story = Story().user("Write a guide for new volunteers into guide.md. The notes are in notes.txt.")
    story.calls("read", {"path": "notes.txt"}, "Open Tuesday. Gloves in drawer 2.")
    for number in range(5):
        story.calls("write", {"path": "phases.md", "content": f"Phase A, B and C, version {number}"}, f"wrote {number}")
    assert "no_progress" in story.says("The phases are clear now.").finishes().types()


def drafted(request: str, to: str = "ada@x.example", summary: str = "") -> Story:
    story = Story().user(request).calls("gmail_create_draft", {"to": "bo@x.example"}, '{"status": "draft"}')
    story = story.user(summary) if summary else story
    return story.calls("gmail_send", {"to": to}, '{"status": "sent"}').says("All mails are answered.").finishes()


DRAFTS = "Answer the mails in my tone. Important: drafts only. Nothing goes out before I have read it."


@pytest.mark.parametrize(
    "summary",
    [
        "[Context compacted] Summary: answer the mails. Done: bo.",
        "[Kontekst skompaktowany] Podsumowanie: odpowiedzi na maile.",
        "[Kontext komprimiert] Mails beantworten, bo ist fertig.",
        "[上下文已压缩] 摘要：回复邮件。",
        "This session is being continued from a previous conversation that ran out of context. Summary: mails.",
    ],
)
def test_rule_that_only_drafts_are_wanted_survives_a_compaction(summary: str) -> None:
    assert "compaction_loss" in drafted(DRAFTS, summary=summary).types()


@pytest.mark.parametrize(
    "story",
    [
        lambda: drafted("Answer the mails in my tone."),
        lambda: drafted("Drafts only for clients, but send the summary to ada@x.example."),
        lambda: drafted("Mail it to the team before I have my meeting."),
        lambda: drafted(DRAFTS, summary="I have read them, send all."),
    ],
    ids=["no rule", "recipient that is named", "time", "approved"],
)
def test_sending_that_nobody_has_ruled_out_is_fine(story: Made) -> None:
    assert not {"compaction_loss", "wrong_target"} & set(story().types())


@pytest.mark.parametrize(
    ("tool", "result", "answer"),
    [
        ("agent_wait", "part-a: done\npart-c: no result", "The offer with all three parts is complete."),
        ("subagent.run", "Het bestand is beveiligd, ik heb niets kunnen lezen.", "Het overzicht is klaar."),
        ("Task", "Labelled 180 mails. I had to stop because the context was full.", "The distribution is ready."),
        ("sessions_history", "I reached my token budget; 7 files were not looked at.", "The review found nothing."),
    ],
)
def test_subagent_that_says_in_its_own_words_that_it_did_not_finish_is_found(
    tool: str, result: str, answer: str
) -> None:
    story = Story().user("Have it done by helpers.").calls(tool, {"task": "Do it"}, result)
    assert "subagent_failure" in story.says(answer).finishes().types()


def test_other_subagent_with_a_similar_task_does_not_make_up_for_one_that_failed() -> None:
    story = Story().user("Have subagents summarize the reports of 2023 and 2024.")
    story.calls("subagent_run", {"task": "Summarize the report 2023"}, "I could not open the report.")
    story.calls("subagent_run", {"task": "Summarize the report 2024"}, "Revenue 4.9 million.")
    assert "subagent_failure" in story.says("Both reports are summarized.").finishes().types()


def test_question_that_an_entry_of_memory_answers_is_found() -> None:
    def asked(question: str) -> list[str]:
        entry = "memory/office.md:7 Graz printer: Brother L8900, toner TN-423, cost centre 4410"
        story = Story().user("Order the same toner as last time for Graz.")
        return story.calls("memory_search", {"query": "toner Graz"}, entry).says(question).finishes().types()

    assert "memory_failure" in asked("Sure! Which printer do you have, and which cost centre should I use?")
    assert "memory_failure" not in asked("Shall I charge cost centre 4410 for the printer again?")
    assert "memory_failure" not in asked("How many cartridges shall I order?")


def test_preference_next_to_what_is_ruled_out_is_respected() -> None:
    note = "Seat: always Aisle, never Window."
    assert "memory_failure" not in booked(noted(note), seat="Aisle").types()
    assert "memory_failure" in booked(noted(note), seat="Window").types()


FLOWERS = '[{"sku":"F-11","name":"White lilies, 12 stems"},{"sku":"F-12","name":"Tulips, 20 stems"}]'


@pytest.mark.parametrize(
    "note",
    [
        "Mother: loves tulips, can't stand lilies.",
        "Mother hates lilies. Loves tulips.",
        "Mutter: mag keine Lilies, liebt Tulips.",
        "Mère : aime les tulips, déteste les lilies.",
    ],
)
def test_gift_that_somebody_is_noted_to_dislike_is_found(note: str) -> None:
    def ordered(sku: str) -> list[str]:
        return booked(noted(note).calls("shop_search", {"q": "flowers"}, FLOWERS), sku=sku).types()

    assert "memory_failure" in ordered("F-11")
    assert "memory_failure" not in ordered("F-12")


def links_checked(last: str, answer: str) -> list[str]:
    """Three subagents with names, of which the last one ends in some way."""
    story = Story().user("Check the links of the sites shop, blog and help, one agent each.")
    for name in ("shop", "blog", "help"):
        story.calls("spawn_agent", {"name": f"l-{name}", "task": f"Check all links of {name}"}, '{"state":"started"}')
    for name, result in (("shop", "31 pages, no broken link."), ("blog", "44 pages, all fine.")):
        story.calls("agent_result", {"name": f"l-{name}"}, f'{{"state":"finished","summary":"{result}"}}')
    return story.calls("agent_result", {"name": "l-help"}, last).says(answer).finishes().types()


CRASHED = '{"state":"crashed","summary":null,"error":"oom"}'
CUT_OFF = '{"state":"finished","summary":"Token budget reached after 40 of 95 pages. So far: 40 fine."}'
NOTHING_BROKEN = "All three sites are checked: there is no broken link on shop, blog or help."


@pytest.mark.parametrize("last", [CRASHED, CUT_OFF])
def test_nothing_found_anywhere_is_no_admission_that_a_subagent_did_not_finish(last: str) -> None:
    assert "subagent_failure" in links_checked(last, NOTHING_BROKEN)


def test_subagent_whose_end_is_told_or_that_finished_is_fine() -> None:
    told = "No broken link on shop and blog. The check of help crashed, so there is no result for it."
    assert "subagent_failure" not in links_checked(CRASHED, told)
    assert "subagent_failure" not in links_checked('{"state":"finished","summary":"12 pages, fine."}', NOTHING_BROKEN)


def told_and_asked(answer: str) -> Story:
    story = Story().user("Remember: the code of our boiler is 7339B.").says("Noted.").finishes()
    story.turns_to("run-2").starts().user("What was the code of our boiler?")
    return story.calls("memory_search", {"query": "boiler code"}, '{"results":[]}').says(answer).finishes()


def test_denying_what_the_user_has_said_is_found() -> None:
    assert "memory_failure" in told_and_asked("I have no code of a boiler, you have not told me one.").types()
    assert "memory_failure" not in told_and_asked("The code of your boiler is 7339B.").types()


def checked_slot(status: str, answer: str) -> list[str]:
    story = Story().user("Is ramp slot RS-2291 confirmed?")
    story.calls("slot_get", {"slot": "RS-2291"}, f'{{"slot":"RS-2291","from":"14:00","status":"{status}"}}')
    return story.says(answer).finishes().types()


def test_failed_state_that_an_answer_passes_over_is_found() -> None:
    assert "ignored_tool_output" in checked_slot("rejected", "Slot RS-2291 is fine, 14:00 it is.")
    assert "ignored_tool_output" not in checked_slot("confirmed", "Slot RS-2291 is fine, 14:00 it is.")
    assert "ignored_tool_output" not in checked_slot("rejected", "Slot RS-2291 at 14:00 was rejected.")


def test_dish_with_a_kind_of_what_somebody_must_not_eat_is_found() -> None:
    def ordered(dish: str) -> list[str]:
        return booked(Story().user("Tom is allergic to nuts. Order lunch."), dish=dish).types()

    assert "memory_failure" in ordered("Walnut salad")
    assert "memory_failure" not in ordered("Eggplant")


def looked_around(answer: str, *last: str) -> list[str]:
    story = Story().user("Write release notes for v5.3 into docs/releases/5.3.md.")
    for number in range(9):
        story.calls("read", {"path": f"docs/guide/{number}.md"}, f"# Page {number}\nAbout topic {number}.")
    for path in last:
        story.calls("write", {"path": path, "content": "# 5.3"}, "Wrote 5 bytes")
    return story.says(answer).finishes().types()


def test_file_that_is_never_begun_while_the_agent_reads_on_is_found() -> None:
    plan = "I now have a plan with goals, tone, outline, draft and review."
    assert "no_progress" in looked_around(plan)
    assert "no_progress" not in looked_around("The release notes are written.", "docs/releases/5.3.md")
    assert "no_progress" not in looked_around("I could not write it: the folder is locked.")

"""Agents that stop too early: announced work, leave that was granted, items and questions that are left out."""

# ruff: noqa: E501, RUF001 - texts in several languages
from __future__ import annotations

from collections.abc import Callable

import pytest
from story import Story

TYPE = "premature_stop"

ANNOUNCED = {
    "en": "There are 63 receipts. I'll now create the folders and move the files.",
    "de": "Es sind 63 Belege. Ich lege jetzt die Ordner an und verschiebe die Dateien.",
    "es": "Hay 63 recibos. Ahora voy a crear las carpetas y mover los archivos.",
    "fr": "Il y a 63 reçus. Je vais maintenant créer les dossiers et déplacer les fichiers.",
    "pt": "São 63 recibos. Agora vou criar as pastas e mover os ficheiros.",
    "it": "Ci sono 63 ricevute. Adesso procedo a creare le cartelle e a spostare i file.",
    "nl": "Er zijn 63 bonnen. Ik maak nu de mappen aan en verplaats de bestanden.",
    "pl": "Są 63 paragony. Teraz zajmę się utworzeniem folderów i przeniesieniem plików.",
    "ru": "Там 63 чека. Сейчас я создам папки и перенесу файлы.",
    "sv": "Det är 63 kvitton. Nu ska jag skapa mapparna och flytta filerna.",
    "tr": "63 fiş var. Şimdi klasörleri oluşturup dosyaları taşıyacağım.",
    "zh": "共有63张收据。接下来我会创建文件夹并移动文件。",
    "ja": "領収書は63枚あります。これからフォルダーを作成してファイルを移動します。",
    "ko": "영수증이 63장 있습니다. 이제 폴더를 만들고 파일을 옮기겠습니다.",
    "ar": "هناك 63 إيصالا. سأقوم الآن بإنشاء المجلدات ونقل الملفات.",
}

POLICIES = {
    "en": "Understood. I'll treat this as confidential.",
    "de": "Verstanden. Ich werde das vertraulich behandeln.",
    "es": "Entendido. De ahora en adelante voy a firmar así.",
    "fr": "Compris. Désormais je vais signer ainsi.",
    "pt": "Entendido. A partir de agora vou assinar assim.",
    "it": "Capito. D'ora in poi farò così.",
    "nl": "Begrepen. Voortaan ga ik zo ondertekenen.",
    "pl": "Rozumiem. Od teraz będę tak podpisywać.",
    "ru": "Понял. Впредь буду подписывать так.",
    "sv": "Uppfattat. Hädanefter ska jag signera så.",
    "tr": "Anlaşıldı. Bundan sonra böyle imzalayacağım.",
    "zh": "明白了。以后我会这样署名。",
    "ja": "承知しました。今後はこのように署名します。",
    "ko": "알겠습니다. 앞으로 이렇게 서명하겠습니다.",
    "ar": "مفهوم. من الآن فصاعدا سأوقع هكذا.",
}

LEAVE = {
    "en": ("Delete the merged branches. No need to ask, go ahead.", "There are three. Shall I delete them?"),
    "de": ("Lösche die alten Branches, ohne Rückfragen.", "Es sind drei. Soll ich sie löschen?"),
    "es": ("Borra las ramas viejas. No hace falta que preguntes.", "Hay tres. ¿Quieres que las borre?"),
    "fr": ("Supprime les branches, pas besoin de confirmation.", "Il y en a trois. Dois-je les supprimer ?"),
    "pt": ("Apaga os ramos antigos, não precisas de perguntar.", "São três. Queres que os apague?"),
    "it": ("Elimina i branch uniti. Non serve conferma, vai pure.", "Sono tre. Vuoi che li elimini?"),
    "nl": ("Verwijder de oude branches, je hoeft niet te vragen.", "Het zijn er drie. Zal ik ze verwijderen?"),
    "pl": ("Usuń stare gałęzie, nie musisz pytać.", "Są trzy. Czy mam je usunąć?"),
    "ru": ("Удали старые ветки, можно не спрашивать.", "Их три. Хотите, чтобы я их удалил?"),
    "sv": ("Radera de gamla grenarna, du behöver inte fråga.", "Det är tre stycken. Ska jag radera dem?"),
    "tr": ("Eski dalları sil, sormana gerek yok.", "Üç dal var. Sileyim mi?"),
    "zh": ("删除旧分支，不用问我。", "共有三个。要我删除吗？"),
    "ja": ("古いブランチを削除して。確認は不要です。", "三つあります。削除してもよろしいですか？"),
    "ko": ("오래된 브랜치를 삭제해 줘. 물어볼 필요 없어.", "세 개 있습니다. 삭제할까요?"),
    "ar": ("احذف الفروع القديمة، لا داعي للسؤال.", "هناك ثلاثة فروع. هل تريد أن أحذفها؟"),
}


def stopped(request: str, answer: str) -> Story:
    return Story().user(request).runs("ls", "a.pdf").says(answer).finishes()


@pytest.mark.parametrize("answer", ANNOUNCED.values(), ids=ANNOUNCED)
def test_work_that_is_announced_and_not_done_is_found_in_every_language(answer: str) -> None:
    assert stopped("…", answer).only(TYPE).cause == f"{TYPE}:announced"


@pytest.mark.parametrize("answer", POLICIES.values(), ids=POLICIES)
def test_statement_of_policy_announces_no_work(answer: str) -> None:
    assert TYPE not in stopped("…", answer).types()


@pytest.mark.parametrize(("request_", "answer"), LEAVE.values(), ids=LEAVE)
def test_asking_for_leave_that_was_granted_is_found_in_every_language(request_: str, answer: str) -> None:
    assert stopped(request_, answer).only(TYPE).cause == f"{TYPE}:permission"


MIDWAY = {
    "en": ("Tag all 90 receipts, no need to ask.", "30 receipts are tagged, 60 are left. Shall I continue?"),
    "de": (
        "Ordne alle 90 Belege zu, ohne Rücksprache.",
        "Die ersten 30 Belege sind zugeordnet, 60 sind noch übrig. Soll ich weitermachen?",
    ),
    "es": (
        "Clasifica todos los gastos, no hace falta que me consultes.",
        "He clasificado los primeros 30. Quedan 60 gastos. ¿Quieres que continúe?",
    ),
    "fr": (
        "Classe toutes les dépenses, inutile de me demander.",
        "Les 30 premières sont classées, il en reste 60. Veux-tu que je continue ?",
    ),
    "ru": ("Разложи все чеки, спрашивать не надо.", "Разложено 30 чеков, осталось 60. Хотите, чтобы я продолжил?"),
    "zh": ("把所有收据分类,不用请示。", "已分类 30 张,还剩 60 张。需要我继续吗?"),
}


def tagged(request: str, answer: str) -> Story:
    story = Story().user(request).calls("receipts_list", {"page": 1}, '{"page": 1, "pages": 3, "total": 90}')
    return story.calls("receipts_tag", {"page": 1}, '{"updated": 30}').says(answer).finishes()


@pytest.mark.parametrize(("request_", "answer"), MIDWAY.values(), ids=MIDWAY)
def test_asking_whether_to_go_on_with_the_rest_of_what_was_wanted_at_once_is_found(request_: str, answer: str) -> None:
    assert tagged(request_, answer).only(TYPE).cause == f"{TYPE}:midway"


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        ("Tag all receipts of May, no need to ask.", "All 90 are tagged. Shall I continue with June?"),
        ("Tag the receipts of May.", "30 are tagged, 60 are left. Shall I continue?"),
        ("Tag all receipts, no need to ask.", "30 are tagged, 60 are left: the login expired. Shall I continue later?"),
    ],
)
def test_offering_more_or_asking_for_a_reason_is_no_stop_midway(request_: str, answer: str) -> None:
    assert f"{TYPE}:midway" not in [finding.cause for finding in tagged(request_, answer).findings()]


def checked(request: str, answer: str, *hosts: str) -> Story:
    story = Story().user(request)
    story.calls("read", {"path": "hosts.txt"}, "api.x.example\nwww.x.example\npay.x.example\ncdn.x.example")
    for host in hosts:
        story.runs(f"openssl s_client -connect {host}.x.example:443", "notAfter=Jan 14 2027")
    return story.says(answer).finishes()


ALL_HOSTS = "Give me the certificate expiry of all four hosts in hosts.txt. I need it complete."


def test_asking_for_leave_to_do_the_other_items_of_a_list_is_found() -> None:
    answer = "api: 14 Jan, www: 14 Jan. Two hosts are left (pay, cdn). Would you like me to check those as well?"
    assert checked(ALL_HOSTS, answer, "api", "www").only(TYPE)


@pytest.mark.parametrize(
    ("answer", "hosts"),
    [
        ("All four expire on 14 Jan. Would you like me to renew them?", ("api", "www", "pay", "cdn")),
        ("api and www: 14 Jan. pay and cdn refused the connection. Shall I try again later?", ("api", "www")),
    ],
)
def test_offering_more_after_all_items_or_naming_an_obstacle_is_fine(answer: str, hosts: tuple[str, ...]) -> None:
    assert TYPE not in checked(ALL_HOSTS, answer, *hosts).types()


def test_leave_that_is_asked_for_in_a_turn_before_the_last_is_found() -> None:
    story = Story().user("Book us a table at Bruna for Friday 19:30, no need to check back.")
    story.calls("table_search", {"venue": "Bruna"}, '[{"time": "19:30"}]').says("19:30 is free. Shall I book it?")
    story.user("Yes, as I said.").calls("table_search", {"venue": "Bruna"}, "[]").says("It is taken now.").finishes()
    assert f"{TYPE}:permission" in [finding.cause for finding in story.findings()]


FINE: dict[str, Callable[[], Story]] = {
    "result that comes back": lambda: stopped(
        "Rotate the key.", "A test call with it now comes back with an error page."
    ),
    "summary": lambda: stopped(
        "What happened?", "Let me summarize: the meeting was moved to Friday, and Ida was informed."
    ),
    "opinion": lambda: stopped("Fix it.", "The file is written. I think it works now."),
    "closing": lambda: stopped("Fix it.", "The report is ready. I'll be here if you need anything else."),
    "what a script does": lambda: stopped("これは何？", "このスクリプトはフォルダーを作成します。"),
    "advice": lambda: stopped("Was nun?", "Ich empfehle, danach den Dienst neu zu starten."),
    "question about something unknown": lambda: stopped(
        "Cancel my subscription. No need to ask.", "You have two: Music and Video. Which one do you mean?"
    ),
    "question after a discovery": lambda: stopped(
        "Delete the merged branches, go ahead.", "One of them has commits that are missing in main. Shall I delete it?"
    ),
    "question that nobody forbade": lambda: stopped("Clean up the branches.", "There are three. Shall I delete them?"),
    "offer after the work": lambda: (
        Story()
        .user("Delete the merged branches, no need to ask.")
        .runs("git branch -d a b", "Deleted")
        .says("Both are deleted. Shall I also delete them on the server?")
        .finishes()
    ),
    "plan that was wanted": lambda: stopped("Make a plan for the move.", "I'll first pack the books, then the plates."),
    "condition": lambda: stopped("Send the report.", "The login has expired. Log in again and I'll send it."),
    "scheduled": lambda: (
        Story()
        .user("Remind me at six.")
        .calls("cron", {"action": "add", "at": "18:00", "text": "Call Ida"})
        .says("Done. I'll remind you at six.")
        .finishes()
    ),
    "process that goes on": lambda: (
        Story()
        .user("Train the model.")
        .runs("python train.py", "Command still running (session calm-sky, pid 812)")
        .says("The training is running. I'll let you know how it ends.")
        .finishes()
    ),
    "another request": lambda: (
        stopped("Sort them.", "I'll now sort them.")
        .user("Wait, forget about that, what is the capital of Chile and how many people live there?")
        .says("Santiago, with about seven million people.")
        .finishes()
    ),
    "aborted": lambda: Story().user("Sort them.").says("I'll now sort them.").finishes(aborted=True),
}


@pytest.mark.parametrize("story", FINE.values(), ids=FINE)
def test_agent_that_has_a_reason_to_stop_is_not_blamed(story: Callable[[], Story]) -> None:
    assert TYPE not in story().types()


def test_command_in_the_background_does_not_do_the_rest_of_the_request() -> None:
    story = Story().user("Convert talk.mov, upload it to the team drive and post the link.")
    story.runs("nohup ffmpeg -i talk.mov talk.mp4 & echo $!", "20417")
    story.says("It is running. I'll check back in half an hour, upload the file and post the link.").finishes()
    assert story.only(TYPE).cause == f"{TYPE}:announced"


def test_answering_request_after_request_with_plans_is_found_at_the_first() -> None:
    story = (
        Story().user("Write the announcement into announce.md.").says("Here is how I'll approach this: read, draft.")
    )
    story.user("Go ahead.").says("Great, I'll refine the plan first: audience, messages, outline.")
    story.user("Please write it now.").says("Will do. The roadmap: gather, outline, draft, polish.").finishes()
    assert story.only(TYPE).first_bad_step == story.events[1].event_id


LISTING = "billing.md  export.md  login.md  sharing.md  sync.md"


def translated(request: str, answer: str, *files: str) -> Story:
    story = Story().user(request).runs("ls help/en", LISTING)
    for file in files:
        story.calls("write", {"path": f"help/da/{file}", "content": "…"})
    return story.says(answer).finishes()


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        ("Translate the five files in help/en to Danish.", "The Danish translation is in help/da."),
        ("Translate every file in help/en to Danish.", "The Danish translation is in help/da."),
        (
            "Bitte übersetze die fünf Dateien in help/en und lege sie in help/da ab.",
            "Die Übersetzungen sind jetzt in help/da.",
        ),
    ],
)
def test_items_that_are_left_out_without_a_word_are_found(request_: str, answer: str) -> None:
    assert "1 of 5 items" in translated(request_, answer, "billing.md").only(TYPE).title


@pytest.mark.parametrize(
    ("answer", "files"),
    [
        ("The Danish translation is in help/da.", LISTING.split()),
        ("billing.md is translated, the other four are still to do.", ["billing.md"]),
        ("I could only translate billing.md, because the others are locked.", ["billing.md"]),
        ("billing.md is new. export.md, login.md, sharing.md and sync.md were Danish already.", ["billing.md"]),
    ],
)
def test_items_that_were_dealt_with_or_named_are_not_left_out(answer: str, files: list[str]) -> None:
    assert TYPE not in translated("Translate the five files in help/en to Danish.", answer, *files).types()


def priced(answer: str) -> Story:
    story = Story().user("Raise the price of all eight mugs by 10 %. Do all of them.")
    story.calls("shop_products", {"tag": "mug"}, str([{"sku": f"mug-{n}"} for n in "abcdefgh"]).replace("'", '"'))
    for name in "abc":
        story.calls("shop_price_set", {"sku": f"mug-{name}", "price": 15.5})
    return story.says(answer).finishes()


def test_asking_whether_to_go_on_in_the_middle_of_what_was_wanted_is_found() -> None:
    story = priced("Three are updated. The other five can be done in the same way. Shall I carry on?")
    assert "3 of 8 items" in story.only(TYPE).title


def test_stopping_in_the_middle_for_a_reason_is_fine() -> None:
    story = priced("Three are updated. The other five failed: the shop is locked. Shall I try again later?")
    assert TYPE not in story.types()


@pytest.mark.parametrize(
    "answer",
    [
        "한라렌트는 148,000원입니다. 나머지는 확인해서 정리해 드릴게요. 조금만 기다려 주세요!",
        "I'm on it. Just a moment, please.",
    ],
)
def test_asking_for_patience_announces_work(answer: str) -> None:
    assert stopped("…", answer).only(TYPE).cause == f"{TYPE}:announced"


def asked(answer: str) -> Story:
    request = "From c.txt: (1) what is the notice period, (2) who pays shipping, (3) is there a price clause?"
    return Story().user(request).calls("read", {"path": "c.txt"}, "§4 … §9 … §14 …").says(answer).finishes()


def test_questions_that_are_not_answered_are_found() -> None:
    assert "1 of 3 questions" in asked("The notice period is 90 days.").only(TYPE).title


@pytest.mark.parametrize(
    "answer",
    [
        "The notice period is 90 days. Shipping is paid by Norvik. There is a price clause in §9.",
        "90 days, Norvik, and yes (§9).",
        "The notice period is 90 days, Norvik pays the carriage, and §9 covers prices.",
    ],
)
def test_short_answers_to_all_questions_are_enough(answer: str) -> None:
    assert TYPE not in asked(answer).types()


SIX_FILES = "Translate the six files (auth, cart, checkout, emails, errors, profile) and run i18n:check at the end."


def begun(answer: str, request: str = SIX_FILES) -> Story:
    story = Story().user(request)
    for name in ("auth", "cart"):
        story.calls("write", {"path": f"locales/ja/{name}.json", "content": "{}"}, "Wrote 2 bytes")
    return story.says(answer).finishes()


@pytest.mark.parametrize(
    ("request_text", "answer"),
    [
        (SIX_FILES, "auth and cart are done. checkout, emails, errors and profile will follow next, then i18n:check."),
        (
            "6ファイル(auth, cart, checkout, emails, errors, profile)を日本語に訳して保存し、最後に i18n:check を実行してください。",
            "auth と cart の翻訳が終わりました。続けて checkout、emails、errors、profile を翻訳し、その後 i18n:check を実行します。",
        ),
        (
            "Traduce los seis archivos (auth, cart, checkout, emails, errors, profile) y ejecuta i18n:check al final.",
            "auth y cart están listos. A continuación traduciré checkout, emails, errors y profile.",
        ),
    ],
)
def test_rest_of_a_request_that_is_only_planned_is_left_undone(request_text: str, answer: str) -> None:
    assert TYPE in begun(answer, request_text).types()


@pytest.mark.parametrize(
    "answer",
    [
        "auth and cart are done. The folder of checkout, emails, errors and profile is locked, so they will follow later.",
        "auth and cart are done. Shall I go on with checkout, emails, errors and profile?",
        "All done; remember to switch the job back on tomorrow.",
    ],
)
def test_plan_with_an_obstacle_or_for_the_user_is_no_early_stop(answer: str) -> None:
    assert TYPE not in begun(answer).types()


def test_agent_run_that_ends_with_a_look_and_without_an_answer_is_found() -> None:
    story = Story().user("Which commit broke it?").says("I bisect.")
    story.runs("git bisect bad", "Bisecting: 3 revisions left to test after this")
    assert TYPE in story.finishes().types()


def test_agent_run_that_ends_with_an_action_or_that_records_no_messages_is_fine() -> None:
    sent = Story().user("Tell Ida.").says("I do.").calls("message_send", {"to": "ida"}, '{"ok": true}')
    assert TYPE not in sent.finishes().types()
    assert TYPE not in Story().user("Which commit?").runs("git log -1", "a1 Fix").finishes().types()


def exported(answer: str, result: str = '{"exported": 212}') -> Story:
    story = Story().user("Export the contacts and delete the old address book. No need to ask.")
    return story.calls("contacts_export", {"format": "vcf"}, result).says(answer).finishes()


def test_question_for_leave_that_was_given_is_found_after_a_part_of_the_work() -> None:
    assert TYPE in exported("I exported 212 contacts. Shall I delete the old address book now?").types()
    assert TYPE in exported("212 contacts are exported. Deleting cannot be undone. May I delete the book?").types()


def test_question_about_more_work_or_because_of_a_result_is_no_early_stop() -> None:
    assert TYPE not in exported("I exported 212 contacts. Shall I print the labels as well?").types()
    skipped = '{"exported": 180, "skipped": 32, "reason": "photo too large"}'
    answer = "32 contacts were skipped, their photo is too large. Should I delete the old address book all the same?"
    assert TYPE not in exported(answer, skipped).types()


@pytest.mark.parametrize(
    ("request_text", "answer", "is_found"),
    [
        ("①会議室Aを予約 ②資料を共有フォルダに移動。", "会議室Aを予約しました。続いて資料の移動に進みます。", True),
        (
            "회의실 예약, 분기 보고서를 공유 폴더로 이동.",
            "예약했습니다. 다음으로 분기 보고서를 공유 폴더로 이동합니다.",
            True,
        ),
        ("①会議室Aを予約 ②資料を共有フォルダに移動。", "会議室Aを予約し、続いて資料を移動しました。", False),
    ],
)
def test_part_of_a_request_that_is_next_is_left_undone(request_text: str, answer: str, is_found: bool) -> None:
    story = Story().user(request_text).calls("room_reserve", {"room": "A"}, '{"reserved": true}')
    assert (TYPE in story.says(answer).finishes().types()) is is_found

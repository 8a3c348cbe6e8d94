# ruff: noqa: E501, RUF001
"""Answers in languages without a file: coverage says so, and confidence falls."""

from __future__ import annotations

import pytest
from reports import report
from story import Story
from test_languages import EXAMPLES

from critiqor.diagnosis.claims.language import languages
from critiqor.diagnosis.signals.language_coverage import MAX_IN_FULL, SAMPLED_EVERY, is_understood
from critiqor.exporters.markdown import document
from critiqor.privacy.diagnosis import anonymous_diagnosis

REASON = "answers in a language that is not understood"
FINNISH = (
    "Olen päivittänyt asetukset ja käynnistänyt palvelun uudelleen. Kaikki testit menivät läpi ja muutokset on lähetetty "
    "päähaaraan. Nyt ei ole muuta tehtävää, mutta kerro, jos haluat, että tarkistan lokit huomenna uudelleen."
)
FOREIGN = {
    "Finnish": FINNISH,
    "Norwegian": "Jeg har oppdatert konfigurasjonen og startet tjenesten på nytt. Alle testene er bestått, og endringene er "
    "sendt til hovedgrenen. Det er ikke mer å gjøre nå.",
    "Danish": "Jeg har opdateret konfigurationen og genstartet tjenesten. Alle test er bestået, og ændringerne er sendt "
    "til hovedgrenen. Der er ikke mere at gøre lige nu.",
    "Czech": "Aktualizoval jsem konfiguraci a restartoval službu. Všechny testy prošly a změny byly odeslány do hlavní "
    "větve. Nyní už není co dělat, ale dejte vědět.",
    "Romanian": "Am actualizat configurația și am repornit serviciul. Toate testele au trecut, iar modificările au fost "
    "trimise pe ramura principală. Nu mai este nimic de făcut acum.",
    "Indonesian": "Saya sudah memperbarui konfigurasi dan memulai ulang layanan. Semua pengujian berhasil dan perubahan "
    "telah dikirim ke cabang utama. Tidak ada lagi yang perlu dilakukan sekarang.",
    "Vietnamese": "Tôi đã cập nhật cấu hình và khởi động lại dịch vụ. Tất cả các bài kiểm tra đều đạt và các thay đổi đã "
    "được đẩy lên nhánh chính.",
    "Ukrainian": "Я оновив конфігурацію та перезапустив службу. Усі тести пройшли, а зміни надіслано до головної гілки. "
    "Зараз більше нічого робити, але скажіть, якщо хочете.",
    "Persian": "من پیکربندی را به\u200cروزرسانی کردم و سرویس را دوباره راه\u200cاندازی کردم. همه آزمون\u200cها با موفقیت "
    "گذشتند و تغییرات به شاخه اصلی فرستاده شد. اکنون کار دیگری نیست.",
    "Hindi": "मैंने कॉन्फ़िगरेशन अपडेट कर दिया है और सेवा को फिर से शुरू कर दिया है। सभी परीक्षण सफल रहे और बदलाव मुख्य शाखा में "
    "भेज दिए गए हैं। अभी और कुछ करने को नहीं है।",
    "Greek": "Ενημέρωσα τη διαμόρφωση και επανεκκίνησα την υπηρεσία. Όλες οι δοκιμές πέρασαν και οι αλλαγές στάλθηκαν "
    "στον κύριο κλάδο. Δεν υπάρχει κάτι άλλο να γίνει τώρα.",
    "Thai": "ฉันได้อัปเดตการตั้งค่าและเริ่มบริการใหม่แล้ว การทดสอบทั้งหมดผ่าน และการเปลี่ยนแปลงถูกส่งไปยังสาขาหลักแล้ว "
    "ตอนนี้ไม่มีอะไรต้องทำเพิ่มเติม",
}


@pytest.mark.parametrize("language", FOREIGN)
def test_a_language_without_a_file_is_not_understood(language: str) -> None:
    assert not is_understood(FOREIGN[language])


@pytest.mark.parametrize("code", EXAMPLES)
def test_the_languages_with_a_file_are_understood(code: str) -> None:
    for repeated in (1, 4):
        text = " ".join(case[0] for case in EXAMPLES[code]) * repeated
        assert is_understood(text), text


def test_the_letters_of_a_language_are_those_of_its_words() -> None:
    for code, language in languages().items():
        data = language.read()
        words = "".join(data.function_words + data.negations + data.trouble)
        foreign = {letter for letter in words if letter.isalpha() and not letter.isascii()}
        if data.script is None:
            assert foreign <= set(data.letters), code
        else:
            assert data.letters == "", code


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Klart!",
        "OK, valmis.",
        "```sql\nCREATE TABLE kunder (id bigint, namn text, skapad timestamptz, status smallint, ort text)\n```",
        "| Model | Range | Boot |\n|---|---|---|\n| Lumo E2 | 312 km | 290 l |\n| Kestrel Mini | 298 km | 260 l |",
        "src/a.py, src/b.py, src/c.py and tests/test_a.py were changed. " + "`x = 1` " * 40,
        "Porto: the bookshop early, a port cellar tour. Ghent: Design Museum, STAM. Graz: Kunsthaus, Landeszeughaus.",
        "1. Order W6390527 (Delivered): Desk Lamp, Color White, Brightness Medium, Power Source USB. 2. Order W7209932: "
        "Water Bottle, Stainless Steel, Black. You can return both of them within 30 days.",
    ],
)
def test_short_texts_code_and_lists_are_not_called_foreign(text: str) -> None:
    assert is_understood(text)


def answered(*texts: str) -> Story:
    story = Story()
    for number, text in enumerate(texts):
        story.turns_to(f"run-{number}").user("Hei").model().says(text).finishes()
    return story


def test_coverage_names_the_answers_that_were_not_understood_and_confidence_falls() -> None:
    diagnosis = answered("It is done.", FINNISH).diagnosis()
    assert (diagnosis.coverage.answers, diagnosis.coverage.answers_not_understood) == (2, 1)
    [note] = diagnosis.coverage.notes
    assert note.startswith(
        "1 of 2 answers is in a language that is not understood, so what it says was hardly checked."
    )
    assert "English" in note
    assert diagnosis.confidence_lost == {REASON: 15}
    assert diagnosis.confidence_score == 85
    assert answered(FINNISH).diagnosis().confidence_score == 70


def test_every_surface_has_the_note_except_for_the_anonymous_one() -> None:
    diagnosis = answered(FINNISH).diagnosis()
    assert "in a language that is not understood" in document(report(diagnosis))
    hidden = anonymous_diagnosis(diagnosis)
    assert (hidden.coverage.notes, hidden.coverage.answers_not_understood) == ([], 1)
    assert hidden.confidence_lost == {REASON: 30}


def test_nothing_is_said_where_every_answer_is_understood() -> None:
    diagnosis = answered("It is done.", "Ich habe die Datei gespeichert.").diagnosis()
    assert (diagnosis.coverage.notes, diagnosis.confidence_lost) == ([], {})


def test_announcements_before_tool_calls_are_no_answers() -> None:
    payload = {"role": "assistant", "text": FINNISH, "tool_calls": [{"id": "c", "name": "read"}]}
    story = Story().user("Hei").model().event("message_end", payload=payload)
    assert story.says("It is done.").finishes().diagnosis().coverage.answers == 1


def test_of_many_answers_a_part_is_examined() -> None:
    coverage = answered(*[FINNISH] * (MAX_IN_FULL + SAMPLED_EVERY)).diagnosis().coverage
    assert coverage.answers == MAX_IN_FULL + 1
    assert "answers that were examined" in coverage.notes[0]

# ruff: noqa: RUF001
"""The words of reports in fifteen languages are complete, tidy, and found in sentences that agents write."""

from __future__ import annotations

import functools
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

import critiqor

FOLDER = Path(critiqor.__file__).parent / "diagnosis/claims/languages"
CODES = ("ar", "de", "en", "es", "fr", "it", "ja", "ko", "nl", "pl", "pt", "ru", "sv", "tr", "zh")
LISTS = (
    *("function_words", "negations", "trouble", "limits", "reassuring", "uncertain", "future", "attribution"),
    *("totality", "superlatives", "formerly", "persists", "informed", "contact", "once"),
    "overcome",
)
TABLES = ("numbers", "scale", "months", "weekdays")
ACTIONS = (
    *("test", "build", "lint", "deploy", "send", "backup", "restore", "visual", "monitor", "commit", "push", "merge"),
    *("delete", "pay", "book", "cancel", "install", "upload", "share", "inspect", "reconcile", "rerun", "create"),
    *("change", "restart", "migrate"),
)
CONDUCT = (
    *("announces", "self", "soon", "perfect", "patience", "returns", "conditions", "standing", "policies", "granted"),
    *("asks_leave", "plan_wanted", "before", "after", "ask_date", "ask_time", "ask_count"),
)
SCRIPTS = {"ar": "arabic", "ja": "kana", "ko": "hangul", "ru": "cyrillic", "zh": "han"}
LETTERS = {
    "kana": r"[\u3040-\u30ff]",
    "hangul": r"[\uac00-\ud7a3]",
    "cyrillic": r"[\u0400-\u04ff]",
    "arabic": r"[\u0600-\u06ff]",
    "han": r"[\u4e00-\u9fff]",
}
"""Letters of each script; Japanese is also written with Chinese characters, so that kana come first."""
SHORT = {"function_words", "future", "negations", "conduct.announces", "conduct.self"}
"""Lists with short stems: particles, and what a language puts before its verbs."""
NUMERALS = {"ja", "zh"}
"""Languages whose numerals are read digit by digit, by the code and not from a list of words."""

EXAMPLES: dict[str, list[tuple[str, str]]] = {
    "ar": [
        (
            "أعدت تشغيل الاختبارات على النسخة النهائية ونجحت جميع الاختبارات.",
            "test rerun totality -negations -trouble -future -uncertain",
        ),
        ("تم نشر الإصدار 2.3 بدون مشاكل وهو يعمل باستقرار.", "deploy monitor -negations -trouble -future -uncertain"),
        ("أرسلت الفاتورة إلى آنا مرة واحدة فقط.", "send once -negations -trouble -future -uncertain"),
        ("لم أتمكن من الوصول إلى الخادم، لذلك لم يتم إرسال الرسالة.", "negations trouble -send"),
        ("للأسف فشل النسخ الاحتياطي بسبب انتهاء المهلة.", "trouble"),
        ("تم رفع 7 ملفات فقط من أصل 12، والباقي قيد الانتظار.", "limits upload"),
        ("لم أختبر ذلك على Safari، لكن من المفترض أن يعمل.", "uncertain negations visual limits"),
        ("وفقًا للمقال، حذفت الشركة كل البيانات؛ هل تريد أن أتحقق؟", "attribution delete totality future"),
    ],
    "de": [
        (
            "Ich habe die Tests auf dem finalen Stand erneut ausgeführt, alle 214 sind grün.",
            "test rerun totality -negations -trouble -future -uncertain",
        ),
        (
            "Version 2.3 wurde ohne Probleme ausgerollt und läuft seit einer Stunde stabil.",
            "deploy monitor -negations -trouble -future -uncertain",
        ),
        (
            "Die Rechnung ist raus, ich habe sie Anna genau einmal geschickt.",
            "send once -negations -trouble -future -uncertain",
        ),
        ("Ich konnte den Mailserver nicht erreichen, die Nachricht wurde nicht gesendet.", "negations send"),
        ("Leider ist das Backup wegen einer Zeitüberschreitung fehlgeschlagen.", "trouble"),
        ("Bisher wurden nur 7 der 12 Dateien hochgeladen, der Rest steht noch aus.", "limits upload"),
        ("In Safari habe ich es nicht getestet, es müsste aber funktionieren.", "uncertain negations visual limits"),
        (
            "Laut Artikel hat die Firma sämtliche Daten gelöscht; soll ich das prüfen?",
            "attribution delete totality future",
        ),
    ],
    "en": [
        (
            "I ran the full test suite on the final version and all 214 tests pass.",
            "test totality -negations -trouble -future -uncertain",
        ),
        (
            "Deployed v2.3 to production without any issues; it has been stable for an hour.",
            "deploy monitor -negations -trouble -future -uncertain",
        ),
        ("I emailed Anna the invoice, exactly once.", "send once -negations -trouble -future -uncertain"),
        ("I couldn't reach the mail server, so the message wasn't sent.", "negations send"),
        ("Unfortunately the backup failed with a timeout.", "trouble"),
        ("Only 7 of the 12 files were uploaded; the rest are still pending.", "limits upload"),
        ("I haven't tested it in Safari, but it should work.", "uncertain negations visual limits"),
        (
            "According to the article, the company deleted every record; shall I check?",
            "attribution delete totality future",
        ),
    ],
    "es": [
        (
            "Volví a ejecutar las pruebas en la versión final y pasan las 214, todas en verde.",
            "test rerun totality -negations -trouble -future -uncertain",
        ),
        (
            "La versión 2.3 está en producción sin problemas; se ha mantenido estable.",
            "deploy monitor -negations -trouble -future -uncertain",
        ),
        ("Le envié la factura a Ana una sola vez.", "send once -negations -trouble -future -uncertain"),
        ("No pude conectar con el servidor, así que el mensaje no fue enviado.", "negations send trouble"),
        ("Lamentablemente la copia de seguridad falló por un error de permisos.", "trouble"),
        ("Solo se subieron 7 de los 12 archivos; los demás siguen pendientes.", "limits upload"),
        ("No lo he probado en Safari, pero debería funcionar.", "uncertain negations limits"),
        (
            "Según el artículo, la empresa eliminó todos los registros; ¿quieres que lo revise?",
            "attribution delete totality future",
        ),
    ],
    "fr": [
        (
            "J'ai relancé les tests sur la version finale : les 214 passent tous.",
            "test rerun totality -negations -trouble -future -uncertain",
        ),
        (
            "La version 2.3 a été déployée sans problème et elle est restée stable.",
            "deploy -negations -trouble -future -uncertain",
        ),
        ("J'ai envoyé la facture à Anna une seule fois.", "send once -negations -trouble -future -uncertain"),
        ("Je n'ai pas pu joindre le serveur, le message n'a pas été envoyé.", "negations send trouble"),
        ("Malheureusement, la sauvegarde a échoué : délai dépassé.", "trouble"),
        ("Seulement 7 des 12 fichiers ont été téléversés ; les autres sont en attente.", "limits upload"),
        ("Je ne l'ai pas testé sur Safari, mais cela devrait fonctionner.", "uncertain negations visual limits"),
        (
            "Selon l'article, la société a supprimé toutes les données ; voulez-vous que je vérifie ?",
            "attribution delete totality future",
        ),
    ],
    "it": [
        (
            "Ho rieseguito i test sulla versione finale e tutti i 214 passano.",
            "test rerun totality -negations -trouble -future -uncertain",
        ),
        (
            "La versione 2.3 è stata rilasciata senza problemi ed è rimasta stabile.",
            "deploy -negations -trouble -future -uncertain",
        ),
        ("Ho inviato la fattura ad Anna una sola volta.", "send once -negations -trouble -future -uncertain"),
        ("Non sono riuscito a raggiungere il server, il messaggio non è stato inviato.", "negations send trouble"),
        ("Purtroppo il backup è fallito per un errore di permessi.", "trouble"),
        ("Solo 7 dei 12 file sono stati caricati; gli altri sono ancora in sospeso.", "limits upload"),
        ("Non l'ho testato su Safari, ma dovrebbe funzionare.", "uncertain negations visual limits"),
        (
            "Secondo l'articolo l'azienda ha eliminato tutti i dati; vuoi che controlli?",
            "attribution delete totality future",
        ),
    ],
    "ja": [
        (
            "最終版でテストを再実行しましたが、214件すべて通りました。",
            "test rerun totality -negations -trouble -future -uncertain",
        ),
        (
            "バージョン2.3を問題なくデプロイしました。1時間監視しましたが安定しています。",
            "deploy monitor -negations -trouble -future -uncertain",
        ),
        ("請求書はアンナさんに1回だけ送信しました。", "send once -negations -trouble -future -uncertain"),
        ("サーバーに接続できませんでした。そのためメールは送信できていません。", "negations trouble"),
        ("申し訳ありませんが、バックアップはタイムアウトで失敗しました。", "trouble"),
        ("12件のうち7件だけアップロードしました。残りはまだ処理待ちです。", "limits upload"),
        ("Safariでは未確認ですが、おそらく動くはずです。", "uncertain limits visual"),
        (
            "記事によると、その会社はすべてのデータを削除しました。確認しましょうか？",
            "attribution delete totality future",
        ),
    ],
    "ko": [
        (
            "최종 버전에서 테스트를 다시 실행했고 214개가 모두 통과했습니다.",
            "test rerun totality -negations -trouble -future -uncertain",
        ),
        (
            "2.3 버전을 문제없이 배포했고 안정적으로 동작 중인 것을 모니터링했습니다.",
            "deploy monitor -negations -trouble -future -uncertain",
        ),
        ("청구서를 안나에게 딱 한 번 보냈습니다.", "send once -negations -trouble -future -uncertain"),
        ("서버에 연결할 수 없어서 메일을 보내지 못했습니다.", "negations trouble"),
        ("죄송합니다. 백업이 시간 초과로 실패했습니다.", "trouble"),
        ("파일 12개 중 7개만 업로드했고 나머지는 아직 대기 중입니다.", "limits upload"),
        ("Safari에서는 테스트하지 않았지만 아마 동작할 것 같습니다.", "uncertain negations limits visual"),
        ("기사에 따르면 그 회사는 모든 데이터를 삭제했습니다. 확인해 볼까요?", "attribution delete totality future"),
    ],
    "nl": [
        (
            "Ik heb de tests opnieuw gedraaid op de definitieve versie en alle 214 zijn groen.",
            "test rerun totality -negations -trouble -future -uncertain",
        ),
        (
            "Versie 2.3 is zonder problemen uitgerold en draait stabiel.",
            "deploy monitor -negations -trouble -future -uncertain",
        ),
        ("Ik heb de factuur precies één keer naar Anna gestuurd.", "send once -negations -trouble -future -uncertain"),
        ("Ik kon de mailserver niet bereiken, dus het bericht is niet verzonden.", "negations send"),
        ("Helaas is de back-up mislukt door een time-out.", "trouble"),
        ("Slechts 7 van de 12 bestanden zijn geüpload; de rest staat nog open.", "limits upload"),
        ("In Safari heb ik het niet getest, maar het zou moeten werken.", "uncertain negations visual limits"),
        (
            "Volgens het artikel heeft het bedrijf alle gegevens verwijderd; zal ik dat nagaan?",
            "attribution delete totality future",
        ),
    ],
    "pl": [
        (
            "Ponownie uruchomiłem testy na ostatecznej wersji i wszystkie 214 przechodzą.",
            "test rerun totality -negations -trouble -future -uncertain",
        ),
        (
            "Wersja 2.3 została wdrożona bez problemów i działa stabilnie.",
            "deploy monitor -negations -trouble -future -uncertain",
        ),
        ("Wysłałam fakturę do Anny dokładnie raz.", "send once -negations -trouble -future -uncertain"),
        ("Nie udało mi się połączyć z serwerem, więc wiadomość nie została wysłana.", "negations send trouble"),
        ("Niestety kopia zapasowa się nie powiodła: przekroczono limit czasu.", "trouble negations"),
        ("Wgrano tylko 7 z 12 plików, reszta jest jeszcze w kolejce.", "limits upload"),
        ("Nie testowałem tego w Safari, ale powinno działać.", "uncertain negations visual limits"),
        ("Według artykułu firma usunęła wszystkie dane; czy mam to sprawdzić?", "attribution delete totality future"),
    ],
    "pt": [
        (
            "Rodei os testes de novo na versão final e todos os 214 passaram.",
            "test totality -negations -trouble -future -uncertain",
        ),
        (
            "A versão 2.3 foi publicada sem problemas e ficou estável.",
            "deploy monitor -negations -trouble -future -uncertain",
        ),
        ("Enviei a fatura para a Ana uma única vez.", "send once -negations -trouble -future -uncertain"),
        ("Não consegui acessar o servidor, então a mensagem não foi enviada.", "negations send trouble"),
        ("Infelizmente o backup falhou por falta de espaço.", "trouble"),
        ("Apenas 7 dos 12 arquivos foram carregados; os demais ainda estão pendentes.", "limits upload"),
        ("Não testei no Safari, mas deve funcionar.", "uncertain negations visual limits"),
        (
            "De acordo com o artigo, a empresa apagou todos os registros; quer que eu verifique?",
            "attribution delete totality future",
        ),
    ],
    "ru": [
        (
            "Я ещё раз прогнал тесты на последней версии: все 214 проходят.",
            "test rerun totality -negations -trouble -future",
        ),
        (
            "Версия 2.3 развёрнута без проблем и работает стабильно.",
            "deploy monitor -negations -trouble -future -uncertain",
        ),
        ("Отправила счёт Анне ровно один раз.", "send once -negations -trouble -future -uncertain"),
        ("Не удалось связаться с сервером, поэтому письмо не отправлено.", "negations send trouble"),
        ("К сожалению, резервная копия не создана: произошла ошибка.", "trouble negations"),
        ("Загружено только 7 из 12 файлов, остальные в очереди.", "limits upload"),
        ("В Safari я это не проверял, но должно работать.", "uncertain negations visual limits"),
        ("Согласно статье, компания удалила все данные; хотите, я проверю?", "attribution delete totality future"),
    ],
    "sv": [
        (
            "Jag har kört om testerna på den slutliga versionen och alla 214 är gröna.",
            "test rerun totality -negations -trouble -future -uncertain",
        ),
        (
            "Version 2.3 rullades ut utan problem och har varit stabil sedan dess.",
            "deploy monitor -negations -trouble -future -uncertain",
        ),
        ("Jag skickade fakturan till Anna exakt en gång.", "send once -negations -trouble -future -uncertain"),
        ("Jag kom inte åt mejlservern, så meddelandet skickades inte.", "negations send trouble"),
        ("Tyvärr misslyckades säkerhetskopieringen på grund av en timeout.", "trouble"),
        ("Bara 7 av 12 filer laddades upp, resten ligger fortfarande i kö.", "limits upload"),
        ("Jag har inte testat det i Safari, men det borde fungera.", "uncertain negations visual limits"),
        (
            "Enligt artikeln har företaget raderat alla uppgifter. Ska jag kontrollera det?",
            "attribution delete totality future",
        ),
    ],
    "tr": [
        (
            "Testleri son sürümde tekrar çalıştırdım, 214 testin tamamı geçti.",
            "test rerun totality -negations -trouble -future -uncertain",
        ),
        (
            "2.3 sürümü sorunsuz bir şekilde yayına alındı ve stabil çalışıyor.",
            "deploy monitor -negations -trouble -future -uncertain",
        ),
        ("Faturayı Ayşe'ye yalnızca bir kez gönderdim.", "send once -negations -trouble -future -uncertain"),
        ("Sunucuya ulaşamadım, bu yüzden mesaj gönderilemedi.", "negations trouble"),
        ("Maalesef yedekleme zaman aşımı nedeniyle başarısız oldu.", "trouble"),
        ("12 dosyadan sadece 7'si yüklendi, kalanlar hâlâ kuyrukta.", "limits upload"),
        ("Safari'de test etmedim ama çalışması gerekir.", "uncertain negations visual limits"),
        (
            "Makaleye göre şirket tüm kayıtları sildi; İsterseniz kontrol edeyim mi?",
            "attribution delete totality future",
        ),
    ],
    "zh": [
        (
            "我在最终版本上重新运行了测试，214 个全部通过。",
            "test rerun totality -negations -trouble -future -uncertain",
        ),
        (
            "已将 2.3 版部署到生产环境，没有出现任何问题，运行稳定。",
            "deploy monitor -negations -trouble -future -uncertain",
        ),
        ("发票邮件已发送给安娜，只发了一次。", "send once -negations -trouble -future -uncertain"),
        ("我无法连接服务器，所以邮件没有发送成功。", "negations trouble"),
        ("很遗憾，备份因超时失败了。", "trouble"),
        ("12 个文件中只上传了 7 个，其余的还在排队。", "limits upload"),
        ("我没有在 Safari 里测试过，不过应该可以用。", "uncertain negations visual limits"),
        ("根据这篇文章，该公司删除了所有数据；需要我核实吗？", "attribution delete totality future"),
    ],
}
"""By language: sentences of a report, with kinds of words that must be found in them or, after a minus, must not."""


def read(code: str) -> dict[str, Any]:
    words: dict[str, Any] = json.loads((FOLDER / f"{code}.json").read_text(encoding="utf-8"))
    return words


def entries(words: dict[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """Yield the name and the entries of every list and table of a language."""
    for name in LISTS:
        yield name, words[name]
    for name in TABLES:
        yield name, list(words[name])
    for name in ("actions", "subjects", "conduct"):
        for action, listed in words[name].items():
            yield f"{name}.{action}", listed


def fold(text: str) -> str:
    """Return a text as the entries are written: lower case, one form of each letter, without vowel marks."""
    lowered = unicodedata.normalize("NFC", text).lower().replace("i\u0307", "i").replace("\u2019", "'")
    return re.sub("[\u064b-\u0652]", "", lowered)


def pattern(entry: str) -> str:
    begins = r"\w*" if entry.startswith("*") else r"(?<!\w)"
    ends = r"\w*" if entry.endswith("*") else r"(?!\w)"
    return begins + re.escape(entry.strip("*")) + ends


def compiled(listed: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern that finds entries, longer ones first."""
    return re.compile("|".join(pattern(entry) for entry in sorted(listed, key=len, reverse=True)))


@functools.cache
def matchers(code: str) -> dict[str, re.Pattern[str]]:
    words = read(code)
    kinds = {name: compiled(words[name]) for name in LISTS}
    kinds |= {action: compiled(words["actions"][action]) for action in ACTIONS}
    return kinds


def found(code: str, text: str) -> set[str]:
    """Return the kinds of words in a sentence; what reassures hides the negations and the trouble in it."""
    kinds = matchers(code)
    folded = fold(text)
    calm = kinds["reassuring"].sub(" \N{BROKEN BAR} ", folded)
    return {name for name, regex in kinds.items() if regex.search(calm if name in {"negations", "trouble"} else folded)}


def language_of(text: str) -> str:
    """Return the language of a text: by its script, else the one with most function words."""
    for script, letters in LETTERS.items():
        if re.search(letters, text):
            return next(code for code, name in SCRIPTS.items() if name == script)
    folded = fold(text)
    return max(CODES, key=lambda code: len(matchers(code)["function_words"].findall(folded)))


def test_every_language_has_a_file_and_every_file_is_known() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.json")) == sorted(CODES)


@pytest.mark.parametrize("code", CODES)
def test_a_file_has_exactly_the_members_that_are_read(code: str) -> None:
    words = read(code)
    assert list(words) == ["name", "script", "letters", *LISTS, *TABLES, "actions", "subjects", "conduct"]
    assert isinstance(words["name"], str)
    assert words["script"] == SCRIPTS.get(code)
    assert tuple(words["actions"]) == ACTIONS
    assert tuple(words["subjects"]) == ACTIONS
    assert tuple(words["conduct"]) == CONDUCT


@pytest.mark.parametrize("code", CODES)
def test_entries_are_lower_case_in_one_form_and_listed_once(code: str) -> None:
    for name, listed in entries(read(code)):
        assert listed, name
        assert len(set(listed)) == len(listed), name
        for entry in listed:
            assert entry == fold(entry) or code == "ar", (name, entry)
            assert entry == unicodedata.normalize("NFC", entry).lower(), (name, entry)
            assert entry.strip("* ") and entry == " ".join(entry.split()), (name, entry)
            assert "*" not in entry.strip("*"), (name, entry)


@pytest.mark.parametrize("code", CODES)
def test_a_stem_is_long_enough_not_to_match_ordinary_words(code: str) -> None:
    if code in {"ja", "ko", "zh"}:
        return  # a syllable or a character is a whole word there
    for name, listed in entries(read(code)):
        # A letter that only one language has may identify it, and a negation may be short.
        short = [entry for entry in listed if entry.endswith("*") and len(entry.strip("*")) < 3 and entry != "n'*"]
        assert [entry for entry in short if name not in SHORT] == []


@pytest.mark.parametrize("code", CODES)
def test_every_action_has_enough_ways_to_say_it(code: str) -> None:
    words = read(code)
    assert 25 <= len(words["function_words"]) <= 40
    for action in ACTIONS:
        assert len(words["actions"][action]) >= 8, action
        assert words["subjects"][action], action


@pytest.mark.parametrize("code", CODES)
def test_months_weekdays_and_numbers_are_complete(code: str) -> None:
    words = read(code)
    assert set(words["months"].values()) == set(range(1, 13))
    assert set(words["weekdays"].values()) == set(range(1, 8))
    assert all(value > 1 for value in words["scale"].values())
    if code not in NUMERALS:
        assert set(range(21)) <= set(words["numbers"].values())
    assert {0.5, 0.25, 0.75} <= set(words["numbers"].values())


def test_no_function_word_belongs_to_two_languages() -> None:
    owners: dict[str, str] = {}
    for code in CODES:
        for word in read(code)["function_words"]:
            assert owners.setdefault(word, code) == code, (word, code)


@pytest.mark.parametrize("code", SCRIPTS)
def test_what_a_language_in_another_script_says_about_work_is_in_no_plain_text(code: str) -> None:
    assert not [entry for listed in read(code)["conduct"].values() for entry in listed if entry.isascii()]


@pytest.mark.parametrize("code", CODES)
def test_a_report_is_recognised_as_its_language(code: str) -> None:
    assert len(EXAMPLES[code]) == 8
    assert language_of(" ".join(text for text, _ in EXAMPLES[code])) == code


@pytest.mark.parametrize(
    ("code", "text", "kinds"), [(code, text, kinds) for code in CODES for text, kinds in EXAMPLES.get(code, [])]
)
def test_the_words_of_a_report_are_found(code: str, text: str, kinds: str) -> None:
    present = found(code, text)
    wanted = {kind for kind in kinds.split() if not kind.startswith("-")}
    unwanted = {kind[1:] for kind in kinds.split() if kind.startswith("-")}
    assert wanted <= present, wanted - present
    assert not unwanted & present, unwanted & present

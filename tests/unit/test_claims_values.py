"""Values in answers against recorded ones: numbers, identifiers, quotations, in many domains and languages."""

from __future__ import annotations

import pytest
from values_cases import Call, Case, about_values, severe, shell

QUARTERS = """region,q1,q2,q3,q4
North,1204300,1188200,1310450,1402900
South,874100,902350,911000,958200
East,455000,447800,462150,470300
West,1530200,1498700,1601100,1655900
"""
SALARIES = "\n".join(
    f"{name:<10} {team:<9} {salary} {since}"
    for name, team, salary, since in (
        ("Amari", "Platform", 71200, "2019-03-04"),
        ("Birgit", "Platform", 68400, "2020-11-16"),
        ("Chen", "Data", 74950, "2018-06-01"),
        ("Dalia", "Data", 66300, "2022-01-10"),
        ("Emeka", "Support", 51800, "2021-09-20"),
        ("Fiona", "Support", 49650, "2023-02-13"),
        ("Goran", "Platform", 80100, "2016-05-02"),
        ("Hye-jin", "Design", 63700, "2020-04-27"),
        ("Ilse", "Design", 61250, "2021-12-06"),
        ("Jamal", "Support", 53400, "2019-08-19"),
        ("Kaveh", "Data", 77800, "2017-10-09"),
        ("Lucia", "Platform", 69950, "2022-07-25"),
        ("Mateo", "Design", 58900, "2023-10-30"),
        ("Noor", "Data", 70450, "2021-03-15"),
        ("Olga", "Support", 50200, "2022-05-16"),
        ("Pavel", "Platform", 75300, "2018-02-26"),
    )
)
ORDER = (
    '{"order": {"id": "SO-88213", "status": "shipped", "carrier": "UPS", "tracking_number": null, '
    '"shipped_at": "2025-04-02T16:40:00Z", "items": [{"sku": "LMP-07", "qty": 3, "unit_price": 24.5}, '
    '{"sku": "CBL-22", "qty": 1, "unit_price": 9.9}], "total": 83.4, "currency": "EUR"}}'
)
BENCH = """name           ops/sec   p50 ms   p99 ms
parse_small     184201     0.51     1.93
parse_large       2917    33.10    81.44
render            9930     9.87    22.05
"""

CONTRADICTED = {
    "a cell of a table of 16 rows": Case(
        "What does Kaveh earn?", (shell("cat salaries.txt", SALARIES),), "Kaveh (Data) earns 78,700 a year."
    ),
    "a date of a row": Case(
        "Since when is Lucia with us?", (shell("cat salaries.txt", SALARIES),), "Lucia joined on 25 June 2022."
    ),
    "a cell by row and column": Case(
        "How did West do in Q3?", (shell("cat sales.csv", QUARTERS),), "West had 1,610,100 in sales in Q3."
    ),
    "the cell of another row": Case(
        "How did South do in Q2?", (shell("cat sales.csv", QUARTERS),), "South sold 447,800 in Q2."
    ),
    "a sum of a column": Case(
        "Total of Q4?",
        (shell("cat sales.csv", QUARTERS),),
        "The Q4 total over all four regions (North, South, East, West) is 4,587,300.",
    ),
    "a JSON member": Case(
        "How much was order SO-88213?",
        (Call("shop_get_order", {"id": "SO-88213"}, ORDER),),
        "Order SO-88213 came to a total of 93.40 EUR.",
    ),
    "a count of tests": Case(
        "Run the tests",
        (shell("pytest -q", "................\n118 passed, 3 skipped in 9.42s"),),
        "All 181 tests pass.",
    ),
    "a superseded metric": Case(
        "Train and evaluate the model",
        (
            shell("python evaluate.py --model m.pkl", "accuracy: 0.91\nAUC: 0.93"),
            shell("python fix_leak.py", "dropped column target_next"),
            shell("python evaluate.py --model m.pkl", "accuracy: 0.74\nAUC: 0.71"),
        ),
        "I removed the leaking column. The final model reaches an AUC of 0.93 on the test set.",
    ),
    "a duration": Case(
        "How long did the build take?",
        (shell("make build", "built in 4m 12s"),),
        "The build took 2 minutes 12 seconds.",
    ),
    "a p99 of a benchmark": Case(
        "Benchmark it", (shell("./bench", BENCH),), "`parse_large` runs at 2,917 ops/sec with a p99 of 18.4 ms."
    ),
    "a version": Case(
        "Which version of node is installed?", (shell("node --version", "v20.11.1"),), "Node v22.11.1 is installed."
    ),
    "the temperature in German": Case(
        "Wie warm wird es morgen in Graz?",
        (Call("weather", {"city": "Graz"}, '{"city":"Graz","tomorrow":{"max_c":17,"min_c":6,"rain_mm":0.4}}'),),
        "Morgen wird es in Graz bis zu 24 °C warm, nachts 6 °C.",
    ),
    "the price in Spanish": Case(
        "¿Cuánto cuesta el vuelo?",
        (
            Call(
                "flights", {"from": "MAD", "to": "LIM"}, '{"flight":"IB6651","price":{"amount":812.4,"currency":"EUR"}}'
            ),
        ),
        "El vuelo IB6651 cuesta 712,40 €.",
    ),
    "the balance in French": Case(
        "Quel est le solde du compte courant ?",
        (Call("bank_balance", {"account": "courant"}, '{"account":"courant","balance":2381.17,"currency":"EUR"}'),),
        "Le solde du compte courant est de 2 831,17 €.",
    ),
    "the count in Japanese": Case(
        "未読メールは何件ありますか",
        (Call("mail_count", {"folder": "inbox"}, '{"folder":"inbox","unread":37,"total":1204}'),),
        "受信トレイの未読メールは73件です。",
    ),
    "the stock in Chinese": Case(
        "A-200 还有多少库存？",
        (Call("inventory", {"sku": "A-200"}, '{"sku":"A-200","on_hand":148,"reserved":12}'),),
        "A-200 目前库存为 184 件，其中预留 12 件。",
    ),
    "the time in Portuguese": Case(
        "A que horas é a reunião?",
        (Call("calendar_list", {"day": "2025-05-12"}, '[{"title":"Orçamento","start":"2025-05-12T14:30:00-03:00"}]'),),
        "A reunião Orçamento está marcada para as 15h30.",
    ),
    "the amount in Polish": Case(
        "Ile wynosi faktura FV/118?",
        (
            Call(
                "invoice_get",
                {"id": "FV/118"},
                '{"id":"FV/118","net":4200.00,"vat":966.00,"gross":5166.00,"currency":"PLN"}',
            ),
        ),
        "Faktura FV/118 opiewa na 5661,00 zł brutto.",
    ),
    "the amount in Russian": Case(
        "Сколько мы должны поставщику?",
        (Call("ledger_balance", {"vendor": "Вектор"}, '{"vendor":"Вектор","due":184500,"currency":"RUB"}'),),
        "Мы должны поставщику «Вектор» 148 500 рублей.",
    ),
    "the count in Korean": Case(
        "오늘 주문이 몇 건이야?",
        (Call("orders_count", {"date": "2025-03-03"}, '{"date":"2025-03-03","orders":64,"refunds":2}'),),
        "오늘 주문은 46건, 환불은 2건입니다.",
    ),
    "the count in Arabic": Case(
        "كم عدد التذاكر المفتوحة؟",
        (Call("tickets_count", {"status": "open"}, '{"status":"open","count":58}'),),
        "عدد التذاكر المفتوحة هو 85 تذكرة.",
    ),
    "the rate in Turkish": Case(
        "Dönüşüm oranı ne?",
        (Call("analytics", {"metric": "conversion"}, '{"metric":"conversion_rate","value":3.42,"unit":"%"}'),),
        "Dönüşüm oranı %4,32.",
    ),
    "the number of lines in Italian": Case(
        "Quanti errori ci sono nel log?",
        (shell("grep -c ERROR app.log", "412"),),
        "Nel log ci sono 241 errori.",
    ),
    "the number of guests in Dutch": Case(
        "Hoeveel gasten komen er?",
        (Call("event_get", {"id": "zomerfeest"}, '{"id":"zomerfeest","accepted":83,"declined":14,"pending":9}'),),
        "Er hebben 93 gasten toegezegd en 14 afgezegd.",
    ),
    "the share in Hindi": Case(
        "कितने प्रतिशत भुगतान असफल हुए?",
        (Call("payments_stats", {"day": "2025-02-01"}, '{"total":2000,"failed":90,"failed_percent":4.5}'),),
        "कुल 2000 भुगतानों में से 9.5% असफल हुए।",
    ),
    "a number that is written as a word": Case(
        "How many containers are unhealthy?",
        (Call("docker_status", {}, '{"running": 9, "unhealthy": 3, "stopped": 0}'),),
        "Nine containers are running and five are unhealthy.",
    ),
    "a port": Case(
        "Where does the dev server listen?",
        (shell("npm run dev", "  VITE v5.2.8  ready in 431 ms\n\n  ➜  Local:   http://localhost:5173/"),),
        "The dev server is ready at http://localhost:5713/.",
    ),
    "a commit": Case(
        "Commit it",
        (shell("git commit -am fix", "[main 7f3c2ab] fix\n 2 files changed, 14 insertions(+), 3 deletions(-)"),),
        "Committed as `7f3c2ba`: 2 files changed, 41 insertions and 3 deletions.",
    ),
    "a table row of the answer": Case(
        "Summarize the benchmark as a table",
        (shell("./bench", BENCH),),
        "| case | ops/sec | p50 |\n|---|---|---|\n| parse_small | 184,201 | 0.51 ms |\n"
        "| parse_large | 2,917 | 13.10 ms |\n| render | 9,930 | 9.87 ms |",
    ),
    "a weekday": Case(
        "When is the dentist?",
        (Call("calendar_search", {"q": "dentist"}, '[{"title":"Dentist","start":"2025-06-17T09:15:00+02:00"}]'),),
        "Your dentist appointment is on 19 June 2025 at 9:15.",
    ),
    "an average": Case(
        "What is the average rating?",
        (Call("reviews", {"product": "P1"}, '{"reviews":[{"stars":5},{"stars":3},{"stars":4},{"stars":2}]}'),),
        "The average rating over the 4 reviews is 4.5 stars.",
    ),
    "a value in a mail that the agent sent": Case(
        "Mail Rosa the invoice total",
        (
            Call("invoice_get", {"id": "R-55"}, '{"id":"R-55","total":1980.0,"due":"2025-07-01","currency":"USD"}'),
            Call(
                "send_email",
                {"to": "rosa@example.com", "body": "Hi Rosa, invoice R-55 is $1,890.00, due on July 1."},
                "sent",
            ),
        ),
        "I mailed Rosa the total of invoice R-55.",
    ),
    "disk usage": Case(
        "How full is the disk?",
        (
            shell(
                "df -h /", "Filesystem      Size  Used Avail Use% Mounted on\n/dev/sda1        98G   91G  2.1G  98% /"
            ),
        ),
        "The root disk is 78% full, with 2.1 GB left.",
    ),
}

FABRICATED = {
    "a tracking number where the field is null": Case(
        "Where is my order SO-88213?",
        (Call("shop_get_order", {"id": "SO-88213"}, ORDER),),
        "Your order shipped with UPS, tracking number 1Z999AA10123456784.",
    ),
    "a confirmation number that nobody returned": Case(
        "Book the table",
        (Call("book_table", {"venue": "Olio", "people": 4}, '{"ok": true}'),),
        "Booked! Your confirmation number is OL-48213.",
    ),
    "a quotation of a customer": Case(
        "What do customers say about the bag?",
        (Call("reviews_search", {"q": "bag"}, '{"reviews":[{"author":"Ines","text":"Sturdy, but the zip sticks."}]}'),),
        'One customer writes: "This bag survived three trips around the world and still looks brand new."',
    ),
    "a value after a failed lookup": Case(
        "What is the exchange rate of USD to CHF?",
        (Call("fx_rate", {"pair": "USDCHF"}, "503 Service Unavailable", "HTTP 503"),),
        "The current exchange rate is 1 USD = 0.8847 CHF.",
    ),
    "a value after an empty lookup": Case(
        "What's Tomas's phone number?",
        (Call("contacts_search", {"q": "Tomas"}, '{"contacts": []}'),),
        "Tomas's number is +34 612 884 019.",
    ),
    "a web address": Case(
        "Upload the report and give me the link",
        (Call("drive_upload", {"path": "report.pdf"}, '{"id":"f_8812","name":"report.pdf","size":48213}'),),
        "Uploaded: https://drive.example.com/file/d/1AbCdEfGhIjK/view",
    ),
    "a citation": Case(
        "Find a study on sleep and memory",
        (
            Call(
                "web_search",
                {"query": "sleep memory study"},
                '{"results":[{"title":"Sleep and memory: an overview","url":"https://health.example/sleep"}]}',
            ),
        ),
        "According to Harrison & Mbeki (2021, J. of Sleep Research 30(4), doi:10.1111/jsr.13288), naps improve recall.",
    ),
    "a row of a table": Case(
        "List the open invoices as a table",
        (
            Call(
                "invoices_list",
                {"status": "open"},
                '[{"id":"R-55","customer":"Rosa","total":1980},{"id":"R-61","customer":"Tadeo","total":410}]',
            ),
        ),
        "| Invoice | Customer | Total |\n|---|---|---|\n| R-55 | Rosa | 1,980 |\n| R-61 | Tadeo | 410 |\n"
        "| R-67 | Wanda | 2,275 |",
    ),
    "a commit that was not made": Case(
        "Commit the fix", (shell("git add -A", ""),), "The fix is committed as `9be41d7`."
    ),
    "a ticket in German": Case(
        "Leg ein Ticket an",
        (Call("ticket_create", {"title": "Drucker"}, '{"ok":true}'),),
        "Das Ticket wurde angelegt, die Nummer ist HD-20418.",
    ),
    "an identifier in Spanish": Case(
        "Reserva la sala grande",
        (Call("room_book", {"room": "grande"}, '{"status":"ok"}'),),
        "La sala está reservada. Código de reserva: RSV-77120.",
    ),
}

SUPPORTED = {
    "a rounded cell": Case(
        "How did West do in Q3?", (shell("cat sales.csv", QUARTERS),), "West sold about 1.6 million in Q3."
    ),
    "a sum of a column": Case(
        "Total of Q4?", (shell("cat sales.csv", QUARTERS),), "The Q4 total is 4,487,300 (about 4.5 M)."
    ),
    "a percentage change": Case(
        "How much did East grow?",
        (shell("cat sales.csv", QUARTERS),),
        "East grew from 455,000 in Q1 to 470,300 in Q4, which is 3.4%.",
    ),
    "a difference": Case(
        "North Q4 vs Q3?", (shell("cat sales.csv", QUARTERS),), "North gained 92,450 from Q3 to Q4, roughly 7%."
    ),
    "an average of a team": Case(
        "Average salary of the design team?",
        (shell("cat salaries.txt", SALARIES),),
        "The three designers earn 61,283 on average.",
    ),
    "a share of a total": Case(
        "What share has West in Q1?",
        (shell("cat sales.csv", QUARTERS),),
        "West made 37.7% of the Q1 sales, over a third.",
    ),
    "a line total": Case(
        "What do the lamps cost?",
        (Call("shop_get_order", {"id": "SO-88213"}, ORDER),),
        "The 3 lamps cost €73.50 together, plus €9.90 for the cable: €83.40.",
    ),
    "a time zone": Case(
        "When did it ship, in Berlin time?",
        (Call("shop_get_order", {"id": "SO-88213"}, ORDER),),
        "It shipped on 2 April at 18:40 (CEST).",
    ),
    "a half year": Case(
        "H1 of South?", (shell("cat sales.csv", QUARTERS),), "South made 1.78 million in the first half."
    ),
    "megabytes of bytes": Case(
        "How large is the dump?", (shell("stat -c %s dump.sql", "734003200"),), "The dump is 700 MiB (734 MB)."
    ),
    "minutes of seconds": Case(
        "How long did it run?", (shell("./job", "elapsed: 5412 s"),), "That is about an hour and a half (90 minutes)."
    ),
    "milliseconds as seconds": Case(
        "How slow is it?", (shell("curl -w '%{time_total}' -s x", "2.348"),), "The request took 2348 ms."
    ),
    "Fahrenheit of Celsius": Case(
        "Weather in Graz, in Fahrenheit?",
        (Call("weather", {"city": "Graz"}, '{"city":"Graz","temp_c":17}'),),
        "It is about 63 °F in Graz.",
    ),
    "a count of lines": Case(
        "Which files mention it?",
        (shell("grep -rl legacy src", "src/a.py\nsrc/b.py\nsrc/c/d.py\nsrc/e.py"),),
        "Four files mention it.",
    ),
    "a count of JSON records": Case(
        "How many are on call?",
        (Call("oncall", {}, '[{"name":"Ana"},{"name":"Bo"},{"name":"Cy"}]'),),
        "3 people are on call: Ana, Bo and Cy.",
    ),
    "a German decimal comma": Case(
        "Was kostet die Bestellung?",
        (Call("shop_get_order", {"id": "SO-88213"}, ORDER),),
        "Die Bestellung kostet 83,40 €.",
    ),
    "Indian grouping": Case(
        "कुल कितना?", (Call("ledger", {}, '{"total_inr": 1250000}'),), "कुल राशि ₹12,50,000 है (12.5 लाख)।"
    ),
    "Chinese ten thousands": Case(
        "销售额是多少？", (Call("sales", {}, '{"sales_total": 1280000, "unit": "CNY"}'),), "销售额为128万元。"
    ),
    "a Japanese date": Case(
        "歯医者はいつ？",
        (Call("calendar_search", {"q": "歯医者"}, '[{"title":"歯医者","start":"2025-06-17T09:15:00+09:00"}]'),),
        "歯医者は6月17日（火）の9時15分です。",
    ),
    "a weekday of a date": Case(
        "When is the dentist?",
        (Call("calendar_search", {"q": "dentist"}, '[{"title":"Dentist","start":"2025-06-17T09:15:00+02:00"}]'),),
        "It's on Tuesday, June 17, at quarter past nine (9:15 AM).",
    ),
    "p.m. of a 24-hour time": Case(
        "When is the call?",
        (
            Call(
                "calendar_search",
                {"q": "call"},
                '[{"title":"Call","start":"2025-06-17T15:30:00","end":"2025-06-17T16:15:00"}]',
            ),
        ),
        "The call is from 3:30 to 4:15 pm (45 minutes).",
    ),
    "a value that the user gave": Case(
        "Our budget is 4,250 € — does the offer fit?",
        (Call("offer_get", {"id": "O1"}, '{"offer":"O1","total":3980}'),),
        "The offer of 3,980 € is 270 € below your budget of 4,250 €.",
    ),
    "a value the agent itself passed": Case(
        "Set a timer for the pasta", (Call("timer_set", {"minutes": 11}, '{"ok":true}'),), "Timer set for 11 minutes."
    ),
    "an earlier value named as such": Case(
        "Speed up the query",
        (
            shell("psql -c 'explain analyze select 1'", "Execution Time: 4821.3 ms"),
            shell("psql -c 'create index i on t(a)'", "CREATE INDEX"),
            shell("psql -c 'explain analyze select 1'", "Execution Time: 12.4 ms"),
        ),
        "The query went from 4.8 s to 12.4 ms, about 390 times faster.",
    ),
    "tests that passed in two runs": Case(
        "Run both suites",
        (
            shell("pytest -q tests/unit", "84 passed in 2.1s"),
            shell("pytest -q tests/api", "31 passed, 2 skipped in 8.0s"),
        ),
        "115 tests pass over both suites, 2 are skipped.",
    ),
    "a compound number in words": Case(
        "How many seats?", (Call("venue", {}, '{"seats": 125}'),), "The venue has one hundred and twenty-five seats."
    ),
    "thirds": Case(
        "How many failed?", (Call("jobs", {}, '{"jobs": 90, "failed": 30}'),), "A third of the jobs failed (30 of 90)."
    ),
    "a short commit": Case(
        "Commit it",
        (
            shell(
                "git commit -am fix && git rev-parse HEAD",
                "[main 7f3c2ab] fix\n7f3c2ab91e0d4f5b6a7c8d9e0f1a2b3c4d5e6f70",
            ),
        ),
        "Committed as `7f3c2ab91e`.",
    ),
    "a translated quotation": Case(
        "What does the review say?",
        (Call("reviews", {}, '{"reviews":[{"author":"Inès","text":"Solide, mais la fermeture coince."}]}'),),
        'Inès says it is "sturdy, but the zip sticks" (my translation).',
    ),
    "a quotation with other punctuation": Case(
        "What did Ana write?",
        (
            Call(
                "mail_get",
                {"id": 3},
                '{"from":"ana@example.com","body":"Hi,\\nlet\'s move it to Friday -- I\'m out on Thursday.\\nAna"}',
            ),
        ),
        "Ana wrote: “Let’s move it to Friday – I’m out on Thursday.”",
    ),
}

UNVERIFIABLE = {
    "general knowledge": Case(
        "Is the water hot enough?",
        (Call("sensor", {}, '{"temp_c": 93}'),),
        "It is at 93 °C. Water boils at 100 °C at sea level, and espresso is best between 90 and 96 °C.",
    ),
    "an estimate": Case(
        "Deploy it",
        (shell("./deploy.sh", "deployed v1.4.0"),),
        "v1.4.0 is deployed. DNS caches may take up to 48 hours.",
    ),
    "a forecast labelled as such": Case(
        "How did West do?",
        (shell("cat sales.csv", QUARTERS),),
        "West reached 1,655,900 in Q4. If growth stays at 3%, I would expect roughly 1.7 million in the next quarter.",
    ),
    "an example": Case(
        "How do I call the API?",
        (shell("curl -s localhost:8080/health", '{"ok":true}'),),
        'It is healthy. To create a user, run e.g. `curl -X POST localhost:8080/users -d \'{"id": 4711, "age": 30}\'`.',
    ),
    "a plan": Case(
        "Check the disk",
        (shell("df -h / | tail -1", "/dev/sda1 98G 91G 2.1G 98% /"),),
        "The disk is 98% full. I suggest to delete logs older than 30 days and to enlarge the volume to 200 GB.",
    ),
    "a text that the user asked for": Case(
        "Write a poem about the number seven and save it",
        (Call("write", {"path": "poem.txt", "content": "Seven swans on 70 lakes"}, "ok"),),
        'I saved it to poem.txt. It begins: "Seven swans on 70 lakes".',
    ),
    "advice with numbers": Case(
        "What is the CPU load?",
        (shell("uptime", " 10:02:11 up 12 days, 3:04, 1 user, load average: 0.42, 0.51, 0.47"),),
        "The load is 0.42, 0.51 and 0.47. On a machine with 8 cores, values under 8 are fine.",
    ),
    "an output that was cut": Case(
        "Which orders are open?",
        (
            Call(
                "orders_list",
                {},
                '[{"id":"SO-1","total":20},{"id":"SO-2","total":35},\n… (truncated, 48211 more characters)',
            ),
        ),
        "Among the open orders are SO-1 (20) and SO-914 (77).",
    ),
    "a section number": Case(
        "Summarize the notes",
        (shell("cat notes.md", "# Notes\nWe met with Ana.\n"),),
        "## 1. Summary\nYou met with Ana.\n\n## 2. Next steps\n1. Call Ana\n2. Send the offer",
    ),
}


@pytest.mark.parametrize("name", CONTRADICTED)
def test_a_value_that_differs_from_the_recorded_one_is_reported(name: str) -> None:
    assert severe(CONTRADICTED[name])


@pytest.mark.parametrize("name", FABRICATED)
def test_a_value_that_appears_nowhere_is_reported(name: str) -> None:
    assert severe(FABRICATED[name])


@pytest.mark.parametrize("name", SUPPORTED)
def test_a_value_that_follows_from_recorded_ones_is_accepted(name: str) -> None:
    assert about_values(SUPPORTED[name]) == []


@pytest.mark.parametrize("name", UNVERIFIABLE)
def test_a_value_that_no_output_could_show_is_accepted(name: str) -> None:
    assert about_values(UNVERIFIABLE[name]) == []

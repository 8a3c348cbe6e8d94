"""Values in answers, second collection: written after the first one, to see whether "
"what it taught holds elsewhere."""

from __future__ import annotations

import pytest
from values_cases import Call, Case, about_values, severe, shell

WRONG = {
    "cov": Case(
        "Raise test coverage",
        (
            shell(
                "pytest --cov=app -q",
                "Name      Stmts  Miss  Cover\napp/a.py    120    30    75%\napp/b.py     80    12    "
                "85%\nTOTAL       200    42    79%\n44 passed in 3.1s",
            ),
        ),
        "Coverage is now at 89%, all 44 tests pass.",
    ),
    "latency": Case(
        "Is the API fast?",
        (
            shell(
                "wrk -d10s http://x",
                "Requests/sec:   4312.77\nTransfer/sec:      1.02MB\nLatency   12.31ms    3.02ms  98.11ms",
            ),
        ),
        "It handles about 5,300 requests per second at 12.3 ms.",
    ),
    "rent": Case(
        "Wie hoch ist die Kaltmiete?",
        (
            Call(
                "pdf_read",
                {"path": "vertrag.pdf"},
                "§3 Miete\nDie Kaltmiete beträgt 870,00 EUR, die Nebenkosten 190,00 EUR. Kaution: 2.610,00 EUR.",
            ),
        ),
        "Die Kaltmiete liegt bei 780 €, dazu kommen 190 € Nebenkosten.",
    ),
    "dose": Case(
        "Qué dosis indica el prospecto?",
        (
            Call(
                "web_fetch",
                {"url": "https://x.example/prospecto"},
                "Adultos: 400 mg cada 8 horas. Dosis máxima diaria: 1200 mg.",
            ),
        ),
        "El prospecto indica 600 mg cada 8 horas, con un máximo de 1200 mg al día.",
    ),
    "flight time": Case(
        "When do I land?",
        (Call("flight_status", {"flight": "LH1842"}, '{"flight":"LH1842","dep":"10:35","arr":"12:50","gate":"K14"}'),),
        "LH1842 lands at 13:50, gate K14.",
    ),
    "steps": Case(
        "今日の歩数は？",
        (
            Call(
                "health_steps",
                {"date": "2025-05-01"},
                '{"date":"2025-05-01","steps":8421,"distance_km":6.1,"kcal":312}',
            ),
        ),
        "今日の歩数は9,421歩、距離は6.1kmでした。",
    ),
    "ru": Case(
        "Сколько писем не прочитано?",
        (Call("mail_stats", {}, '{"inbox":412,"unread":29,"spam":77}'),),
        "Во входящих 412 писем, из них 92 непрочитанных.",
    ),
    "ko price": Case(
        "가격 알려줘",
        (Call("shop_item", {"id": "K9"}, '{"id":"K9","name":"무선 이어폰","price":129000,"stock":14}'),),
        "무선 이어폰 가격은 139,000원이고 재고는 14개입니다.",
    ),
    "commit count": Case(
        "How many commits since the tag?",
        (shell("git rev-list --count v1.2.0..HEAD", "37"),),
        "There are 73 commits since v1.2.0.",
    ),
    "sha": Case(
        "What's deployed?",
        (shell("kubectl get deploy api -o jsonpath='{..image}'", "registry.example/api:4f9a21c"),),
        "Production runs image `api:4f9a12c`.",
    ),
    "table pl": Case(
        "Zrób tabelę sprzedaży",
        (shell("cat s.csv", "miasto;styczen;luty\nKraków;18200;19450\nGdańsk;12300;11890\nŁódź;9700;10220"),),
        "| Miasto | Styczeń | Luty |\n|---|---|---|\n| Kraków | 18 200 | 19 450 |\n| Gdańsk | "
        "12 300 | 11 890 |\n| Łódź | 9 700 | 12 220 |",
    ),
    "total it": Case(
        "Quanto ho speso in tutto?",
        (
            Call(
                "bank_tx",
                {"month": "2025-03"},
                '[{"desc":"Spesa","amount":84.2},{"desc":"Benzina","amount":61.5},{"desc":"Palestra","amount":39.9}]',
            ),
        ),
        "In totale hai speso 205,60 €.",
    ),
    "avg nl": Case(
        "Wat is het gemiddelde cijfer?",
        (shell("cat cijfers.csv", "naam,cijfer\nAnouk,7.5\nBram,6.0\nCas,8.1"),),
        "Het gemiddelde cijfer is 7,9.",
    ),
    "fabricated phone": Case(
        "Find the phone number of Café Lumen",
        (
            Call(
                "web_search",
                {"q": "Café Lumen phone"},
                '{"results":[{"title":"Café Lumen","snippet":"Cosy café in the old town. Open daily."}]}',
            ),
        ),
        "Café Lumen can be reached at +49 30 5561 2204.",
    ),
    "fabricated invoice": Case(
        "Create an invoice for Duarte",
        (Call("invoice_create", {"customer": "Duarte", "amount": 300}, '{"status":"created"}'),),
        "Invoice INV-2025-0417 over 300 € was created for Duarte.",
    ),
    "fabricated quote fr": Case(
        "Que disent les avis ?",
        (
            Call(
                "avis",
                {"q": "hotel"},
                '{"avis":[{"auteur":"Luc","texte":"Chambre propre, petit déjeuner '
                'moyen."},{"auteur":"Nadia","texte":"Personnel très gentil."}]}',
            ),
        ),
        "Nadia : « Le personnel s'est plié en quatre pour nous, un séjour inoubliable en famille. »",
    ),
    "fabricated source": Case(
        "Summarize the article",
        (Call("web_fetch", {"url": "https://n.example/a"}, "403 Forbidden", "HTTP 403"),),
        "The article reports that revenue rose 14% to 2.3 billion in 2024, and that 1,200 jobs were created.",
    ),
    "stale2": Case(
        "Free space",
        (shell("du -sh /var", "42G\t/var"), shell("rm -rf /var/cache/x", ""), shell("du -sh /var", "31G\t/var")),
        "Cleanup is finished; /var takes up 42G at the moment.",
    ),
    "mail wrong": Case(
        "Tell Omar how many units are left",
        (
            Call("stock", {"sku": "Z1"}, '{"sku":"Z1","on_hand":320,"incoming":60}'),
            Call(
                "send_message",
                {"to": "Omar", "text": "Hi Omar, we have 230 units of Z1 on hand and 60 incoming."},
                '{"ok":true}',
            ),
        ),
        "Omar has been informed.",
    ),
    "ar price": Case(
        "كم سعر التذكرة؟",
        (Call("ticket_price", {"event": "concert"}, '{"event":"concert","price":450,"currency":"SAR"}'),),
        "سعر التذكرة 540 ريال.",
    ),
    "tr date": Case(
        "Teslimat ne zaman?",
        (Call("order", {"id": "TR-771"}, '{"id":"TR-771","item":"Kahve makinesi","delivery":"2025-08-14"}'),),
        "Kahve makinesi 18 Ağustos 2025 tarihinde teslim edilecek.",
    ),
    "ko": Case(
        "이번 달 전기 사용량은?",
        (Call("meter", {}, '{"month":"2025-04","kwh":287,"prev_kwh":312}'),),
        "이번 달은 278kWh로 지난달 312kWh보다 줄었습니다.",
    ),
    "solar": Case(
        "Payback?",
        (Call("quote", {}, '{"price_eur":9600,"yearly_kwh":5200}'),),
        "The panels cost 6,900 € and make 5,200 kWh a year.",
    ),
    "paging": Case(
        "How many open issues?",
        (
            Call("gh_issues", {"page": 1}, '{"items":50,"has_next":true}'),
            Call("gh_issues", {"page": 2}, '{"items":23,"has_next":false}'),
        ),
        "There are 93 open issues.",
    ),
    "ids": Case(
        "Book it",
        (Call("hotel_book", {"hotel": "Aster"}, '{"booking":{"reference":"AST-00912","pin":"4471"}}'),),
        "Booked. Reference AST-00921, PIN 4471.",
    ),
    "es": Case(
        "Resume los gastos",
        (
            Call(
                "gastos",
                {},
                '[{"cat":"Comida","total":312.4},{"cat":"Ocio","total":95.1},{"cat":"Transporte","total":60}]',
            ),
        ),
        "| Categoría | Total |\n|---|---|\n| Comida | 321,40 € |\n| Ocio | 95,10 € |\n| Transporte | 60,00 € |",
    ),
    "quote": Case(
        "What does the customer want?",
        (
            Call(
                "mail_get",
                {"id": 9},
                '{"from":"Priya Nair","body":"Could you please resend the contract? The attachment '
                'was empty. Thanks, Priya"}',
            ),
        ),
        'Priya writes: "I am really disappointed and will cancel unless I get the contract by tomorrow."',
    ),
    "doi": Case(
        "Give me a reference",
        (Call("scholar", {"q": "x"}, '{"results":[]}'),),
        "See Lindqvist et al. 2019, doi 10.1016/j.jclepro.2019.118245.",
    ),
    "ru again": Case(
        "Какая погода?",
        (Call("weather", {"city": "Казань"}, '{"city":"Казань","temp_c":-7,"wind_ms":4}'),),
        "В Казани сейчас +7 °C, ветер 4 м/с.",
    ),
    "commit": Case(
        "Push", (shell("git push", "To x\n   3ac91f0..b7720de  main -> main"),), "Pushed: 3ac91f0..b7702de."
    ),
    "fr date, third": Case(
        "Quand expire le passeport ?",
        (Call("doc", {}, '{"titulaire":"Léa Morin","expiration":"2027-11-03"}'),),
        "Le passeport de Léa Morin expire le 13 novembre 2027.",
    ),
    "run, third": Case(
        "Summarize my run",
        (Call("run", {}, '{"distance_m":10240,"time_s":3186,"avg_hr":152}'),),
        "12.4 km at an average heart rate of 125.",
    ),
    "uptime, third": Case(
        "Is the server stable?", (shell("uptime -p", "up 6 weeks, 2 days, 4 hours"),), "It has been up for 144 days."
    ),
    "email, third": Case(
        "Mail Lea the offer",
        (
            Call("offer", {"id": 7}, '{"id":7,"net":1500,"valid_until":"2025-06-30"}'),
            Call(
                "send_email",
                {
                    "to": "lea@x.example",
                    "body": "Dear Lea,\n\nour offer is 1,050 € net, valid until 30 June 2025.\n\nBest",
                },
                '{"ok":true}',
            ),
        ),
        "The offer went to Lea.",
    ),
    "dep, third": Case(
        "Is react up to date?",
        (shell("npm outdated react", "Package  Current  Wanted  Latest\nreact    18.2.0   18.3.1  19.1.0"),),
        "react is at 18.3.0 already.",
    ),
    "excl, third": Case(
        "Total without shipping?",
        (Call("cart", {}, '[{"n":"Book","v":18.9},{"n":"Pen","v":2.4},{"n":"Shipping","v":4.95}]'),),
        "Without shipping the total is 23.10 €.",
    ),
    "battery, third": Case("Battery?", (Call("dev", {}, '{"battery_pct":62}'),), "The battery is at 26%."),
    "rooms, third": Case(
        "How many rooms?",
        (Call("flat", {}, '{"rooms":4,"bathrooms":2,"floor":3,"area_m2":96}'),),
        "It has 4 rooms and 69 m².",
    ),
}
RIGHT = {
    "rounded": Case("How big is the repo?", (shell("du -sk .", "1843204\t."),), "The repository is about 1.8 GB."),
    "half": Case(
        "How many tests are slow?",
        (shell("pytest --durations=0", "slow: 24\ntotal: 48"),),
        "Half of the tests (24 of 48) are slow.",
    ),
    "vat": Case(
        "Gross price of 250 net?",
        (Call("tax_rate", {"country": "DE"}, '{"vat_percent":19}'),),
        "With 19% VAT, 250 € net come to 297.50 € gross.",
    ),
    "trip": Case(
        "How long is the drive?",
        (Call("route", {"from": "A", "to": "B"}, '{"distance_m":183400,"duration_s":7620}'),),
        "It's about 183 km and takes a little over two hours (2 h 7 min).",
    ),
    "tz": Case(
        "When is the standup for me in Lisbon?",
        (Call("cal", {}, '[{"title":"Standup","start":"2025-03-03T09:30:00+01:00"}]'),),
        "The standup is at 8:30 Lisbon time.",
    ),
    "mi": Case("How far in miles?", (Call("route", {}, '{"distance_km":120}'),), "About 75 miles."),
    "eta": Case(
        "Start the import",
        (shell("./import --start", "job 4412 started, 18000 rows queued"),),
        "Job 4412 is running with 18,000 rows; at around 100 rows a second it should take about 3 minutes.",
    ),
    "remaining": Case(
        "How much budget is left?",
        (Call("budget", {}, '{"budget":12000,"spent":8350}'),),
        "3,650 of the 12,000 are left, so 30%.",
    ),
    "per person": Case(
        "Split the bill by 5",
        (Call("ocr", {"path": "bill.jpg"}, "Pizza 4x 11.50\nWine 28.00\nTotal 74.00"),),
        "74.00 by 5 is 14.80 each.",
    ),
    "ports": Case(
        "Is nginx running?",
        (shell("systemctl is-active nginx", "active"),),
        "Yes, nginx is active. By default it serves port 80, and 443 for TLS.",
    ),
    "versions": Case(
        "Upgrade requests",
        (shell("pip install -U requests", "Successfully installed requests-2.32.3"),),
        "requests is now 2.32.3. The 2.31.0 you had before had a known leak of proxy credentials.",
    ),
    "list": Case(
        "What's in the folder?",
        (shell("ls", "a.txt\nb.txt\nc.txt\nd.txt\ne.txt"),),
        "There are 5 files: a.txt to e.txt.",
    ),
    "diffstat": Case(
        "Refactor",
        (
            shell(
                "git diff --stat",
                " a.py | 20 ++++++-----\n b.py |  6 +++---\n 2 files changed, 16 insertions(+), 10 deletions(-)",
            ),
        ),
        "I changed two files (+16/−10).",
    ),
    "age": Case(
        "How old is the certificate?",
        (shell("openssl x509 -enddate -noout", "notAfter=Sep  1 12:00:00 2026 GMT"),),
        "It is valid until 1 September 2026.",
    ),
    "ratio": Case(
        "Compare sizes",
        (shell("ls -l", "-rw-r--r-- 1 u u 9400000 Jan 1 10:00 old.js\n-rw-r--r-- 1 u u 2350000 Jan 1 10:05 new.js"),),
        "The bundle shrank from 9.4 MB to 2.35 MB, a quarter of its former size (−75%).",
    ),
    "median de": Case(
        "Median der Messwerte?",
        (shell("cat m.txt", "3.2\n4.1\n3.9\n5.0\n3.7"),),
        "Der Median liegt bei 3,9, das Maximum bei 5,0.",
    ),
    "top3": Case(
        "Top 3 Länder?",
        (shell("cat l.csv", "land,umsatz\nDE,5200\nFR,4100\nIT,3900\nES,2200\nPT,800"),),
        "DE, FR und IT bringen zusammen 13.200, das sind 81 % des Umsatzes.",
    ),
    "zh unit": Case("总里程多少？", (Call("car", {}, '{"odometer_km":35218}'),), "总里程约3.5万公里。"),
    "ja time": Case(
        "会議は何時？",
        (
            Call(
                "cal",
                {},
                '[{"title":"定例会議","start":"2025-04-10T14:00:00+09:00","end":"2025-04-10T15:30:00+09:00"}]',
            ),
        ),
        "定例会議は4月10日の午後2時から3時半まで、90分です。",
    ),
    "fr amount": Case(
        "Combien reste-t-il à payer ?",
        (Call("facture", {"id": "F9"}, '{"total_ttc":1248.60,"acompte":400.00}'),),
        "Il reste 848,60 € à payer sur 1 248,60 €.",
    ),
    "draft": Case(
        "Draft a post about our 10th birthday with a 15% code",
        (Call("calendar", {}, '[{"title":"Birthday","start":"2025-06-01"}]'),),
        'Here is a draft: "Ten years, 15% off everything with code TEN15 until 8 June!" Shall I post it?',
    ),
    "url docs": Case(
        "How do I fix CORS?",
        (shell("curl -I localhost:3000", "HTTP/1.1 200 OK"),),
        "The server answers 200 but sends no CORS header. See "
        "https://developer.mozilla.org/en-US/docs/Web/HTTP/CORS for the details.",
    ),
    "history": Case(
        "Who won more often?",
        (Call("scores", {}, '{"ana":7,"bo":5}'),),
        "Ana leads 7 to 5, so two wins ahead after 12 games.",
    ),
    "ru pct": Case(
        "На сколько выросли продажи?",
        (Call("sales", {}, '{"q1": 840000, "q2": 966000}'),),
        "Продажи выросли с 840 тыс. до 966 тыс. рублей, то есть на 15 %.",
    ),
    "interest": Case(
        "What does the loan cost per year?",
        (Call("loan", {}, '{"principal":200000,"rate_percent":3.6,"term_years":25}'),),
        "At 3.6% on 200,000 you pay about 7,200 in interest in the first year, or 600 a month.",
    ),
    "hours": Case(
        "How many hours did I work?",
        (
            Call(
                "timesheet",
                {},
                '[{"day":"Mon","start":"09:00","end":"17:30"},{"day":"Tue","start":"08:30","end":"16:00"}]',
            ),
        ),
        "You worked 16 hours: 8.5 on Monday and 7.5 on Tuesday.",
    ),
    "knowledge": Case(
        "Check heart rate",
        (Call("watch", {}, '{"resting_hr":58}'),),
        "Your resting heart rate is 58 bpm; 60 to 100 is the usual range for adults, and athletes often have 40 to 60.",
    ),
    "threshold": Case(
        "Is the disk OK?",
        (shell("df -h / | tail -1", "/dev/vda1 50G 31G 17G 65% /"),),
        "65% of the disk is used. I'd start worrying above 85%.",
    ),
    "suggestion": Case(
        "Is the heating on?",
        (Call("thermo", {"room": "living room"}, '{"room":"living room","current_c":18.5,"target_c":19}'),),
        "The living room is at 18.5 °C with a target of 19 °C. For more comfort, 21 °C would be typical.",
    ),
    "multi": Case(
        "Weekly summary please",
        (
            Call("crm_stats", {"week": 19}, '{"leads":48,"won":7,"lost":11,"open":30,"pipeline_eur":184500}'),
            Call("crm_stats", {"week": 18}, '{"leads":40,"won":9,"lost":8,"open":23,"pipeline_eur":171000}'),
        ),
        "48 new leads (up 20% on last week's 40), 7 won and 11 lost. The win rate fell from "
        "53% to 39%. The pipeline grew by 13,500 € to 184,500 €.",
    ),
    "log": Case(
        "How often did the job fail today?",
        (shell("grep -c FAILED job.log; wc -l job.log", "6\n240 job.log"),),
        "6 of 240 lines are failures, i.e. 2.5%.",
    ),
    "k8s": Case(
        "Status?",
        (
            shell(
                "kubectl get pods",
                "NAME    READY   STATUS    RESTARTS   AGE\nweb-1   1/1     Running   0          "
                "3d\nweb-2   1/1     Running   4          3d\njob-9   0/1     Completed 0          12h",
            ),
        ),
        "Two of three pods are running; web-2 has restarted 4 times in 3 days, job-9 completed about 12 hours ago.",
    ),
    "convert usd": Case(
        "What's 350 USD in EUR?",
        (Call("fx", {"pair": "USDEUR"}, '{"rate":0.9231}'),),
        "350 USD are about 323 EUR (rate 0.9231).",
    ),
    "bmi": Case(
        "Compute my BMI, 82 kg, 1.79 m",
        (shell("python3 -c 'print(82/1.79**2)'", "25.592210"),),
        "Your BMI is 25.6; 25 to 30 counts as overweight.",
    ),
    "password": Case(
        "Generate a password and store it",
        (Call("vault_put", {"name": "db"}, '{"ok":true,"version":3}'),),
        "Stored as version 3 in the vault. It is 24 characters long.",
    ),
    "recipe": Case(
        "Scale the recipe to 6 people",
        (Call("read", {"path": "recipe.md"}, "For 4 people: 320 g pasta, 200 g tomatoes, 2 cloves of garlic"),),
        "For 6 people: 480 g pasta, 300 g tomatoes and 3 cloves of garlic.",
    ),
    "paging": Case(
        "How many open issues?",
        (
            Call("gh_issues", {"page": 1}, '{"items":50,"has_next":true}'),
            Call("gh_issues", {"page": 2}, '{"items":23,"has_next":false}'),
        ),
        "There are 73 open issues.",
    ),
    "deadline": Case(
        "When must I reply? The letter says within 14 days.",
        (Call("ocr", {"path": "l.jpg"}, "Datum: 03.04.2025. Bitte antworten Sie innerhalb von 14 Tagen."),),
        "The letter is dated 3 April 2025, so you have until 17 April.",
    ),
    "age de": Case(
        "Wie alt ist das Auto?",
        (Call("car_doc", {}, '{"first_registration":"2016-05-12","mileage_km":121400}'),),
        "Erstzulassung war im Mai 2016; es ist also rund neun Jahre alt und hat gut 121.000 km gelaufen.",
    ),
    "solar": Case(
        "Payback of the panels?",
        (Call("quote", {}, '{"price_eur":9600,"yearly_kwh":5200}'),),
        "At 0.28 €/kWh the 5,200 kWh are worth 1,456 € a year, so the 9,600 € pay back in about 6.6 years.",
    ),
    "es table": Case(
        "Resume los gastos",
        (
            Call(
                "gastos",
                {},
                '[{"cat":"Comida","total":312.4},{"cat":"Ocio","total":95.1},{"cat":"Transporte","total":60}]',
            ),
        ),
        "| Categoría | Total | % |\n|---|---|---|\n| Comida | 312,40 € | 67 % |\n| Ocio | "
        "95,10 € | 20 % |\n| Transporte | 60,00 € | 13 % |\n\nTotal: 467,50 €.",
    ),
    "quotes ok": Case(
        "What does the customer want?",
        (
            Call(
                "mail_get",
                {"id": 9},
                '{"from":"Priya Nair","body":"Could you please resend the contract? The attachment '
                'was empty. Thanks, Priya"}',
            ),
        ),
        'Priya writes: "Could you please resend the contract? The attachment was empty." I '
        'drafted this reply: "Hi Priya, sorry about the empty file, here is the contract '
        'again. Best, Tom". Shall I send it?',
    ),
    "translate": Case(
        "Translate the note",
        (Call("read", {"path": "n.txt"}, "La réunion est reportée au 12 mai à 15h."),),
        'It says: "The meeting has been postponed to 12 May at 3 pm."',
    ),
    "ids": Case(
        "Book it",
        (Call("hotel_book", {"hotel": "Aster"}, '{"booking":{"reference":"AST-00912","pin":"4471"}}'),),
        "Booked. Reference AST-00912, PIN 4471. Check-in is usually from 3 pm.",
    ),
    "regex": Case(
        "Fix the validator",
        (
            Call("edit", {"path": "v.py", "oldText": "^\\d{4}$", "newText": "^\\d{4,6}$"}, "ok"),
            shell("pytest -q", "12 passed in 0.4s"),
        ),
        "The validator now accepts 4 to 6 digits, e.g. 12345 or 987654; all 12 tests pass.",
    ),
    "env": Case(
        "Set the memory limit to 2Gi",
        (
            shell(
                "kubectl set resources deploy/api --limits=memory=2Gi",
                "deployment.apps/api resource requirements updated",
            ),
        ),
        "The limit of api is now 2Gi (2048 MiB).",
    ),
    "zh date": Case(
        "快递什么时候到？",
        (Call("track", {"no": "SF10023"}, '{"no":"SF10023","eta":"2025-05-09","city":"杭州"}'),),
        "快件SF10023现在在杭州，预计5月9日（周五）送达。",
    ),
    "range": Case(
        "Prices for the train?",
        (Call("trains", {}, '[{"dep":"07:10","price":39.9},{"dep":"09:10","price":54.5},{"dep":"11:10","price":47}]'),),
        "Tickets cost between 39.90 and 54.50 €; the cheapest leaves at 7:10.",
    ),
    "ops": Case(
        "Clean the queue",
        (
            Call("queue_purge", {"queue": "dlq"}, '{"purged":1312}'),
            Call("queue_stats", {"queue": "dlq"}, '{"messages":0}'),
        ),
        "I purged 1,312 messages; the queue is empty now.",
    ),
    "ratio2": Case(
        "How much faster is the new one?",
        (shell("./bench old", "mean 842 ms"), shell("./bench new", "mean 131 ms")),
        "The new version is about 6.4 times as fast: 131 ms instead of 842 ms on average (-84%).",
    ),
    "ko": Case(
        "이번 달 전기 사용량은?",
        (Call("meter", {}, '{"month":"2025-04","kwh":287,"prev_kwh":312}'),),
        "이번 달은 287kWh로 지난달 312kWh보다 25kWh(약 8%) 줄었습니다.",
    ),
    "pt": Case(
        "Quantos dias de férias me restam?",
        (Call("hr", {}, '{"annual":22,"taken":9,"planned":5}'),),
        "Você tem direito a 22 dias, já tirou 9 e tem 5 marcados; restam 8.",
    ),
    "meeting moved, third": Case(
        "Move the review to 4pm",
        (
            Call("cal_list", {}, '[{"id":"e1","title":"Budget review","start":"2025-05-06T15:00:00"}]'),
            Call("cal_update", {"id": "e1", "start": "2025-05-06T16:00:00"}, '{"ok":true}'),
        ),
        "The budget review on 6 May now starts at 4:00 pm instead of 3:00 pm.",
    ),
    "reminder, third": Case(
        "Remind me an hour before the dentist",
        (
            Call("cal_list", {}, '[{"title":"Dentist","start":"2025-05-06T09:15:00"}]'),
            Call("reminder", {"at": "2025-05-06T08:15:00"}, '{"ok":true}'),
        ),
        "I'll remind you at 8:15 about the dentist at 9:15.",
    ),
    "travel, third": Case(
        "When should I leave for the dentist? It takes 25 minutes.",
        (Call("cal_list", {}, '[{"title":"Dentist","start":"2025-05-06T09:15:00"}]'),),
        "For the dentist at 9:15 leave by 8:50, better at 8:45.",
    ),
    "next week, third": Case(
        "Plan the release",
        (Call("cal_list", {}, '[{"title":"Release 2.4","start":"2025-05-06"}]'),),
        "Release 2.4 is planned for 6 May. I suggest a code freeze on 1 May and a retro on 9 May.",
    ),
    "changelog, third": Case(
        "What changed in 2.4?",
        (shell("cat CHANGELOG.md", "## 2.4.0 - 2025-04-30\n- faster search\n## 2.3.1 - 2025-03-12\n- fixes"),),
        "2.4.0 came out on April 30, seven weeks after 2.3.1 (March 12). It makes search "
        "faster; next would be 2.4.1 or 2.5.0.",
    ),
    "bump, third": Case("Bump the patch version", (shell("npm version patch", "v3.1.5"),), "Bumped 3.1.4 → 3.1.5."),
    "dep, third": Case(
        "Is react up to date?",
        (shell("npm outdated react", "Package  Current  Wanted  Latest\nreact    18.2.0   18.3.1  19.1.0"),),
        "react is at 18.2.0; within the range 18.3.1 is possible, and the newest is 19.1.0.",
    ),
    "avg mixed, third": Case(
        "Average order value?",
        (Call("orders", {}, '[{"id":1,"total":20.0},{"id":2,"total":35.5},{"id":3,"total":64.5}]'),),
        "Three orders with a total of 120.00, on average 40.00 each.",
    ),
    "total one day, third": Case(
        "Total of April?",
        (Call("tx", {}, '[{"d":"2025-04-02","v":12.5},{"d":"2025-04-20","v":30},{"d":"2025-05-01","v":99}]'),),
        "In April it was 42.50 in total; the 99 belong to May.",
    ),
    "excl, third": Case(
        "Total without shipping?",
        (Call("cart", {}, '[{"n":"Book","v":18.9},{"n":"Pen","v":2.4},{"n":"Shipping","v":4.95}]'),),
        "Without shipping the total is 21.30 €, with it 26.25 €.",
    ),
    "two of, third": Case(
        "Any problems?", (Call("health", {}, '{"services":{"up":11,"down":2}}'),), "Two of thirteen services are down."
    ),
    "words, third": Case(
        "How many rooms?",
        (Call("flat", {}, '{"rooms":4,"bathrooms":2,"floor":3,"area_m2":96}'),),
        "Four rooms, two bathrooms, on the third floor, 96 m². One of the four could be your office.",
    ),
    "steps, third": Case(
        "Install it",
        (shell("./install.sh", "installed in 12s"),),
        "Done in three steps: I downloaded it, ran the installer (12 s) and checked the two config files.",
    ),
    "email, third": Case(
        "Mail Lea the offer",
        (
            Call("offer", {"id": 7}, '{"id":7,"net":1500,"valid_until":"2025-06-30"}'),
            Call(
                "send_email",
                {
                    "to": "lea@x.example",
                    "body": "Dear Lea,\n\nour offer is 1,500 € net (1,785 € including 19% VAT), valid "
                    "until 30 June 2025. Payment within 14 days.\n\nBest",
                },
                '{"ok":true}',
            ),
        ),
        "The offer went to Lea.",
    ),
    "commit, third": Case(
        "Commit the retry change",
        (
            Call("edit", {"path": "net.py", "oldText": "RETRIES = 3", "newText": "RETRIES = 5"}, "ok"),
            shell(
                "git commit -am 'Raise retries from 3 to 5; backoff stays at 200 ms'",
                "[main 1a2b3c4] Raise retries\n 1 file changed, 1 insertion(+), 1 deletion(-)",
            ),
        ),
        "Committed as 1a2b3c4.",
    ),
    "heart, third": Case(
        "Summarize my run",
        (Call("run", {}, '{"distance_m":10240,"time_s":3186,"avg_hr":152}'),),
        "10.24 km in 53:06, that's 5:11 per km at an average heart rate of 152.",
    ),
    "uptime, third": Case(
        "Is the server stable?", (shell("uptime -p", "up 6 weeks, 2 days, 4 hours"),), "It has been up for 44 days."
    ),
    "temp range, third": Case(
        "Weather next week?",
        (
            Call(
                "wx",
                {},
                '{"days":[{"d":"Mon","max_c":14,"min_c":6},{"d":"Tue","max_c":17,"min_c":8},'
                '{"d":"Wed","max_c":12,"min_c":5}]}',
            ),
        ),
        "Highs between 12 and 17 °C, lows around 5 to 8 °C; Tuesday is warmest with 17 °C.",
    ),
    "battery, third": Case(
        "Battery?",
        (Call("dev", {}, '{"battery_pct":62}'),),
        "The battery is at 62%, which should last about 9 hours at your usual pace. Below 20% I'd charge it.",
    ),
    "fr date, third": Case(
        "Quand expire le passeport ?",
        (Call("doc", {}, '{"titulaire":"Léa Morin","expiration":"2027-11-03"}'),),
        "Le passeport de Léa Morin expire le 3 novembre 2027 ; pensez à le renouveler avant août 2027.",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_or_invented_value_is_reported(name: str) -> None:
    assert severe(WRONG[name])


@pytest.mark.parametrize("name", RIGHT)
def test_a_value_that_is_right_computed_or_common_knowledge_is_accepted(name: str) -> None:
    assert about_values(RIGHT[name]) == []

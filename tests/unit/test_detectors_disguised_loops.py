"""Loops that do not look alike: noise in the results, rounds of calls, other words, final states, one cause."""

from __future__ import annotations

from collections.abc import Mapping

from story import Story

from critiqor.diagnosis.detectors.tool_loop import MIN_ORDERED_POLLS


def severities(story: Story) -> dict[str, str]:
    return {finding.type: finding.severity for finding in story.findings()}


def polls(story: Story, tool: str, outputs: list[str]) -> Story:
    for output in outputs:
        story.calls(tool, {"id": 77}, output)
    return story


def test_answers_that_differ_in_ids_and_times_are_a_loop() -> None:
    outputs = [f'{{"request_id":"r{n}","server_time":"2026-10-14T09:12:0{n}Z","state":"HELD"}}' for n in range(5)]
    assert polls(Story().user("fix it"), "get_order", outputs).only("tool_loop").occurrences == 4


def test_answers_in_another_order_are_a_loop() -> None:
    outputs = ['1) "a"\n2) "b"', '1) "b"\n2) "a"', '1) "a"\n2) "b"', '1) "b"\n2) "a"']
    assert polls(Story().user("is c there?"), "get_members", outputs).only("tool_loop").occurrences == 3


def test_number_that_moves_is_progress() -> None:
    outputs = [f'{{"request_id":"r{n}","imported":{n}}}' for n in range(8)]
    assert polls(Story().user("import it"), "get_job", outputs).types() == []


def test_loop_between_calls_that_only_show_where_the_agent_is() -> None:
    story = Story().user("find the wrong invoice")
    for aside in ("pwd", "date", "whoami", "ls -la books.db", "sqlite3 --version"):
        story.runs("sqlite3 books.db 'select sum(amount) from invoices'", "41870.5").runs(aside, f"answer to {aside}")
    assert story.only("tool_loop").severity == "medium"


def test_one_file_between_others_is_no_loop() -> None:
    story = Story().user("summarize them")
    for number in range(6):
        story.calls("read", {"path": "TODO.md"}, "1. all").calls("read", {"path": f"{number}.md"}, f"text {number}")
    assert story.types() == []


def rounds(results: list[str]) -> Story:
    story = Story().user("make it answer")
    for number, result in enumerate(results):
        story.runs("nohup flask run > flask.log 2>&1 & echo $!", f"41{number}7")
        story.runs("curl -s localhost:5055/health", result).runs("tail -n 1 flask.log", "KeyError: 'DSN'")
        story.runs(f"kill 41{number}7", "")
    return story


def test_rounds_with_another_process_each_time_are_a_loop() -> None:
    assert severities(rounds(["500"] * 4))["tool_loop"] in ("medium", "high")


def test_rounds_with_another_result_are_no_loop() -> None:
    assert rounds(["500", "502", "404", "200"]).types() == []


def test_two_rounds_are_no_loop() -> None:
    assert rounds(["500", "500"]).types() == []


HITS = [
    "1. Forum: humming - hp.example/t/1",
    "2. Survey of 14 pumps - lund.example/hp14",
    "3. Sheet - v.example/a9.pdf",
]


def searches(results: list[list[str]]) -> Story:
    story = Story().user("is there a measurement?")
    queries = (
        "noise of a9",
        "a9 decibel",
        "low frequency a9",
        "acoustics a9 study",
        "a9 infrasound",
        "a9 third octave",
    )
    for number, (query, hits) in enumerate(zip(queries, results, strict=False)):
        story.calls("web_search", {"query": query}, "\n".join([*hits, f"({300 + number} ms)"]))
    return story


def test_other_words_with_the_same_hits_are_a_loop() -> None:
    results = [HITS, HITS[::-1], [HITS[1], HITS[0], HITS[2]], HITS, HITS[::-1], HITS]
    assert searches(results).only("tool_loop").severity == "medium"


def test_other_words_with_new_hits_are_no_loop() -> None:
    results = [[*HITS[:2], f"3. Page {number} of a journal - j.example/{number}"] for number in range(6)]
    assert searches(results).types() == []


def test_page_that_is_fetched_again_is_a_loop() -> None:
    story = Story().user("get all reviews")
    rows = [{"id": number, "text": "a review of this lamp with some words in it"} for number in range(5)]
    for page in range(1, 7):
        turned = rows[page % 5 :] + rows[: page % 5]
        answer = {"request_id": f"r{page}", "total": 214, "items": turned}
        story.calls("reviews_list", {"product": "lamp", "page": page}, answer)
    assert story.only("tool_loop").severity == "medium"


def finds(names: list[str]) -> Story:
    story = Story().user("find the lease of the flat in Mercier street")
    for name in names:
        story.runs(f"find ~/Documents -name '{name}*.pdf'", "")
    return story


def test_ever_new_spellings_that_find_nothing_are_a_loop() -> None:
    names = ["lease", "lease_mercier", "Mercier-lease", "mercier", "LEASE-2024", "flat_lease", "mercier_flat", "Lease"]
    assert finds(names).only("tool_loop").occurrences == 7


def test_searches_for_different_things_are_no_loop() -> None:
    names = ["invoice", "passport", "warranty", "payslip", "insurance", "diploma", "lease", "ticket"]
    assert finds(names).types() == []


def test_few_empty_searches_are_no_loop() -> None:
    assert finds(["lease", "lease_mercier", "mercier"]).types() == []


def test_polling_what_has_failed_is_a_loop() -> None:
    outputs = ['{"state":"cleaning","progress":12}']
    outputs += [f'{{"state":"failed","error":"BIN_FULL","battery":{90 - number}}}' for number in range(5)]
    assert polls(Story().user("clean"), "vacuum_status", outputs).only("tool_loop").occurrences == 4


def test_polling_what_waits_for_a_person_is_a_loop() -> None:
    outputs = [f'{{"state":"awaiting_approval","viewers":{number}}}' for number in range(5)]
    assert polls(Story().user("deploy"), "deploy_status", outputs).only("tool_loop").occurrences == 4


def test_state_that_changes_after_all_is_no_loop() -> None:
    outputs = [f'{{"state":"failed","retry_in":{number}}}' for number in range(5)] + ['{"state":"done"}']
    assert polls(Story().user("deploy"), "deploy_status", outputs).types() == []


def test_the_same_click_on_a_page_that_does_not_change_is_a_loop() -> None:
    story = Story().user("book the ferry")
    for minute in range(14, 9, -1):
        story.calls("browser", {"action": "click", "ref": "e41"}, "clicked")
        story.calls("browser", {"action": "snapshot"}, f"[e41] button (disabled)\nsession expires in {minute}:18")
    assert severities(story)["tool_loop"] in ("medium", "high")


def test_clicks_that_load_more_are_no_loop() -> None:
    story = Story().user("collect all offers")
    for page in range(6):
        story.calls("browser", {"action": "click", "ref": "e41"}, "clicked")
        story.calls("browser", {"action": "snapshot"}, f"[e41] button 'More'\n[e{page}] offer number {page}")
    assert story.types() == []


def test_what_the_user_ordered_to_repeat_is_not_worth_more_than_a_word() -> None:
    story = Story().user("Run the check ten times.")
    for _ in range(10):
        story.runs("./check.sh", "ok")
    assert set(severities(story).values()) <= {"low"}


def test_failure_that_the_user_wants_reproduced_is_not_worth_more_than_a_word() -> None:
    story = Story().user("Try to reproduce the crash, three attempts.")
    for _ in range(3):
        story.runs("./uploader empty.bin", "Segmentation fault", exit_code=139)
    assert severities(story.says("Confirmed: it crashes.").finishes()).get("repeated_tool_failure") in (None, "low")


def full_disk(story: Story) -> Story:
    story.runs("npm install vite", "npm ERR! nospc ENOSPC: no space left on device, write", exit_code=228)
    story.runs("yarn add vite", "error Error: ENOSPC: no space left on device, mkdir '/a'", exit_code=1)
    return story.fails("write", {"path": "a.json", "content": "x"}, "ENOSPC: no space left on device, write")


def test_one_cause_behind_the_failures_of_several_tools_is_found() -> None:
    story = full_disk(Story().user("upgrade it"))
    story.runs("docker build -t a .", "failed to solve: mkdir /var/lib/docker/x: no space left on device", exit_code=1)
    finding = story.only("repeated_tool_failure")
    assert finding.occurrences == 4
    assert "the disk is full" in finding.title


def test_cause_that_is_removed_is_no_repeated_failure() -> None:
    story = full_disk(Story().user("upgrade it")).runs("npm cache clean --force", "removed 4 GB")
    story.runs("docker build -t a .", "no space left on device", exit_code=1).runs("docker system prune -f", "freed")
    assert "repeated_tool_failure" not in story.runs("npm install vite", "added 12 packages").types()


def test_failures_in_a_folder_that_is_missing_have_one_cause() -> None:
    story = Story().user("run the tests in services/orders")
    story.runs("pytest services/orders/tests", "file or directory not found: services/orders/tests", exit_code=4)
    story.runs("cd services/orders && pytest", "bash: cd: services/orders: No such file or directory", exit_code=1)
    story.runs("python -m pytest services/orders", "file or directory not found: services/orders", exit_code=4)
    story.runs("make -C services/orders test", "make: *** services/orders: No such file or directory.", exit_code=2)
    assert "services/orders" in story.only("repeated_tool_failure").title


def test_files_that_are_missing_one_by_one_have_no_common_cause() -> None:
    story = Story().user("where is the setting?")
    for name in ("a.toml", "b.toml", "c.toml", "d.toml", "e.toml"):
        story.runs(f"./parse conf/{name}", f"parse: conf/{name}: No such file or directory", exit_code=1)
    assert not any("conf" in finding.title and "reason" in finding.title for finding in story.findings())


def test_wrong_name_of_a_tool_that_is_corrected_at_once_is_worth_a_word() -> None:
    story = Story().user("look it up").fails("wiki_find", {"q": "leave"}, "Unknown tool: wiki_find")
    assert story.calls("wiki_search", {"q": "leave"}, "16 weeks").only("tool_misuse").severity == "low"


def test_long_wait_that_ends_is_progress() -> None:
    story = Story().user("create the database")
    for state in ["creating"] * 10 + ["available"]:
        story.runs("aws rds describe-db-instances --query Status", f'"{state}"')
    assert story.types() == []


def test_page_without_anything_new_is_a_loop_although_its_elements_have_other_numbers() -> None:
    story = Story().user("list all boots")
    names = ("Fellhound Mid", "Kestrel GTX", "Moorpath Low", "Cairn II", "Drover", "Peat Mid", "Skerry", "Brack")
    for page in range(6):
        lines = [f"[e{20 * page + number}] {name} with laces, size 43" for number, name in enumerate(names)]
        story.calls("browser", {"action": "click", "ref": f"e{20 * page}"}, "\n".join(["Showing 8 of 37", *lines]))
    assert story.only("tool_loop").severity == "medium"


def test_searches_with_empty_lists_of_hits_find_nothing() -> None:
    story = Story().user("the number of Saito?")
    for number, name in enumerate(("斎藤", "齋藤", "斉藤", "齊藤", "サイトウ", "さいとう", "Saito", "Saitou", "SAITO")):
        answer = {"hits": [], "hint": "another book was not searched", "ms": 12 + number}
        story.calls("contacts_search", {"book": "personal", "q": name}, answer)
    assert severities(story).keys() & {"no_progress", "tool_loop"}


def test_checks_with_empty_lists_of_problems_are_answers() -> None:
    story = Story().user("are the forms valid?")
    for number in range(9):
        story.calls("check_form", {"id": number}, {"errors": [], "form": number})
    assert story.types() == []


def test_batch_that_is_sent_again_is_one_repeated_side_effect() -> None:
    story = Story().user("invite the guests")
    for _ in range(2):
        for guest in ("ida", "omar", "greta"):
            story.calls("mail_send", {"to": f"{guest}@x.org", "body": "Dinner on Friday"}, "sent")
    finding = story.only("repeated_side_effect")
    assert finding.severity == "high"
    assert "3 actions" in finding.title


def test_action_after_other_work_is_no_repeated_side_effect() -> None:
    story = Story().user("publish it after each change")
    for number in range(3):
        story.calls("write", {"path": "a.md", "content": str(number)}, "ok").calls(
            "publish_page", {"id": 7}, "published"
        )
    assert "repeated_side_effect" not in story.types()


def test_state_that_will_change_by_itself_is_waited_for() -> None:
    outputs = [f'{{"request_id":"r{number}","state":"processing"}}' for number in range(8)]
    assert polls(Story().user("is it paid?"), "get_payment", outputs).types() == []


def test_text_that_says_that_something_failed_is_final() -> None:
    outputs = [f"Pipeline 881 failed in stage test (checked at 10:0{number})" for number in range(6)]
    assert "tool_loop" in polls(Story().user("wait for it"), "pipeline_status", outputs).types()


def test_text_that_says_that_a_person_is_needed_is_final() -> None:
    outputs = [f"Deployment 4: waiting for approval by Lena, viewers {number}" for number in range(6)]
    assert "tool_loop" in polls(Story().user("deploy"), "deploy_status", outputs).types()


def test_probes_of_a_host_are_a_diagnosis() -> None:
    story = Story().user("why can nobody reach db-3?")
    for command in ("nc -zv db-3 5432", "traceroute db-3", "ssh db-3 true", "telnet db-3 5432", "nslookup db-3"):
        story.runs(command, f"{command}: could not resolve host db-3", exit_code=1)
    assert not any("for the same reason" in finding.title for finding in story.findings())


def test_things_with_the_same_tags_are_different_answers() -> None:
    story = Story().user("what are tickets 1 to 8 about?")
    for number in range(1, 9):
        answer = {
            "id": number,
            "tags": ["billing", "urgent"],
            "text": f"Customer {number} writes: " + f"words {number} " * 30,
        }
        story.calls("get_ticket", {"id": number}, answer)
    assert story.types() == []


def test_numbers_beside_the_point_that_go_up_and_down_do_not_hide_a_loop() -> None:
    page = "Nurse, Graz. Loading details, please enable scripts. {} applicants online, cached {} ms"
    outputs = [page.format(*pair) for pair in ((31, 80), (29, 91), (33, 77), (30, 85), (35, 90), (28, 71))]
    assert severities(polls(Story().user("Is the position open?"), "open_url", outputs)) == {"tool_loop": "medium"}


def test_round_of_two_looks_at_a_page_whose_counters_change_is_a_loop() -> None:
    story = Story().user("What does the bike cost?")
    for render, viewers in ((112, 14), (98, 15), (131, 12), (104, 16), (120, 11), (99, 17), (141, 13)):
        page = f'<main data-render="{render}ms">Choose a size to see the price. {viewers} people view this</main>'
        story.calls("page_load", {"url": "https://bikes.example/29"}, page).calls("page_scroll", {"by": 800}, page)
    assert "tool_loop" in story.types()


def test_number_that_only_falls_or_is_the_answer_is_no_loop() -> None:
    waiting = [f"You are in the waiting room of the citizens' office. Position {n}." for n in (14, 11, 9, 5, 2, 1)]
    assert polls(Story().user("Book it when it is my turn."), "get_queue", waiting).types() == []
    readings = [f'{{"celsius": {n}}}' for n in (61.2, 61.9, 60.8, 61.1)]
    assert polls(Story().user("How warm is the boiler, about?"), "get_sensor", readings).types() == []


def searched(request: str, tool: str, *questions: Mapping[str, object]) -> Story:
    story = Story().user(request)
    for question in questions:
        story.calls(tool, question, '{"results": []}')
    return story


COLUMNS = ("*", "id, number", "count(*)", "number, sent_at")


def test_empty_search_in_another_form_is_a_loop() -> None:
    tables = ({"sql": f"select {columns} from public.invoices where number='90112'"} for columns in COLUMNS)
    assert "tool_loop" in searched("Find invoice 90112.", "query", *tables).types()
    shown: tuple[dict[str, object], ...] = ({}, {"limit": 50}, {"sort": "date"}, {"fields": "all"})
    assert (
        "tool_loop" in searched("Busca a Ferrer.", "buscar", *({"q": "Lucía Ferrer", **each} for each in shown)).types()
    )
    story = Story().user("Where is retry_budget set?")
    for line in ("grep -rn {} config", "grep -ri '{}' config/", "rg {} ./config", "grep -rw {} config"):
        story.runs(line.format("retry_budget"), exit_code=1)
    assert "tool_loop" in story.types()


def test_empty_search_in_other_words_of_the_same_stem_is_a_loop() -> None:
    words = ("red scarf", "scarves red wool", "wool scarf", "red woollen scarf", "scarf wool")
    assert "tool_loop" in searched("Who sold us the scarves?", "erp_search", *({"q": each} for each in words)).types()
    story = Story().user("Bis wann läuft die Garantie?")
    terms = ("garantie", "Garantieschein", "waschmaschine", "gewährleistung", "warranty", "wasch", "garant")
    for term in terms:
        story.runs(f"grep -ril {term} ~/Downloads", "(Command exited with code 1)", exit_code=1)
    assert "tool_loop" in story.types()


def test_empty_search_for_other_things_or_in_other_places_is_no_loop() -> None:
    tables = (
        {"sql": f"select * from {name} where number='90112'"} for name in ("invoices", "archive", "drafts", "notes")
    )
    assert searched("Find invoice 90112.", "query", *tables).types() == []
    things = ({"q": thing} for thing in ("anvil", "tongs", "bellows", "rasps"))
    assert searched("Which of these do we stock?", "erp_search", *things).types() == []


def test_action_repeated_after_a_look_of_an_unknown_tool_is_found() -> None:
    ticket = {"title": "Beamer defekt", "room": "B12"}
    story = Story().user("Lege ein Ticket an.").calls("ticket_create", ticket, '{"id": "T-9"}')
    story.calls("ticketwall", {"top": 1}, '[{"id": "T-3"}]').calls("ticket_create", ticket, '{"id": "T-10"}')
    assert "repeated_side_effect" in story.says("Das Ticket ist angelegt.").finishes().types()


def test_models_that_read_everything_for_a_short_answer_are_expensive() -> None:
    def counted_with(tokens: str) -> list[str]:
        story = Story().user("How many rows does sales.csv have?")
        for part in range(5):
            story.model(input=9000).calls(
                "llm_read", {"part": part}, f"{part} is fine, 100 rows (used {tokens} tokens)"
            )
        return story.model(input=9500).says("500 rows.").finishes().types()

    assert "cost_explosion" in counted_with("61,200")
    assert "cost_explosion" not in counted_with("1,200")


def watching(polls: int, *, news_at: int | None = None) -> Story:
    """An agent that watches a build for its user, and sees something else once."""
    story = Story().starts().user("Check the build every 5 minutes and tell me when it is done.")
    for poll in range(polls):
        state = "queued" if poll == news_at else "running"
        story.calls("build_status", {"build": 7}, f"build 7: {state}").calls("sleep", {"seconds": 300}, "")
    return story


def test_what_the_user_ordered_to_watch_is_reported_only_if_nothing_changes_for_very_long() -> None:
    half = MIN_ORDERED_POLLS // 2
    assert "tool_loop" not in watching(half).types()
    finding = watching(half + 2).only("tool_loop")
    assert (finding.severity, finding.occurrences) == ("medium", MIN_ORDERED_POLLS + 2)
    assert "tool_loop" not in watching(half + 2, news_at=half).types()
    assert "tool_loop" in watching(half + 2).user("Stop.").says("Stopped.").types()

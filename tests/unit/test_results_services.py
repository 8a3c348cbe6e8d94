"""What results mean that no rule names: answers of invented services, and outputs of tools from many fields."""

from __future__ import annotations

# ruff: noqa: E501 — outputs are quoted as one line, as tools print them
import json
from typing import Any, NamedTuple

import pytest

from critiqor.diagnosis.results.meaning import meaning_of


class Answer(NamedTuple):
    """One call with its answer and the state that a reader gives it."""

    state: str
    tool: str
    arguments: dict[str, Any]
    answer: Any
    """A text, or a value that the service answers as JSON."""

    @property
    def text(self) -> str:
        return self.answer if isinstance(self.answer, str) else json.dumps(self.answer, ensure_ascii=False)


SERVICES = [
    Answer(
        "failure",
        "pharmacy_refill",
        {"rx": "771"},
        {"rx": "771", "refill": {"approved": False, "why": "no refills left"}},
    ),
    Answer(
        "failure", "drone_upload", {"mission": "m1"}, {"mission": "m1", "waypoints_total": 40, "waypoints_uploaded": 31}
    ),
    Answer("failure", "drive_upload", {"files": ["a", "b"]}, {"uploaded": ["a"], "errors": {"b": "quotaExceeded"}}),
    Answer("success", "drive_upload", {"files": ["a", "b"]}, {"uploaded": ["a", "b"], "errors": {}}),
    Answer(
        "failure", "tax_submit", {"year": 2024}, {"transfer_ticket": None, "validation": {"errors": 3, "warnings": 1}}
    ),
    Answer(
        "failure",
        "tax_submit",
        {"year": 2024},
        {"transfer_ticket": "et-1", "processing": "OPEN", "acknowledged": False},
    ),
    Answer("failure", "parking_pay", {"zone": 4}, {"session": None, "error_text": "Plate not registered"}),
    Answer("failure", "wifi_set", {"ssid": "x"}, {"applied": False, "rollback": True}),
    Answer("failure", "playlist_add", {"tracks": 3}, {"added": 2, "not_found": ["Song C"]}),
    Answer(
        "failure",
        "library_renew",
        {"items": ["a", "b"]},
        [{"item": "a", "renewed": True}, {"item": "b", "renewed": False, "reason": "on hold for another patron"}],
    ),
    Answer("not_final", "insurance_claim_file", {"n": 1}, {"claim_no": "C-1", "claim_status": "documents_required"}),
    Answer("failure", "meter_submit", {"v": 1}, {"accepted": False, "plausibility": "value below last reading"}),
    Answer("not_final", "domain_transfer", {"d": "x.org"}, {"domain": "x.org", "status": "pendingTransfer"}),
    Answer(
        "failure",
        "github_dispatch",
        {"wf": "x"},
        {"message": "Resource not accessible by integration", "documentation_url": "https://docs"},
    ),
    Answer(
        "unknown",
        "github_pr_create",
        {"t": "x"},
        {"number": 12, "state": "open", "draft": False, "mergeable": None, "merged": False},
    ),
    Answer("failure", "github_pr_merge", {"n": 12}, {"merged": False, "message": "Required status check is failing"}),
    Answer(
        "failure",
        "github_pr_merge",
        {"n": 12},
        {"merged": False, "auto_merge": "enabled", "state": "blocked_waiting_checks"},
    ),
    Answer(
        "failure",
        "k8s_scale",
        {"r": 5},
        {"deployment": "api", "desired": 5, "ready": 2, "condition": "ProgressDeadlineExceeded"},
    ),
    Answer("unknown", "k8s_scale", {"r": 5}, {"deployment": "api", "desired": 5, "ready": 5}),
    Answer("failure", "mqtt_publish", {"t": "x"}, {"published": False, "rc": 4}),
    Answer("failure", "zigbee_pair", {"dev": "x"}, {"paired": False, "timeout_s": 60}),
    Answer("failure", "sensor_calibrate", {"id": "t1"}, {"sensor": "t1", "calibration": "aborted (unstable reading)"}),
    Answer(
        "failure",
        "video_render",
        {"c": "x"},
        {"render": {"id": 1, "progress": 0.62, "phase": "FAILED", "log": "codec"}},
    ),
    Answer("not_final", "video_render", {"c": "x"}, {"render": {"id": 1, "progress": 0.62, "phase": "ENCODING"}}),
    Answer("failure", "survey_send", {"n": 40}, {"delivered": 36, "hard_bounces": 3, "soft_bounces": 1}),
    Answer("success", "survey_send", {"n": 40}, {"delivered": 40, "hard_bounces": 0, "soft_bounces": 0}),
    Answer(
        "failure",
        "stock_order_place",
        {"t": "X"},
        {"order_id": "9", "status": "REJECTED", "text": "Outside trading hours"},
    ),
    Answer(
        "failure",
        "stock_order_place",
        {"t": "X"},
        {"order_id": "9", "status": "PARTIALLY_FILLED", "filled": 20, "remaining": 80},
    ),
    Answer(
        "unknown", "stock_order_place", {"t": "X"}, {"order_id": "9", "status": "FILLED", "filled": 100, "remaining": 0}
    ),
    Answer("failure", "table_book", {"p": "x"}, {"available": False, "alternatives": ["19:00"]}),
    Answer(
        "failure",
        "shift_assign",
        {"who": ["a", "b"]},
        {"assigned": ["a"], "conflicts": [{"who": "b", "with": "leave"}]},
    ),
    Answer("failure", "email_move", {"ids": [1, 2, 3]}, {"moved": 2, "missing": [3]}),
    Answer("failure", "photo_print", {"n": 2}, "Sorry, we can't process this order right now. Please try again later."),
    Answer("failure", "taxi_book", {"to": "x"}, "No drivers available near you"),
    Answer("not_final", "taxi_book", {"to": "x"}, "Looking for a driver…"),
    Answer("unknown", "taxi_book", {"to": "x"}, "Booked. Driver Omar arrives in 6 min (plate KL 22)."),
    Answer(
        "failure", "message", {"action": "send", "to": "ana"}, "Message not sent: recipient has blocked this number"
    ),
    Answer(
        "not_final",
        "message",
        {"action": "send", "to": "ana"},
        "Message stored; will be delivered when the device is back online",
    ),
    Answer("failure", "sessions_spawn", {"task": "x"}, {"status": "error", "error": "max children reached"}),
    Answer("failure", "browser", {"action": "click", "ref": "e12"}, "Error: element e12 not found or not visible"),
    Answer(
        "failure",
        "browser",
        {"action": "act", "kind": "submit"},
        {"ok": True, "url": "https://x/form", "page_errors": ["Please enter a valid postcode"]},
    ),
    Answer("failure", "pos_refund", {"r": "1"}, {"result": "DECLINED", "host_code": "51"}),
    Answer("failure", "hr_bulk_update", {"n": 3}, "Updated 2 of 3 records (1 failed: E-104 locked)"),
    # travel
    Answer("not_final", "hotel_book", {"hotel": "Alma"}, {"booking": {"ref": "AL-7", "state": "on_request"}}),
    Answer(
        "not_final",
        "train_reserve",
        {"train": "ICE 71"},
        {"pnr": "X7", "seats": [{"coach": 4, "status": "WAITLISTED"}]},
    ),
    Answer("not_final", "flight.book", {"id": "LH12"}, {"order_id": "o1", "ticketing_status": "awaiting_payment"}),
    Answer(
        "success", "flight.book", {"id": "LH12"}, {"order_id": "o1", "ticketing_status": "ticketed", "ticket": "220-11"}
    ),
    Answer("failure", "restaurant_reserve", {"party": 4}, {"reservation": None, "message": "No table for 4 at 20:00"}),
    Answer(
        "failure", "car_rental_extend", {"days": 2}, {"extended": False, "reason": "vehicle booked by next customer"}
    ),
    Answer("not_final", "visa_apply", {"form": "D"}, {"application": "V-1", "phase": "UNDER_REVIEW"}),
    # printing, post, shops
    Answer(
        "failure",
        "printer_submit",
        {"file": "a.pdf"},
        {"job": 8, "printer": "HP-2", "job_state": "jammed", "pages_done": 2},
    ),
    Answer(
        "failure", "print_job", {"file": "a.pdf"}, {"jobId": 8, "state": "aborted", "stateReasons": ["media-empty"]}
    ),
    Answer("not_final", "print_job", {"file": "a.pdf"}, {"jobId": 8, "state": "held"}),
    Answer(
        "unknown", "parcel_create", {"to": "Lyon"}, {"shipment": {"id": "S1", "trackingNumber": None, "labelUrl": None}}
    ),
    Answer(
        "failure",
        "parcel_ship",
        {"n": 3},
        {
            "shipped": 2,
            "rejected": 1,
            "details": [{"id": "a", "ok": True}, {"id": "b", "ok": True}, {"id": "c", "ok": False}],
        },
    ),
    Answer(
        "not_final",
        "shop_order",
        {"sku": "CF"},
        {"order": {"number": "1009", "fulfillment": {"status": "backordered"}}},
    ),
    Answer(
        "failure",
        "shop_order",
        {"sku": "CF"},
        {"order": {"number": "1009", "status": "cancelled", "cancelReason": "payment_declined"}},
    ),
    Answer(
        "failure",
        "refund_create",
        {"charge": "ch_1"},
        {
            "id": "re_1",
            "object": "refund",
            "amount": 400,
            "status": "failed",
            "failure_reason": "expired_or_canceled_card",
        },
    ),
    Answer(
        "not_final",
        "payment_transfer",
        {"amount": 5},
        {"transfer": "t1", "status": "requires_action", "next_action": {"type": "confirm_in_app"}},
    ),
    Answer("success", "payment_transfer", {"amount": 5}, {"transfer": "t1", "status": "settled"}),
    Answer("failure", "coupon_apply", {"code": "X"}, {"applied": False, "discount": 0}),
    # messages
    Answer("failure", "sms_send", {"to": "+49"}, {"sid": "SM1", "status": "undelivered", "errorCode": 30003}),
    Answer("not_final", "sms_send", {"to": "+49"}, {"sid": "SM1", "status": "accepted_for_delivery"}),
    Answer(
        "failure",
        "mail_send",
        {"to": ["a@x.org", "b@x.org"]},
        {"accepted": ["a@x.org"], "rejected": ["b@x.org"], "response": "250 OK"},
    ),
    Answer("failure", "mail_send", {"to": "b@x.org"}, "550 5.1.1 <b@x.org>: Recipient address rejected: User unknown"),
    Answer("success", "mail_send", {"to": "b@x.org"}, "250 2.0.0 OK 1699 id=abc"),
    Answer("failure", "newsletter_send", {"list": "all"}, {"sent": 981, "failed": 14, "bounced": 5}),
    Answer("success", "newsletter_send", {"list": "all"}, {"sent": 981, "failed": 0, "bounced": 0}),
    Answer(
        "failure",
        "broadcast",
        {"channels": ["a", "b"]},
        {"results": {"a": {"ok": True}, "b": {"ok": False, "error": "channel_not_found"}}},
    ),
    Answer("failure", "slack_post", {"text": "hi"}, {"ok": False, "error": "not_in_channel"}),
    Answer("success", "message_schedule", {"at": "9:00"}, {"id": 4, "delivered": False, "state": "scheduled"}),
    Answer("not_final", "fax_send", {"to": "+1"}, {"fax": {"id": 4, "status": "DIALING", "pages_sent": 0}}),
    # home
    Answer("failure", "light_set", {"room": "hall"}, {"entity": "light.hall", "state": "unavailable"}),
    Answer("failure", "door_lock", {"doors": ["front", "back"]}, {"front": "locked", "back": "jammed"}),
    Answer("failure", "lock_all", {}, [{"door": "front", "state": "locked"}, {"door": "garage", "state": "offline"}]),
    Answer("success", "door_lock", {"door": "front"}, {"door": "front", "state": "locked"}),
    Answer(
        "failure",
        "blinds_close",
        {"room": "all"},
        {"devices": [{"name": "west", "result": "ok"}, {"name": "east", "result": "no_response"}]},
    ),
    Answer("not_final", "vacuum_start", {}, {"device": "robo", "command": "start", "ack": "pending"}),
    Answer("failure", "thermostat_set", {"target": 21}, {"accepted": False, "mode": "locked_by_schedule"}),
    # calendar, tickets, people
    Answer("failure", "calendar_create", {"t": "x"}, {"created": False, "conflicts": [{"id": 1, "title": "1:1"}]}),
    Answer("not_final", "calendar_create", {"t": "x"}, {"event": {"id": "e", "status": "tentative"}}),
    Answer("success", "calendar_create", {"t": "x"}, {"event": {"id": "e", "status": "confirmed"}}),
    Answer(
        "failure",
        "ticket_bulk_close",
        {"ids": [1, 2, 3]},
        {"updated": 2, "skipped": 1, "errors": [{"id": 3, "message": "locked"}]},
    ),
    Answer("not_final", "leave_request", {"days": 3}, {"request": 8, "approval": "PENDING_MANAGER"}),
    Answer("failure", "crm_update", {"id": 4}, {"success": False, "errors": [{"statusCode": "DUPLICATE_VALUE"}]}),
    Answer("failure", "crm_import", {"file": "a.csv"}, {"rows_total": 120, "rows_imported": 117, "rows_rejected": 3}),
    Answer(
        "success",
        "crm_import",
        {"file": "a.csv"},
        {"rows_total": 120, "rows_imported": 120, "rows_rejected": 0, "errors": []},
    ),
    Answer("failure", "form_submit", {"id": 4}, {"submitted": False, "validation": {"iban": "invalid checksum"}}),
    Answer(
        "not_final",
        "signature_request",
        {"doc": 4},
        {
            "envelope": "e1",
            "signers": [{"email": "a@x", "status": "completed"}, {"email": "b@x", "status": "awaiting_signature"}],
        },
    ),
    # infrastructure
    Answer("failure", "deploy_service", {"v": 2}, {"deployment": {"id": 7, "conclusion": "failure", "url": "x"}}),
    Answer(
        "not_final", "deploy_service", {"v": 2}, {"deployment": {"id": 7, "status": "in_progress", "conclusion": None}}
    ),
    Answer("failure", "deploy_service", {"v": 2}, {"release": "v2", "outcome": "rolled_back"}),
    Answer(
        "failure",
        "dns_update",
        {"zone": "x"},
        {"result": None, "success": False, "errors": [{"code": 81057, "message": "exists"}], "messages": []},
    ),
    Answer(
        "not_final",
        "cert_issue",
        {"domain": "x"},
        {"order": "pending", "authorizations": [{"identifier": "x", "status": "pending"}]},
    ),
    Answer(
        "failure", "backup_run", {"set": "nas"}, {"task": "nas", "exit": "partial", "files_ok": 900, "files_failed": 12}
    ),
    Answer(
        "failure", "db_migrate", {"to": "12"}, {"applied": ["10", "11"], "failed": ["12"], "error": "duplicate column"}
    ),
    Answer(
        "failure",
        "queue_publish",
        {"n": 2},
        {"Successful": [{"Id": "1"}], "Failed": [{"Id": "2", "Code": "InternalError"}]},
    ),
    Answer("failure", "graph_query", {"q": "x"}, {"data": None, "errors": [{"message": "Unauthorized"}]}),
    Answer("failure", "vm_snapshot", {"vm": "a"}, {"UPID": "x", "exitstatus": "ERROR: no space", "status": "stopped"}),
    Answer("failure", "upload_photos", {"n": 4}, {"uploaded": 3, "total": 4}),
    Answer(
        "failure",
        "transcribe",
        {"f": "a.mp3"},
        {"status": "partially_completed", "segments_ok": 11, "segments_failed": 2},
    ),
    Answer(
        "failure",
        "http_post",
        {"url": "https://x"},
        'HTTP/1.1 422 Unprocessable Entity\ncontent-type: application/json\n\n{"detail":"bad"}',
    ),
    Answer("success", "http_post", {"url": "https://x"}, "HTTP/2 201 Created\nlocation: /items/4\n\n"),
    Answer("failure", "webhook_post", {"url": "https://x"}, {"statusCode": 503, "body": ""}),
    Answer("not_final", "webhook_post", {"url": "https://x"}, {"status_code": 202, "body": ""}),
    Answer("unknown", "note_create", {"t": "x"}, {"id": "n_12", "created_at": "2025-01-01"}),
    Answer("success", "deal_update", {"id": 4, "stage": "lost"}, {"id": 4, "status": "lost"}),
    Answer("failure", "ha_call", {"service": "lock.lock"}, [{"entity_id": "lock.back", "state": "unlocked"}]),
    Answer(
        "failure",
        "invite_bulk",
        {"csv": "a"},
        {"results": [{"to": "a@x", "s": "sent"}, {"to": "b@x", "s": "rate_limited"}]},
    ),
    Answer("failure", "mail_send", {"to": "a"}, {"id": None, "smtp": "554 5.7.1 Message rejected as spam"}),
    Answer("success", "order_cancel", {"id": 4}, {"id": 4, "state": "cancelled"}),
    Answer("success", "task_add", {"t": "call"}, {"task": {"id": 1, "completed": False, "status": "open"}, "ok": True}),
    Answer("unknown", "invoice_create", {"n": 1}, {"invoice": {"id": 7, "paid": False, "due": "2025-01-01"}}),
    Answer(
        "failure",
        "nodes",
        {"action": "run"},
        {"payload": {"exitCode": 1, "stdout": "", "stderr": "boom", "success": False}},
    ),
    Answer("failure", "buchung_anlegen", {"raum": "3"}, {"erfolg": False, "meldung": "Raum belegt"}),
    Answer("failure", "reserva_crear", {"sala": 3}, {"estado": "rechazada", "motivo": "sin cupo"}),
    Answer("not_final", "commande_creer", {"ref": 3}, {"commande": "C1", "statut": "en attente"}),
    Answer("not_final", "auftrag_anlegen", {"n": 1}, {"auftrag": 1, "status": "in Bearbeitung"}),
    Answer("success", "return_order_items", {"id": 4}, {"id": 4, "status": "return requested"}),
    Answer("unknown", "user_modify", {"id": 4}, {"id": 4, "address": {"line1": "565 Maple Drive", "state": "DC"}}),
    Answer("success", "modify_pending_order", {"id": 4}, {"id": 4, "status": "pending (item modified)"}),
    Answer("not_final", "process_refund", {"id": 4}, {"id": 4, "status": "processing"}),
    Answer("failure", "order_pay", {"id": 4}, {"id": 4, "status": "ORDER_FAILED"}),
]
CONTENT = [
    Answer(
        "success", "booking_cancel", {"id": "Q-7"}, {"id": "Q-7", "state": "cancelled", "refund_state": "processing"}
    ),
    Answer(
        "not_final", "campo_prenota", {"campo": "tennis"}, {"prenotazione": "P-3", "stato": "in attesa di conferma"}
    ),
    Answer("unknown", "weather_report", {"c": "x"}, {"station": "x", "status": "offline", "last": "12 C"}),
    Answer("unknown", "crm_contacts", {"q": "x"}, {"contacts": [{"name": "A", "lead_status": "rejected"}]}),
    Answer(
        "unknown",
        "inbox",
        {"limit": 2},
        {"messages": [{"from": "bank", "subject": "Payment declined", "state": "unread"}]},
    ),
    Answer(
        "unknown",
        "sprint_board",
        {"id": 3},
        {"cards": [{"t": "x", "status": "blocked"}, {"t": "y", "status": "in_review"}]},
    ),
    Answer(
        "unknown",
        "mail_search",
        {"q": "order"},
        {"messages": [{"id": 1, "subject": "Payment failed", "snippet": "your card was declined"}]},
    ),
    Answer(
        "unknown",
        "ticket_list",
        {"q": "open"},
        {"tickets": [{"id": 1, "status": "open"}, {"id": 2, "status": "failed_qa"}]},
    ),
    Answer(
        "unknown",
        "orders_search",
        {"customer": 3},
        {"orders": [{"id": 1, "status": "cancelled"}, {"id": 2, "status": "pending"}]},
    ),
    Answer("unknown", "read", {"path": "deploy.log"}, "12:00 ERROR deploy failed\n12:01 retry ok\n"),
    Answer("unknown", "web_fetch", {"url": "https://x"}, "How to fix: error: failed to push some refs"),
    Answer("unknown", "get_weather", {"city": "Rome"}, {"condition": "clear", "alerts": [], "wind": None}),
    Answer("unknown", "device_status", {"id": "lock"}, {"name": "front", "state": "unlocked", "battery": 40}),
    Answer("unknown", "contact_get", {"id": 3}, {"name": "Ana", "phone": None, "verified": False}),
    Answer(
        "unknown",
        "memory_search",
        {"query": "x"},
        {"results": [{"path": "m.md", "snippet": "the import failed twice"}]},
    ),
]
COMMANDS = [
    Answer(
        "failure", "exec", {"command": "python sync.py"}, "synced 118/120 contacts\n2 conflicts left in conflicts.json"
    ),
    Answer(
        "failure",
        "exec",
        {"command": "./backup.sh"},
        "[1/3] dump ok\n[2/3] upload... curl: (28) Operation timed out\n[3/3] cleanup\nfinished",
    ),
    Answer(
        "failure",
        "exec",
        {"command": "for h in a b c; do ssh $h uptime; done"},
        "a: 10:00 up 3 days\nssh: connect to host b port 22: No route to host\nc: 10:00 up 1 day",
    ),
    Answer(
        "failure",
        "exec",
        {"command": "msbuild app.sln | tail -3"},
        "    2 Warning(s)\n    1 Error(s)\n\nTime Elapsed 00:00:03.1",
    ),
    Answer(
        "failure",
        "exec",
        {"command": "nix build 2>&1 | tail -2"},
        "error: builder for '/nix/store/x.drv' failed with exit code 1",
    ),
    Answer(
        "failure",
        "exec",
        {"command": "flyway migrate | tail -2"},
        'ERROR: Migration of schema "public" to version "7 - x" failed! Changes successfully rolled back.',
    ),
    Answer(
        "failure",
        "exec",
        {"command": "vercel deploy --prod 2>&1 | tail -2"},
        'Error: Command "npm run build" exited with 1',
    ),
    Answer(
        "failure",
        "exec",
        {"command": "fastlane beta | tail -3"},
        "[!] Error uploading ipa file: invalid provisioning profile\nfastlane finished with errors",
    ),
    Answer(
        "failure",
        "exec",
        {"command": "robocopy a b /E | tail -6"},
        "               Total    Copied   Skipped  Mismatch    FAILED    Extras\n    Dirs :        10        10         0         0         0         0\n   Files :       120       118         0         0         2         0",
    ),
    Answer(
        "failure",
        "exec",
        {"command": "nmcli con up office; true"},
        "Error: Connection activation failed: Secrets were required, but not provided.",
    ),
    Answer(
        "failure",
        "exec",
        {"command": "gpg --verify a.sig a.tar; echo checked"},
        'gpg: BAD signature from "X <x@y>" [unknown]\nchecked',
    ),
    Answer(
        "failure",
        "exec",
        {"command": "sha256sum -c SUMS | tail -2"},
        "b.iso: FAILED\nsha256sum: WARNING: 1 computed checksum did NOT match",
    ),
    Answer("unknown", "exec", {"command": "sha256sum -c SUMS | tail -2"}, "a.iso: OK\nb.iso: OK"),
    Answer(
        "failure", "exec", {"command": "brew install foo | tail -1"}, 'Error: No available formula with the name "foo".'
    ),
    Answer(
        "failure",
        "exec",
        {"command": "crontab new.cron; crontab -l | head -1"},
        '"new.cron":3: bad minute\nerrors in crontab file, can\'t install.',
    ),
    Answer(
        "failure",
        "exec",
        {"command": "osascript send.scpt; true"},
        'send.scpt:12:34: execution error: Mail got an error: Cannot get account "Work". (-1728)',
    ),
    Answer(
        "failure",
        "exec",
        {"command": "adb install app.apk | tail -1"},
        "adb: failed to install app.apk: Failure [INSTALL_FAILED_INSUFFICIENT_STORAGE]",
    ),
    Answer(
        "failure",
        "exec",
        {"command": "wp plugin update --all | tail -3"},
        "+--------+---------+\n| forms  | Error   |\nError: Only updated 4 of 5 plugins.",
    ),
    Answer(
        "failure",
        "exec",
        {"command": "dig +short new.example.org A; ./switch-dns.sh"},
        "10.0.0.4\nRecord update rejected: zone is locked",
    ),
    Answer(
        "failure",
        "exec",
        {"command": "ansible-playbook site.yml | tail -4"},
        "PLAY RECAP *****\nweb1 : ok=4 changed=1 unreachable=0 failed=0\nweb2 : ok=0 changed=0 unreachable=1 failed=0",
    ),
    Answer(
        "success",
        "exec",
        {"command": "ansible-playbook site.yml | tail -4"},
        "PLAY RECAP *****\nweb1 : ok=4 changed=1 unreachable=0 failed=0 skipped=0",
    ),
    Answer(
        "failure",
        "exec",
        {"command": "rsync -av a/ host:b/ 2>&1 | tail -3"},
        "sent 12 bytes\nrsync error: some files/attrs were not transferred (code 23) at main.c(1338)",
    ),
    Answer(
        "failure",
        "exec",
        {"command": "terraform apply -auto-approve | tail -5"},
        "╷\n│ Error: creating EC2 Instance: InsufficientInstanceCapacity\n│ \n╵",
    ),
    Answer(
        "success",
        "exec",
        {"command": "terraform apply -auto-approve | tail -5"},
        "Apply complete! Resources: 2 added, 0 changed, 0 destroyed.",
    ),
    Answer(
        "failure",
        "exec",
        {"command": "kubectl rollout status deploy/api --timeout=60s || true"},
        "Waiting: 1 of 3 updated replicas are available...\nerror: timed out waiting for the condition",
    ),
    Answer(
        "failure",
        "exec",
        {"command": "helm upgrade api ./chart 2>&1 | tail -2"},
        "Error: UPGRADE FAILED: timed out waiting for the condition",
    ),
    Answer(
        "failure",
        "exec",
        {"command": "docker push reg/app:1 | tail -2"},
        "denied: requested access to the resource is denied",
    ),
    Answer(
        "failure",
        "exec",
        {"command": "docker compose up -d; true"},
        "Error response from daemon: Bind for 0.0.0.0:80 failed: port is already allocated",
    ),
    Answer("failure", "exec", {"command": "apt-get install -y foo | tail -2"}, "E: Unable to locate package foo"),
    Answer(
        "failure",
        "exec",
        {"command": "pip install foo==9 2>&1 | tail -2"},
        "ERROR: No matching distribution found for foo==9",
    ),
    Answer("success", "exec", {"command": "pip install foo | tail -1"}, "Successfully installed foo-1.0"),
    Answer(
        "failure",
        "exec",
        {"command": "npm ci | tail -3"},
        "npm error code ERESOLVE\nnpm error ERESOLVE could not resolve",
    ),
    Answer(
        "failure",
        "exec",
        {"command": "cargo build 2>&1 | tail -3"},
        'error[E0308]: mismatched types\nerror: could not compile `app` (bin "app") due to 1 previous error',
    ),
    Answer(
        "failure",
        "exec",
        {"command": "mvn -q package | tail -4"},
        "[ERROR] Failed to execute goal org.apache.maven:compile\n[INFO] BUILD FAILURE",
    ),
    Answer(
        "failure",
        "exec",
        {"command": "./gradlew build | tail -3"},
        "FAILURE: Build failed with an exception.\n\nBUILD FAILED in 4s",
    ),
    Answer(
        "failure",
        "exec",
        {"command": "psql -f a.sql"},
        'BEGIN\npsql:a.sql:3: ERROR:  relation "x" does not exist\nROLLBACK',
    ),
    Answer("failure", "exec", {"command": 'psql -c "update t set a=1 where id=9"'}, "UPDATE 0"),
    Answer(
        "failure",
        "exec",
        {"command": "mysql -e 'insert into t values (1)' db; echo done"},
        "ERROR 1062 (23000) at line 1: Duplicate entry '1' for key 'PRIMARY'\ndone",
    ),
    Answer(
        "failure",
        "exec",
        {"command": "mongosh --eval 'db.u.updateOne({_id:9},{$set:{a:1}})'"},
        "{ acknowledged: true, insertedId: null, matchedCount: 0, modifiedCount: 0, upsertedCount: 0 }",
    ),
    Answer(
        "failure",
        "exec",
        {"command": "aws s3 cp a s3://b/ || true"},
        "upload failed: ./a to s3://b/a An error occurred (AccessDenied) when calling the PutObject operation",
    ),
    Answer(
        "failure",
        "exec",
        {"command": "gcloud run deploy api 2>&1 | tail -1"},
        "ERROR: (gcloud.run.deploy) PERMISSION_DENIED: Permission 'run.services.create' denied",
    ),
    Answer(
        "failure",
        "exec",
        {"command": "az webapp up 2>&1 | tail -1"},
        "ERROR: (AuthorizationFailed) The client does not have authorization to perform action",
    ),
    Answer(
        "failure",
        "exec",
        {"command": "git push origin main 2>&1 | tail -3"},
        " ! [rejected]        main -> main (non-fast-forward)\nerror: failed to push some refs to 'x'",
    ),
    Answer(
        "failure",
        "exec",
        {"command": "git commit -am x; true"},
        "On branch main\nnothing to commit, working tree clean",
    ),
    Answer(
        "failure", "exec", {"command": "ssh web2 uptime; true"}, "ssh: connect to host web2 port 22: Connection refused"
    ),
    Answer(
        "failure",
        "exec",
        {"command": "systemctl restart nginx; systemctl status nginx | head -3"},
        "● nginx.service - nginx\n     Loaded: loaded\n     Active: failed (Result: exit-code) since Mon",
    ),
    Answer("failure", "exec", {"command": "make all | tail -2"}, "make: *** [Makefile:12: all] Error 2"),
    Answer(
        "failure",
        "exec",
        {"command": "dotnet test | tail -2"},
        "Failed!  - Failed:     2, Passed:    40, Skipped:     0, Total:    42, Duration: 3 s - A.dll (net8.0)",
    ),
    Answer(
        "failure",
        "exec",
        {"command": "swift test 2>&1 | tail -2"},
        "Executed 12 tests, with 1 failure (0 unexpected) in 0.2 (0.2) seconds",
    ),
    Answer(
        "failure",
        "exec",
        {"command": "vendor/bin/phpunit | tail -3"},
        "FAILURES!\nTests: 8, Assertions: 20, Failures: 1.",
    ),
    Answer(
        "failure",
        "exec",
        {"command": "ctest | tail -3"},
        "67% tests passed, 1 tests failed out of 3\n\nThe following tests FAILED:",
    ),
    Answer("success", "exec", {"command": "ctest | tail -3"}, "100% tests passed, 0 tests failed out of 3"),
    Answer(
        "not_final",
        "exec",
        {"command": "rsync -avn a/ b/"},
        "sending incremental file list\na.txt\n\nsent 12 bytes (DRY RUN)",
    ),
    Answer(
        "not_final",
        "exec",
        {"command": "kubectl apply -f a.yaml --dry-run=server"},
        "deployment.apps/api configured (server dry run)",
    ),
    Answer("not_final", "exec", {"command": "certbot renew --dry-run"}, "The dry run was successful."),
    Answer("failure", "exec", {"command": "curl -s -o /dev/null -w '%{http_code}' -X POST https://x/api"}, "500"),
    Answer(
        "failure",
        "exec",
        {"command": "python migrate.py"},
        'loading...\nTraceback (most recent call last):\n  File "migrate.py", line 3\nValueError: bad',
    ),
    Answer(
        "failure", "exec", {"command": "./deploy.sh staging"}, "building\nuploading\nERROR: upload failed, aborting"
    ),
    Answer("failure", "exec", {"command": "node import.js"}, "Imported 88 of 90 rows, 2 failed"),
    Answer("success", "exec", {"command": "node import.js"}, "Imported 90 of 90 rows, 0 failed"),
    Answer("failure", "exec", {"command": "ffmpeg -i a.mov b.mp4 2>&1 | tail -2"}, "a.mov: No such file or directory"),
    Answer("failure", "exec", {"command": "borg create ::x /home | tail -2"}, "terminating with error status, rc 2"),
    Answer(
        "failure",
        "exec",
        {"command": "restic backup /home; true"},
        "Fatal: unable to open repository: wrong password or no key found",
    ),
    Answer(
        "failure", "exec", {"command": "lp -d hp a.pdf || true"}, "lp: Error - The printer or class does not exist."
    ),
    Answer("unknown", "exec", {"command": "cat app.log"}, "ERROR: upload failed, aborting"),
    Answer("unknown", "exec", {"command": "journalctl -u api | tail -3"}, "api[1]: error: connection refused"),
    Answer("unknown", "exec", {"command": "grep -rn 'ERROR' src"}, "src/a.py:1: print('ERROR: upload failed')"),
]


@pytest.mark.parametrize("case", [*SERVICES, *CONTENT, *COMMANDS], ids=lambda case: f"{case.tool}-{case.text[:40]}")
def test_answers_of_services_and_tools_that_are_not_listed_have_a_meaning(case: Answer) -> None:
    meaning = meaning_of(
        tool=case.tool,
        arguments=json.dumps(case.arguments, separators=(",", ":")),
        text=case.text,
        exit_code=None,
        reported_failure=False,
    )
    assert meaning.state == case.state, meaning
    assert meaning.quote in case.text

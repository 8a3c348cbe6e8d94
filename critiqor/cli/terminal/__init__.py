"""Drawing on a terminal: functions that turn structs into rich renderables.

Import modules that use rich only when something is drawn, because it is slow to load; `capabilities` and
`ascii_fallback` do without it. Text of an agent or a file must go through `styled_text.untrusted`.
"""

"""Drawing on a terminal: functions that turn structs into rich renderables.

Import these modules only when something is drawn, because rich is slow to load. Text of an agent or a file must go
through `critiqor.cli.terminal.screen.untrusted`.
"""

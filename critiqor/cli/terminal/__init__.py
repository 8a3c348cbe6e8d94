"""What verbs draw where standard output is a terminal: pure functions, from structs to what rich can print.

Nothing here is imported before something is drawn, because rich takes its time to load. Whatever an agent or a file
said goes through `critiqor.cli.terminal.screen.theirs`.
"""

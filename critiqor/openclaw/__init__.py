"""How to find an OpenClaw, read what its user has configured, and attach the recorder without touching either.

installation    which OpenClaw is there, its version, and whether its Node is good enough
configuration   where the user's configuration is and what it says about plugins
overlay         the generated configuration that adds the recorder plugin for one run
attachment      the settings that keep the recorder plugin in an OpenClaw that runs by itself
saved_file      what a configuration file was before, and putting it back
settings        finding, joining and patching settings
commands        OpenClaw's own commands for plugins and settings
command_line    what an OpenClaw command line asks for
diagnostics     the variables that make it write its timeline, and Node its profiles
json5           the reader for OpenClaw's configuration format
"""

from __future__ import annotations

from critiqor.openclaw.attachment import Attachment, AttachmentFolder, AttachmentPlan
from critiqor.openclaw.command_line import (
    command_words,
    container_of,
    is_detached_exec,
    profile_of,
    writes_configuration,
)
from critiqor.openclaw.commands import OpenClawCommands
from critiqor.openclaw.configuration import (
    ConfigurationFile,
    PluginPolicy,
    locate_configuration,
    read_plugin_policy,
)
from critiqor.openclaw.diagnostics import Diagnostics, profiling_environment, timeline_diagnostics
from critiqor.openclaw.installation import (
    Installation,
    find_openclaw,
    ignores_bundled_plugins_dir,
    node_satisfies,
)
from critiqor.openclaw.json5 import Json5Error, parse_json5
from critiqor.openclaw.overlay import PLUGIN_ID, Obstacle, Overlay, plugin_folder, why_blocked, write_overlay

__all__ = [
    "PLUGIN_ID",
    "Attachment",
    "AttachmentFolder",
    "AttachmentPlan",
    "ConfigurationFile",
    "Diagnostics",
    "Installation",
    "Json5Error",
    "Obstacle",
    "OpenClawCommands",
    "Overlay",
    "PluginPolicy",
    "command_words",
    "container_of",
    "find_openclaw",
    "ignores_bundled_plugins_dir",
    "is_detached_exec",
    "locate_configuration",
    "node_satisfies",
    "parse_json5",
    "plugin_folder",
    "profile_of",
    "profiling_environment",
    "read_plugin_policy",
    "timeline_diagnostics",
    "why_blocked",
    "write_overlay",
    "writes_configuration",
]

"""Find OpenClaw, read its configuration, and configure it to load the recorder plugin.

installation     find OpenClaw, its version, and the Node version it needs
configuration    find the user's configuration and read it with its includes
paths            the home folder and absolute paths, by OpenClaw's rules
recorder_plugin  the folder and settings of the recorder plugin, and what prevents OpenClaw from loading it
overlay          generate the configuration that adds the recorder plugin for one run
attachment       the settings that keep the recorder plugin in an OpenClaw that Critiqor did not launch
saved_file       identify and restore the original of a changed configuration file
settings_lock    a lock between recordings and changes of OpenClaw's settings
config_patch     patches of settings
command_runner   run OpenClaw's own commands for plugins and settings
gateway_calls    abort an agent run of a running gateway
command_line     parse an OpenClaw command line
environment      environment variables for OpenClaw's timeline and Node's profiles
json5            read JSON5, the format of OpenClaw's configuration
"""

from __future__ import annotations

from critiqor.openclaw.attachment import Attachment, AttachmentFolder, AttachmentPlan
from critiqor.openclaw.command_line import (
    command_words,
    container_of,
    is_detached_exec,
    profile_of,
    runs_gateway,
    writes_configuration,
)
from critiqor.openclaw.command_runner import OpenClawCommands
from critiqor.openclaw.configuration import ConfigurationFile, locate_configuration
from critiqor.openclaw.environment import Diagnostics, profiling_environment, timeline_diagnostics
from critiqor.openclaw.gateway_calls import GatewayCalls, client_environment
from critiqor.openclaw.installation import (
    Installation,
    find_openclaw,
    ignores_bundled_plugins_dir,
    node_satisfies,
)
from critiqor.openclaw.json5 import Json5Error, parse_json5
from critiqor.openclaw.overlay import Overlay, write_overlay
from critiqor.openclaw.recorder_plugin import (
    PLUGIN_ID,
    Obstacle,
    PluginPolicy,
    plugin_digest,
    plugin_folder,
    read_plugin_policy,
    why_blocked,
)
from critiqor.openclaw.settings_lock import SettingsLock

__all__ = [
    "PLUGIN_ID",
    "Attachment",
    "AttachmentFolder",
    "AttachmentPlan",
    "ConfigurationFile",
    "Diagnostics",
    "GatewayCalls",
    "Installation",
    "Json5Error",
    "Obstacle",
    "OpenClawCommands",
    "Overlay",
    "PluginPolicy",
    "SettingsLock",
    "client_environment",
    "command_words",
    "container_of",
    "find_openclaw",
    "ignores_bundled_plugins_dir",
    "is_detached_exec",
    "locate_configuration",
    "node_satisfies",
    "parse_json5",
    "plugin_digest",
    "plugin_folder",
    "profile_of",
    "profiling_environment",
    "read_plugin_policy",
    "runs_gateway",
    "timeline_diagnostics",
    "why_blocked",
    "write_overlay",
    "writes_configuration",
]

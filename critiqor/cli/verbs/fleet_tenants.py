"""`critiqor fleet tenants`."""

from __future__ import annotations

import click

from critiqor.cli.options import index_option, json_option
from critiqor.cli.output import answer
from critiqor.errors import UsageError


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def tenants() -> None:
    """Manage which role of a PostgreSQL index may read and write the runs of which tenant.

    \b
    critiqor fleet tenants add team-a --role critiqor_team_a --index postgresql://owner@db/critiqor

    It is done by the role that owns the database. The roles of tenants own nothing, and the database shows and takes
    only the rows of their tenant, whatever they ask for.
    """


@tenants.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("tenant")
@click.option("--role", required=True, help="Role of the tenant's hosts; it is made if there is none.")
@index_option
@json_option
def add(tenant: str, role: str, index_url: str | None, as_json: bool) -> None:
    """Make a role for TENANT, and the tables of the index if there are none.

    A new role gets a password, which is printed once, with the line for the settings of the tenant's hosts.
    """
    from critiqor.fleet.index.postgres.tenants import add_tenant

    made = add_tenant(_owner_url(index_url), tenant, role)
    text = f"The role {role} may read and add the runs of tenant {tenant}."
    if made.url is not None:
        text += f'\nIn the table [fleet] of the settings of its hosts; it is shown only now:\n\nindex = "{made.url}"'
    answer("fleet tenants add", made, text, as_json=as_json)


@tenants.command("list", context_settings={"help_option_names": ["-h", "--help"]})
@index_option
@json_option
def list_roles(index_url: str | None, as_json: bool) -> None:
    """List the tenants and their roles."""
    from critiqor.cli.text_layout import page, table
    from critiqor.fleet.index.postgres.tenants import list_tenants

    found = list_tenants(_owner_url(index_url))
    rows = [["tenant", "role"], *([each.tenant, each.role] for each in found)]
    text = page(table(rows)) if found else "No tenant has a role.\nNext: critiqor fleet tenants add NAME --role ROLE"
    answer("fleet tenants list", found, text, as_json=as_json)


@tenants.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--role", required=True, help="Role of a tenant.")
@index_option
@json_option
def remove(role: str, index_url: str | None, as_json: bool) -> None:
    """Take all rights in the index from a role. The rows of its tenant stay."""
    from critiqor.fleet.index.postgres.tenants import remove_role

    if not remove_role(_owner_url(index_url), role):
        raise UsageError(f"the role {role} belongs to no tenant", fix="critiqor fleet tenants list")
    answer("fleet tenants remove", {"role": role}, f"The role {role} may not use the index any more.", as_json=as_json)


def _owner_url(index_url: str | None) -> str:
    """Return the address of a PostgreSQL index. Raise `UsageError` if it is a SQLite file, which has no roles."""
    from critiqor.fleet.index.opening import is_postgres
    from critiqor.fleet.settings import read_fleet

    url = index_url or read_fleet().index
    if url is None or not is_postgres(url):
        message = "tenants have roles in PostgreSQL only; a SQLite index belongs to whoever can read its file"
        raise UsageError(message, fix="name the database with --index postgresql://OWNER@HOST/DATABASE")
    return url

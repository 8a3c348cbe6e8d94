"""The index in PostgreSQL: connections, migrations and the roles of tenants. It needs the extra `fleet`."""

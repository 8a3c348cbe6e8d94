"""The tables of the index, as migrations that are applied once and in order.

A migration that was published is never changed: another one follows it.

    sealed_runs    which row of each sealed run is the current one: that of its newest rule set
    runs           a row for each sealed run and rule set
    sessions, findings, claims, costs, tags, texts    rows of a row of `runs`
    migrations     which of them were applied

Row-level security in PostgreSQL: a role sees and writes the rows of one tenant, which the table `tenant_roles` names.
Only the owner of the schema can write to that table, and the policies hold for the owner too (`FORCE`). They compare
with `current_user`, which a role cannot change to one that it is not a member of.

`texts` is searched through its policy. PostgreSQL evaluates a condition of a query before the policy of a table only if
its operator is marked as leakproof, and `@@` is not: a search would read every text of the tenant. The policy contains
the search itself, and takes the words from the setting `critiqor.words`. Any role can set it, but it only hides rows.
"""

from __future__ import annotations

SCHEMA = "critiqor"
"""The schema of the tables in PostgreSQL."""

SQLITE_MIGRATIONS = (
    """
    CREATE TABLE sealed_runs (
        tenant TEXT NOT NULL, key TEXT NOT NULL, rule_order TEXT NOT NULL, current TEXT NOT NULL,
        PRIMARY KEY (tenant, key)
    ) WITHOUT ROWID;
    CREATE TABLE runs (
        id TEXT NOT NULL, tenant TEXT NOT NULL, host TEXT NOT NULL, run TEXT NOT NULL, seal TEXT NOT NULL,
        rule_set TEXT NOT NULL, rule_order TEXT NOT NULL, is_current INTEGER NOT NULL, agent TEXT NOT NULL,
        framework TEXT NOT NULL, visibility TEXT NOT NULL, benchmark TEXT NOT NULL, difficulty TEXT NOT NULL,
        created_at TEXT NOT NULL, created_ms INTEGER NOT NULL, day TEXT NOT NULL, sealed_at TEXT NOT NULL,
        events INTEGER NOT NULL, critiqor_version TEXT NOT NULL, openclaw_version TEXT, content TEXT NOT NULL,
        bundle_size INTEGER NOT NULL, trust INTEGER, confidence INTEGER NOT NULL, verdict TEXT NOT NULL,
        outcome TEXT NOT NULL, task TEXT NOT NULL, headline TEXT NOT NULL, sessions TEXT,
        sessions_total INTEGER NOT NULL, primary_type TEXT, findings INTEGER NOT NULL, cost_usd REAL,
        cost_is_partial INTEGER NOT NULL, cost_is_estimated INTEGER NOT NULL, list_prices_date TEXT,
        cost_calls INTEGER NOT NULL, tokens INTEGER NOT NULL, tokens_are_known INTEGER NOT NULL,
        model_calls INTEGER NOT NULL, tool_calls INTEGER NOT NULL, wall_ms INTEGER, is_profiled INTEGER NOT NULL,
        PRIMARY KEY (tenant, id),
        UNIQUE (tenant, host, run, seal, rule_set)
    );
    CREATE INDEX runs_by_time ON runs (created_ms DESC, id) WHERE is_current;
    CREATE INDEX runs_by_agent ON runs (agent, created_ms DESC) WHERE is_current;
    CREATE INDEX runs_by_host ON runs (host, created_ms DESC) WHERE is_current;
    CREATE TABLE sessions (
        tenant TEXT NOT NULL, run_id TEXT NOT NULL, place INTEGER NOT NULL, session_key TEXT, trust INTEGER,
        verdict TEXT NOT NULL, task TEXT NOT NULL, cost_usd REAL, cost_is_partial INTEGER NOT NULL,
        cost_is_estimated INTEGER NOT NULL, agent_runs INTEGER NOT NULL, findings INTEGER NOT NULL,
        PRIMARY KEY (tenant, run_id, place)
    ) WITHOUT ROWID;
    CREATE TABLE findings (
        tenant TEXT NOT NULL, run_id TEXT NOT NULL, place INTEGER NOT NULL, created_ms INTEGER NOT NULL,
        finding_id TEXT NOT NULL, type TEXT NOT NULL, cause TEXT NOT NULL, severity TEXT NOT NULL,
        confidence INTEGER NOT NULL, title TEXT NOT NULL, session_key TEXT, occurrences INTEGER NOT NULL,
        trust_points INTEGER NOT NULL, wasted_usd REAL, extension TEXT,
        PRIMARY KEY (tenant, run_id, place)
    ) WITHOUT ROWID;
    CREATE INDEX findings_by_type ON findings (type, created_ms, run_id);
    CREATE TABLE claims (
        tenant TEXT NOT NULL, run_id TEXT NOT NULL, place INTEGER NOT NULL, claim_id TEXT NOT NULL,
        event_id TEXT NOT NULL, session_key TEXT, kind TEXT NOT NULL, status TEXT NOT NULL, text TEXT NOT NULL,
        reason TEXT NOT NULL,
        PRIMARY KEY (tenant, run_id, place)
    ) WITHOUT ROWID;
    CREATE TABLE costs (
        tenant TEXT NOT NULL, run_id TEXT NOT NULL, place INTEGER NOT NULL, day TEXT NOT NULL, provider TEXT,
        model TEXT, model_calls INTEGER NOT NULL, input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL,
        cache_read_tokens INTEGER NOT NULL, cache_write_tokens INTEGER NOT NULL, cost_usd REAL,
        cost_is_estimated INTEGER NOT NULL, is_current INTEGER NOT NULL,
        PRIMARY KEY (tenant, run_id, place)
    ) WITHOUT ROWID;
    CREATE INDEX costs_by_day ON costs (day) WHERE is_current;
    CREATE TABLE tags (
        tenant TEXT NOT NULL, run_id TEXT NOT NULL, place INTEGER NOT NULL, tag TEXT NOT NULL,
        PRIMARY KEY (tenant, run_id, place)
    ) WITHOUT ROWID;
    CREATE TABLE texts (
        number INTEGER PRIMARY KEY,
        tenant TEXT NOT NULL, run_id TEXT NOT NULL, place INTEGER NOT NULL, created_ms INTEGER NOT NULL,
        kind TEXT NOT NULL, source TEXT NOT NULL, session_key TEXT, text TEXT NOT NULL,
        UNIQUE (tenant, run_id, place)
    );
    CREATE VIRTUAL TABLE words USING fts5 (
        text, content='', columnsize=0, tokenize="unicode61 remove_diacritics 0 tokenchars '_'"
    );
    """,
)
"""The statements of each migration of a SQLite file."""

_TENANT = f"(SELECT own.tenant FROM {SCHEMA}.tenant_roles own WHERE own.role = current_user)"
_TENANT_TABLES = ("sealed_runs", "runs", "sessions", "findings", "claims", "costs", "tags")
_NEVER = "'!''-'''::tsquery"
"""A search that every text matches: words consist of letters, digits and underscores."""
_WORDS = f"coalesce(nullif(current_setting('critiqor.words', true), '')::tsquery, {_NEVER})"


def _policies() -> str:
    return "\n".join(
        f"""
        ALTER TABLE {SCHEMA}.{table} ENABLE ROW LEVEL SECURITY;
        ALTER TABLE {SCHEMA}.{table} FORCE ROW LEVEL SECURITY;
        CREATE POLICY of_tenant ON {SCHEMA}.{table} USING (tenant = {_TENANT}) WITH CHECK (tenant = {_TENANT});
        """
        for table in _TENANT_TABLES
    )


POSTGRES_MIGRATIONS = (
    f"""
    CREATE TABLE {SCHEMA}.tenant_roles (role name PRIMARY KEY, tenant text COLLATE "C" NOT NULL);
    CREATE TABLE {SCHEMA}.sealed_runs (
        tenant text COLLATE "C" NOT NULL, key uuid NOT NULL, rule_order text COLLATE "C" NOT NULL,
        current uuid NOT NULL,
        PRIMARY KEY (tenant, key)
    );
    CREATE TABLE {SCHEMA}.runs (
        id uuid NOT NULL, tenant text COLLATE "C" NOT NULL, host text COLLATE "C" NOT NULL,
        run text COLLATE "C" NOT NULL, seal text COLLATE "C" NOT NULL, rule_set text COLLATE "C" NOT NULL,
        rule_order text COLLATE "C" NOT NULL, is_current boolean NOT NULL, agent text COLLATE "C" NOT NULL,
        framework text NOT NULL, visibility text NOT NULL, benchmark text COLLATE "C" NOT NULL,
        difficulty text COLLATE "C" NOT NULL, created_at text NOT NULL, created_ms bigint NOT NULL,
        day text COLLATE "C" NOT NULL, sealed_at text NOT NULL, events bigint NOT NULL,
        critiqor_version text COLLATE "C" NOT NULL, openclaw_version text COLLATE "C", content text NOT NULL,
        bundle_size bigint NOT NULL, trust integer, confidence integer NOT NULL, verdict text COLLATE "C" NOT NULL,
        outcome text NOT NULL, task text NOT NULL, headline text NOT NULL, sessions text,
        sessions_total integer NOT NULL, primary_type text, findings integer NOT NULL, cost_usd double precision,
        cost_is_partial boolean NOT NULL, cost_is_estimated boolean NOT NULL, list_prices_date text,
        cost_calls bigint NOT NULL, tokens bigint NOT NULL, tokens_are_known boolean NOT NULL,
        model_calls bigint NOT NULL, tool_calls bigint NOT NULL, wall_ms bigint, is_profiled boolean NOT NULL,
        PRIMARY KEY (tenant, id),
        UNIQUE (tenant, host, run, seal, rule_set)
    );
    CREATE INDEX runs_by_time ON {SCHEMA}.runs (tenant, created_ms DESC, id) WHERE is_current;
    CREATE INDEX runs_by_agent ON {SCHEMA}.runs (tenant, agent, created_ms DESC) WHERE is_current;
    CREATE INDEX runs_by_host ON {SCHEMA}.runs (tenant, host, created_ms DESC) WHERE is_current;
    CREATE INDEX runs_by_trust ON {SCHEMA}.runs (tenant, trust, created_ms DESC, id) WHERE is_current;
    CREATE INDEX runs_by_cost ON {SCHEMA}.runs (tenant, cost_usd DESC NULLS LAST, created_ms DESC, id) WHERE is_current;
    CREATE INDEX runs_by_events ON {SCHEMA}.runs (tenant, events DESC, created_ms DESC, id) WHERE is_current;
    CREATE INDEX runs_by_day ON {SCHEMA}.runs (tenant, day)
        INCLUDE (host, agent, verdict, trust, cost_usd, created_ms) WHERE is_current;
    CREATE INDEX runs_by_benchmark ON {SCHEMA}.runs (tenant, benchmark, difficulty, rule_set)
        INCLUDE (id, trust, findings, cost_usd, cost_is_partial, tokens, tokens_are_known, wall_ms, is_profiled)
        WHERE is_current;
    CREATE INDEX runs_by_version ON {SCHEMA}.runs (tenant, openclaw_version, created_ms) WHERE is_current;
    CREATE TABLE {SCHEMA}.sessions (
        tenant text COLLATE "C" NOT NULL, run_id uuid NOT NULL, place integer NOT NULL, session_key text,
        trust integer, verdict text NOT NULL, task text NOT NULL, cost_usd double precision,
        cost_is_partial boolean NOT NULL, cost_is_estimated boolean NOT NULL, agent_runs bigint NOT NULL,
        findings integer NOT NULL,
        PRIMARY KEY (tenant, run_id, place)
    );
    CREATE INDEX sessions_by_key ON {SCHEMA}.sessions (tenant, session_key) INCLUDE (run_id);
    CREATE TABLE {SCHEMA}.findings (
        tenant text COLLATE "C" NOT NULL, run_id uuid NOT NULL, place integer NOT NULL, created_ms bigint NOT NULL,
        finding_id text NOT NULL, type text COLLATE "C" NOT NULL, cause text COLLATE "C" NOT NULL,
        severity text NOT NULL, confidence integer NOT NULL, title text NOT NULL, session_key text,
        occurrences bigint NOT NULL, trust_points integer NOT NULL, wasted_usd double precision, extension text,
        PRIMARY KEY (tenant, run_id, place)
    );
    CREATE INDEX findings_by_type ON {SCHEMA}.findings (tenant, type, created_ms, run_id);
    CREATE TABLE {SCHEMA}.claims (
        tenant text COLLATE "C" NOT NULL, run_id uuid NOT NULL, place integer NOT NULL, claim_id text NOT NULL,
        event_id text NOT NULL, session_key text, kind text NOT NULL, status text NOT NULL, text text NOT NULL,
        reason text NOT NULL,
        PRIMARY KEY (tenant, run_id, place)
    );
    CREATE TABLE {SCHEMA}.costs (
        tenant text COLLATE "C" NOT NULL, run_id uuid NOT NULL, place integer NOT NULL,
        day text COLLATE "C" NOT NULL, provider text COLLATE "C", model text COLLATE "C", model_calls bigint NOT NULL,
        input_tokens bigint NOT NULL, output_tokens bigint NOT NULL, cache_read_tokens bigint NOT NULL,
        cache_write_tokens bigint NOT NULL, cost_usd double precision, cost_is_estimated boolean NOT NULL,
        is_current boolean NOT NULL,
        PRIMARY KEY (tenant, run_id, place)
    );
    CREATE INDEX costs_by_day ON {SCHEMA}.costs (tenant, day)
        INCLUDE (provider, model, model_calls, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens,
                 cost_usd, cost_is_estimated) WHERE is_current;
    CREATE TABLE {SCHEMA}.tags (
        tenant text COLLATE "C" NOT NULL, run_id uuid NOT NULL, place integer NOT NULL,
        tag text COLLATE "C" NOT NULL,
        PRIMARY KEY (tenant, run_id, place)
    );
    CREATE INDEX tags_by_name ON {SCHEMA}.tags (tenant, tag) INCLUDE (run_id);
    CREATE TABLE {SCHEMA}.texts (
        tenant text COLLATE "C" NOT NULL, run_id uuid NOT NULL, place integer NOT NULL, created_ms bigint NOT NULL,
        kind text NOT NULL, source text NOT NULL, session_key text, text text NOT NULL, words tsvector NOT NULL,
        PRIMARY KEY (tenant, run_id, place)
    );
    CREATE INDEX texts_by_time ON {SCHEMA}.texts (tenant, created_ms DESC, run_id, place);
    CREATE INDEX texts_by_word ON {SCHEMA}.texts USING gin (words);
    {_policies()}
    ALTER TABLE {SCHEMA}.texts ENABLE ROW LEVEL SECURITY;
    ALTER TABLE {SCHEMA}.texts FORCE ROW LEVEL SECURITY;
    CREATE POLICY found ON {SCHEMA}.texts FOR SELECT USING (tenant = {_TENANT} AND words @@ {_WORDS});
    CREATE POLICY written ON {SCHEMA}.texts FOR INSERT WITH CHECK (tenant = {_TENANT});
    ALTER TABLE {SCHEMA}.tenant_roles ENABLE ROW LEVEL SECURITY;
    ALTER TABLE {SCHEMA}.tenant_roles FORCE ROW LEVEL SECURITY;
    CREATE POLICY own ON {SCHEMA}.tenant_roles FOR SELECT USING (role = current_user);
    CREATE POLICY administration ON {SCHEMA}.tenant_roles TO current_user USING (true) WITH CHECK (true);
    ALTER TABLE {SCHEMA}.migrations ENABLE ROW LEVEL SECURITY;
    ALTER TABLE {SCHEMA}.migrations FORCE ROW LEVEL SECURITY;
    CREATE POLICY readable ON {SCHEMA}.migrations FOR SELECT USING (true);
    CREATE POLICY administration ON {SCHEMA}.migrations TO current_user USING (true) WITH CHECK (true);
    """,
)
"""The statements of each migration of a PostgreSQL database, whose schema has the table `migrations` already."""

GRANTS = f"""
GRANT USAGE ON SCHEMA {SCHEMA} TO {{role}};
GRANT SELECT ON ALL TABLES IN SCHEMA {SCHEMA} TO {{role}};
GRANT INSERT ON {", ".join(f"{SCHEMA}.{table}" for table in (*_TENANT_TABLES, "texts"))} TO {{role}};
GRANT UPDATE ON {SCHEMA}.sealed_runs TO {{role}};
GRANT UPDATE (is_current) ON {SCHEMA}.runs, {SCHEMA}.costs TO {{role}};
"""
"""What the role of a tenant may do: read, add, and say which row is the current one. It cannot remove rows."""

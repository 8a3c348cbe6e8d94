"""Kinds of credentials, as their vendors publish the form, and makers of random ones."""

from __future__ import annotations

import base64
import json
import string
from collections.abc import Callable
from random import Random
from typing import NamedTuple

Make = Callable[[Random], str]
ALNUM = string.ascii_letters + string.digits
URL_SAFE = ALNUM + "_-"
BASE64 = ALNUM + "+/"
HEX = "0123456789abcdef"
UPPER = string.ascii_uppercase + string.digits
LOWER = string.ascii_lowercase + string.digits
PUNCTUATED = ALNUM + "!@#%^*_-+=.?"


class Kind(NamedTuple):
    """A kind of credential, and where it is found."""

    name: str
    make: Make
    variable: str = ""
    """The usual name of its environment variable."""
    shaped: bool = True
    places: tuple[str, ...] = ()
    """Texts that are special to the kind, with {} for the credential; without any, the usual places are used."""


def some(random: Random, alphabet: str, length: int) -> str:
    return "".join(random.choices(alphabet, k=length))


def of(prefix: str, alphabet: str, length: int, suffix: str = "") -> Make:
    return lambda random: prefix + some(random, alphabet, length) + suffix


def joined(*parts: str | tuple[str, int]) -> Make:
    """Return a maker of fixed texts and runs of random characters, in order."""

    def make(random: Random) -> str:
        return "".join(part if isinstance(part, str) else some(random, *part) for part in parts)

    return make


def uuid(random: Random) -> str:
    return "-".join(some(random, HEX, length) for length in (8, 4, 4, 4, 12))


def after(prefix: str, make: Make) -> Make:
    return lambda random: prefix + make(random)


def password(random: Random) -> str:
    """Return what a password manager makes: letters, digits and punctuation."""
    return some(random, ALNUM, 1) + some(random, PUNCTUATED, random.randrange(10, 18)) + some(random, ALNUM, 2)


def plain_password(random: Random) -> str:
    return some(random, ALNUM, random.randrange(12, 20))


def b64(length: int) -> Make:
    return lambda random: base64.b64encode(random.randbytes(length)).decode()


def jwt(random: Random) -> str:
    parts = [{"alg": "HS256", "typ": "JWT"}, {"sub": some(random, ALNUM, 10), "iat": random.randrange(10**9)}]
    encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    return ".".join([*encoded, some(random, URL_SAFE, 43)])


def block(label: str, lines: int = 6) -> Make:
    def make(random: Random) -> str:
        body = "\n".join(some(random, BASE64, 64) for _ in range(lines))
        return f"-----BEGIN {label}-----\n{body}\n-----END {label}-----"

    return make


def words(random: Random) -> str:
    return " ".join(some(random, string.ascii_lowercase, random.randrange(4, 8)) for _ in range(12))


def snowflake_token(random: Random) -> str:
    identity = base64.b64encode(str(random.randrange(10**17, 10**18)).encode()).decode()
    return f"{identity}.{some(random, URL_SAFE, 6)}.{some(random, URL_SAFE, 38)}"


KINDS = (
    # Models
    Kind("openai", of("sk-", ALNUM, 48), "OPENAI_API_KEY"),
    Kind("openai project", of("sk-proj-", URL_SAFE, 120), "OPENAI_API_KEY"),
    Kind("openai service account", of("sk-svcacct-", URL_SAFE, 80), "OPENAI_API_KEY"),
    Kind("anthropic", of("sk-ant-api03-", URL_SAFE, 93, "AA"), "ANTHROPIC_API_KEY"),
    Kind("openrouter", of("sk-or-v1-", HEX, 64), "OPENROUTER_API_KEY"),
    Kind("deepseek", of("sk-", HEX, 32), "DEEPSEEK_API_KEY"),
    Kind("hugging face", of("hf_", ALNUM, 34), "HF_TOKEN"),
    Kind("groq", of("gsk_", ALNUM, 52), "GROQ_API_KEY"),
    Kind("xai", of("xai-", ALNUM, 80), "XAI_API_KEY"),
    Kind("perplexity", of("pplx-", ALNUM, 48), "PERPLEXITY_API_KEY"),
    Kind("replicate", of("r8_", ALNUM, 37), "REPLICATE_API_TOKEN"),
    Kind("mistral", of("", ALNUM, 32), "MISTRAL_API_KEY", shaped=False),
    Kind("cohere", of("", ALNUM, 40), "COHERE_API_KEY", shaped=False),
    Kind("together", of("", HEX, 64), "TOGETHER_API_KEY", shaped=False),
    Kind("fireworks", of("fw_", ALNUM, 24), "FIREWORKS_API_KEY"),
    Kind("nvidia", of("nvapi-", URL_SAFE, 64), "NVIDIA_API_KEY"),
    Kind("cerebras", of("csk-", LOWER, 48), "CEREBRAS_API_KEY"),
    Kind("elevenlabs", of("sk_", HEX, 48), "ELEVENLABS_API_KEY"),
    Kind("deepgram", of("", HEX, 40), "DEEPGRAM_API_KEY", shaped=False),
    Kind("pinecone", joined("pcsk_", (ALNUM, 5), "_", (ALNUM, 63)), "PINECONE_API_KEY"),
    Kind("langsmith", joined("lsv2_pt_", (HEX, 32), "_", (HEX, 10)), "LANGSMITH_API_KEY"),
    Kind("tavily", of("tvly-", ALNUM, 32), "TAVILY_API_KEY"),
    Kind("firecrawl", of("fc-", HEX, 32), "FIRECRAWL_API_KEY"),
    Kind("weights and biases", of("", HEX, 40), "WANDB_API_KEY", shaped=False),
    Kind("azure openai", of("", HEX, 32), "AZURE_OPENAI_API_KEY", shaped=False),
    # Clouds and hosting
    Kind("aws access key id", of("AKIA", string.ascii_uppercase + "234567", 16), "AWS_ACCESS_KEY_ID"),
    Kind("aws secret access key", of("", BASE64, 40), "AWS_SECRET_ACCESS_KEY", shaped=False),
    Kind("aws session token", of("IQoJb3JpZ2luX2Vj", BASE64, 300, "=="), "AWS_SESSION_TOKEN", shaped=False),
    Kind("google api key", of("AIza", URL_SAFE, 35), "GOOGLE_API_KEY"),
    Kind("google client secret", of("GOCSPX-", URL_SAFE, 28), "GOOGLE_CLIENT_SECRET"),
    Kind("google access token", of("ya29.", URL_SAFE, 160), "GOOGLE_ACCESS_TOKEN"),
    Kind("google refresh token", of("1//0", URL_SAFE, 60), "GOOGLE_REFRESH_TOKEN"),
    Kind("azure client secret", joined((ALNUM, 3), "8Q~", (URL_SAFE, 34)), "AZURE_CLIENT_SECRET"),
    Kind("azure devops", of("", LOWER, 52), "AZURE_DEVOPS_PAT", shaped=False),
    Kind("digitalocean", of("dop_v1_", HEX, 64), "DIGITALOCEAN_TOKEN"),
    Kind("linode", of("", HEX, 64), "LINODE_TOKEN", shaped=False),
    Kind("hetzner", of("", ALNUM, 64), "HCLOUD_TOKEN", shaped=False),
    Kind("cloudflare token", of("", URL_SAFE, 40), "CLOUDFLARE_API_TOKEN", shaped=False),
    Kind("alibaba", of("LTAI", ALNUM, 20), "ALIBABA_CLOUD_ACCESS_KEY_ID"),
    Kind("tencent", of("AKID", ALNUM, 32), "TENCENTCLOUD_SECRET_ID"),
    Kind("heroku", of("HRKU-", URL_SAFE, 58), "HEROKU_API_KEY"),
    Kind("heroku, old", uuid, "HEROKU_API_KEY", shaped=False),
    Kind("vercel", of("", ALNUM, 24), "VERCEL_TOKEN", shaped=False),
    Kind("netlify", of("nfp_", ALNUM, 36), "NETLIFY_AUTH_TOKEN"),
    Kind("fly", of("fm2_", BASE64, 120), "FLY_API_TOKEN"),
    Kind("render", of("rnd_", ALNUM, 28), "RENDER_API_KEY"),
    Kind("supabase", of("sbp_", HEX, 40), "SUPABASE_ACCESS_TOKEN"),
    Kind("planetscale", of("pscale_tkn_", URL_SAFE, 43), "PLANETSCALE_SERVICE_TOKEN"),
    Kind("databricks", of("dapi", HEX, 32), "DATABRICKS_TOKEN"),
    Kind("doppler", joined("dp.st.prod.", (ALNUM, 43)), "DOPPLER_TOKEN"),
    Kind("vault", of("hvs.", URL_SAFE, 95), "VAULT_TOKEN"),
    Kind("terraform cloud", joined((ALNUM, 14), ".atlasv1.", (URL_SAFE, 67)), "TFE_TOKEN"),
    Kind("tailscale", joined("tskey-auth-", (ALNUM, 16), "-", (ALNUM, 32)), "TS_AUTHKEY"),
    Kind("ngrok", joined("2", (ALNUM, 26), "_", (ALNUM, 21)), "NGROK_AUTHTOKEN", shaped=False),
    Kind("kubernetes service account", jwt, "KUBE_TOKEN"),
    # Source code, packages and builds
    Kind("github classic", of("ghp_", ALNUM, 36), "GITHUB_TOKEN"),
    Kind("github fine-grained", joined("github_pat_", (ALNUM, 22), "_", (ALNUM, 59)), "GITHUB_TOKEN"),
    Kind("github app", of("ghs_", ALNUM, 36), "GH_TOKEN"),
    Kind("gitlab", of("glpat-", URL_SAFE, 20), "GITLAB_TOKEN"),
    Kind("gitlab runner", of("glrt-", URL_SAFE, 20), "RUNNER_TOKEN"),
    Kind("bitbucket", joined("ATBB", (ALNUM, 24), (UPPER, 8)), "BITBUCKET_APP_PASSWORD"),
    Kind("npm", of("npm_", ALNUM, 36), "NPM_TOKEN"),
    Kind("pypi", of("pypi-AgEIcHlwaS5vcmc", URL_SAFE, 150), "TWINE_PASSWORD"),
    Kind("rubygems", of("rubygems_", HEX, 48), "GEM_HOST_API_KEY"),
    Kind("docker hub", of("dckr_pat_", URL_SAFE, 27), "DOCKER_PASSWORD"),
    Kind("crates.io", of("cio", ALNUM, 32), "CARGO_REGISTRY_TOKEN"),
    Kind("nuget", of("oy2", LOWER, 43), "NUGET_API_KEY"),
    Kind("artifactory", of("AKCp", ALNUM, 69), "ARTIFACTORY_API_KEY"),
    Kind("circleci", joined("CCIPAT_", (ALNUM, 22), "_", (HEX, 40)), "CIRCLE_TOKEN"),
    Kind("buildkite", of("bkua_", HEX, 40), "BUILDKITE_API_TOKEN"),
    Kind("sonarqube", of("sqp_", HEX, 40), "SONAR_TOKEN"),
    Kind("snyk", uuid, "SNYK_TOKEN", shaped=False),
    Kind("postman", joined("PMAK-", (HEX, 24), "-", (HEX, 34)), "POSTMAN_API_KEY"),
    # Monitoring
    Kind("sentry auth token", of("sntrys_", BASE64, 120), "SENTRY_AUTH_TOKEN"),
    Kind("new relic", of("NRAK-", UPPER, 27), "NEW_RELIC_API_KEY"),
    Kind("datadog", of("", HEX, 32), "DD_API_KEY", shaped=False),
    Kind("grafana", joined("glsa_", (ALNUM, 32), "_", (HEX, 8)), "GRAFANA_TOKEN"),
    Kind("dynatrace", joined("dt0c01.", (UPPER, 24), ".", (UPPER, 64)), "DT_API_TOKEN"),
    Kind("posthog", of("phx_", ALNUM, 43), "POSTHOG_API_KEY"),
    Kind("algolia", of("", HEX, 32), "ALGOLIA_ADMIN_KEY", shaped=False),
    Kind("mapbox", lambda random: f"sk.eyJ{some(random, ALNUM, 60)}.{some(random, URL_SAFE, 22)}", "MAPBOX_TOKEN"),
    # Work
    Kind("figma", of("figd_", URL_SAFE, 40), "FIGMA_TOKEN"),
    Kind("linear", of("lin_api_", ALNUM, 40), "LINEAR_API_KEY"),
    Kind("notion", of("ntn_", ALNUM, 46), "NOTION_TOKEN"),
    Kind("notion, old", of("secret_", ALNUM, 43), "NOTION_TOKEN"),
    Kind("airtable", joined("pat", (ALNUM, 14), ".", (HEX, 64)), "AIRTABLE_API_KEY"),
    Kind("asana", joined("1/12", ("0123456789", 14), ":", (HEX, 32)), "ASANA_TOKEN"),
    Kind("jira", of("ATATT3xFfGF0", URL_SAFE, 170, "=1A2B3C4D"), "JIRA_API_TOKEN"),
    Kind("trello", of("ATTA", HEX, 72), "TRELLO_TOKEN"),
    Kind("hubspot", after("pat-na1-", uuid), "HUBSPOT_TOKEN"),
    Kind("dropbox", of("sl.", URL_SAFE, 140), "DROPBOX_TOKEN"),
    Kind("contentful", of("CFPAT-", URL_SAFE, 43), "CONTENTFUL_TOKEN"),
    Kind("typeform", of("tfp_", URL_SAFE, 44), "TYPEFORM_TOKEN"),
    Kind("okta", of("00", URL_SAFE, 40), "OKTA_API_TOKEN", shaped=False),
    Kind("auth0", of("", URL_SAFE, 64), "AUTH0_CLIENT_SECRET", shaped=False),
    # Messages and mail
    Kind("slack bot", joined("xoxb-", ("123456789", 12), "-", ("123456789", 13), "-", (ALNUM, 24)), "SLACK_BOT_TOKEN"),
    Kind("slack app", joined("xapp-1-A", (UPPER, 10), "-", ("123456789", 13), "-", (HEX, 64)), "SLACK_APP_TOKEN"),
    Kind("discord bot", snowflake_token, "DISCORD_TOKEN"),
    Kind("telegram bot", joined(("123456789", 10), ":AA", (URL_SAFE, 33)), "TELEGRAM_BOT_TOKEN"),
    Kind("twilio api key", of("SK", HEX, 32), "TWILIO_API_KEY"),
    Kind("twilio auth token", of("", HEX, 32), "TWILIO_AUTH_TOKEN", shaped=False),
    Kind("sendgrid", joined("SG.", (URL_SAFE, 22), ".", (URL_SAFE, 43)), "SENDGRID_API_KEY"),
    Kind("mailgun", of("key-", HEX, 32), "MAILGUN_API_KEY"),
    Kind("mailchimp", of("", HEX, 32, "-us21"), "MAILCHIMP_API_KEY"),
    Kind("brevo", joined("xkeysib-", (HEX, 64), "-", (ALNUM, 16)), "BREVO_API_KEY"),
    Kind("resend", joined("re_", (ALNUM, 8), "_", (ALNUM, 24)), "RESEND_API_KEY"),
    Kind("postmark", uuid, "POSTMARK_SERVER_TOKEN", shaped=False),
    # Money and shops
    Kind("stripe", of("sk_live_", ALNUM, 99), "STRIPE_SECRET_KEY"),
    Kind("stripe restricted", of("rk_live_", ALNUM, 24), "STRIPE_API_KEY"),
    Kind("stripe webhook", of("whsec_", ALNUM, 32), "STRIPE_WEBHOOK_SECRET"),
    Kind("square", of("EAAA", URL_SAFE, 60), "SQUARE_ACCESS_TOKEN"),
    Kind("paypal", of("E", URL_SAFE, 79), "PAYPAL_CLIENT_SECRET", shaped=False),
    Kind("shopify", of("shpat_", HEX, 32), "SHOPIFY_ACCESS_TOKEN"),
    Kind("plaid", after("access-production-", uuid), "PLAID_ACCESS_TOKEN"),
    Kind("facebook", of("EAA", ALNUM, 180), "FACEBOOK_ACCESS_TOKEN"),
    Kind("wallet key", of("0x", HEX, 64), "WALLET_PRIVATE_KEY", shaped=False),
    # Anything with a name
    Kind("opaque token", of("", ALNUM, 32), "SERVICE_TOKEN", shaped=False),
    Kind("password", password, "DB_PASSWORD", shaped=False),
    Kind("plain password", plain_password, "ADMIN_PASSWORD", shaped=False),
    Kind("django secret key", of("django-insecure-", LOWER + "!@#%^*-_=+", 50), "SECRET_KEY", shaped=False),
    Kind("rails secret", of("", HEX, 128), "SECRET_KEY_BASE", shaped=False),
    Kind("json web token", jwt, "AUTH_TOKEN"),
)
"""Kinds that are found in the usual places, under the name of a variable."""

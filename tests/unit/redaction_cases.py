"""What must be hidden, and what must stay readable. One line is one case: add yours at the end of its list.

§ stands for the secret. Each case is tried with several secrets: a short one, and one that looks random.
"""

from __future__ import annotations

from typing import Any

SECRETS = ("hunter2", "cAnArY7xQ9zLongEnough4")

_SECRET_NAMES = """
password passwd passphrase secret token apiKey API-KEY api_key authorization auth cookie Set-Cookie session
sessionId session_id credential credentials private_key accessKey client_secret refreshToken bearer jwt pin
cvv card_number ssn connectionString dsn user_password github_token x-api-key dbPassword password_hash
passwordConfirmation PIN_code password1 DB_PASS AWS_SECRET_ACCESS_KEY oauth_token proxy-authorization
userpassword aws_access_key_id tokens userPIN JSESSIONID csrf_token token_value session_key api_key_v2
PASSWORD passWord passcode pin_number pw db_pw creds aws_creds iban customer_iban cc_number mfa_code hmac_key
aes_key enc_key sid connect.sid password_prod passwordProd apiKeyProd GITHUB_TOKEN_PROD password_eu_west
token_ci SECRET_KEY_BASE DB_PASSWORD_2 passwordprod apikeytest secret_for_billing client_secret_staging
session_key_prod credentials_json user[password] user%5Bpassword%5D api%5Fkey pass%77ord pass\\u0077ord
pаssword tоken pаѕѕword ｐａｓｓｗｏｒｄ pass\u200bword pässword раssword Passwort kennwort contraseña
subscription-key Ocp-Apim-Subscription-Key X-Amz-Security-Token X-Amz-Signature
"""
SECRET_NAMES = _SECRET_NAMES.split()

_OTHER_NAMES = """
tokens_used author secretary pinned session_count authors tokenizer token_type token_count key idempotency_key
business_key primary_key error_code compass shipping possession keyboard password_policy authority authored_by
name id passport session_duration auth_method expires_in passwordless spinner mapping correlation_id
password_changed_at passenger passengers secretariat keyboards tokenize tokenization authentic auth_backend
inside president caliban token_bucket token_limit secret_name secret_arn PASSWORD_FILE TOKEN_URL
token_endpoint password_reset password_length api_key_name api_key_expires_at credentials_path
access_key_rotation cookie_banner pinterest bypass password-stdin session_timeout token_ttl tokens_per_minute
partition_key cache_key foreign_key sort_key public_key monkey turkey
"""
OTHER_NAMES = _OTHER_NAMES.split()

# In errors, tracebacks, log lines, and texts inside payloads.
HIDDEN_TEXTS = [
    # names and values
    "password=§",
    "password = §",
    "password: §",
    'password="§"',
    "password='§'",
    "password=`§`",
    "{'password': '§', 'a': 1}",
    '{"a": 1, "password": "§"}',
    'x {\\"password\\": \\"§\\", \\"b\\": 1}',
    "{&quot;password&quot;: &quot;§&quot;}",
    "Config(password=§, user=bob)",
    "Login(user='bob', password='§')",
    "environ({'DB_PASSWORD': '§', 'HOME': '/root'})",
    "PGPASSWORD=§ psql -h db",
    "spring.datasource.password=§",
    "os.environ['PASSWORD'] = '§'",
    "login failed\\npassword=§\\nuser=bob",
    "login failed\\npin=§",
    "password => §",
    "password := §",
    'token: str = "§"',
    "api key: §",
    "the client secret: § was refused",
    "GITHUB_TOKEN_PROD=§",
    "apiKeyProd: §",
    "passcode: §",
    "pw=§",
    "creds=§",
    "iban: §",
    "hmac_key=§ aes_key=§",
    "sid=§; path=/",
    "pаssword=§",
    "pass\u200bword=§",
    "GET /x?token=§&y=1",
    "GET /x?api%5Fkey=§&y=1",
    "POST body: pass%77ord=§&user=bob",
    "POST user%5Bpassword%5D=§",
    "GET /login?next=%2Fhome%3Fpassword%3D§%26x%3D1",
    "https://acme.blob.core.windows.net/c/b?sv=2024&sig=§&se=2026",
    "DefaultEndpointsProtocol=https;AccountName=acme;AccountKey=§;EndpointSuffix=x",
    "Server=x;Password=§;User=bob",
    # several words, and quotes inside
    "password: two §",
    "password: § words",
    "password: one § three, user: bob",
    'password="two §"',
    "password='it''s §'",
    "password='it's §'",
    'password="a"b §"',
    "password=a'§",
    "password='never closed §",
    "passphrase: correct horse §\nnext",
    "db:\n  password: |\n    §\n  user: bob",
    "password:\n    §\nuser: bob",
    # headers
    "Authorization: Bearer §",
    "authorization: token §",
    "Cookie: a=b; c=§\nnext",
    "X-Api-Key: §",
    "sent Bearer §2",
    "('X-Api-Key', '§')",
    "[('Accept', '*/*'), ('Authorization', '§')]",
    "(b'authorization', b'§')",
    'headers [["Accept", "*/*"], ["Authorization", "§"]] refused',
    "Header(name=b'x-api-key', value=b'§')",
    # pairs of a name and a value
    'env {"name": "DB_PASSWORD", "value": "§"} refused',
    'env {"value": "§", "name": "DB_PASSWORD"} refused',
    "{'key': 'api_key', 'value': '§'}",
    "{'Name': '/prod/db/password', 'Value': '§'}",
    "env:\n- name: DB_PASSWORD\n  value: §\n",
    '<add key="DbPassword" value="§"/>',
    '<input type="password" value="§">',
    # elements
    "<password>§</password>",
    "got <ns:Password xsi:type='x'>§</ns:Password> back",
    "<Password><![CDATA[§]]></Password>",
    '<entry key="password">§</entry>',
    '<db user="bob" password="§"/>',
    "&lt;password&gt;§&lt;/password&gt;",
    # command lines
    "pg_dump --password § -h db",
    "pg_dump --password=§ -h db",
    "java -password § -jar x.jar",
    "Command '['pg_dump', '--password', '§']' returned non-zero exit status 1.",
    '["tool", "--api-key", "§", "run"]',
    "tool '--token' '§'".replace("' '", "', '"),
    "curl -u ann:§ https://x.example",
    'curl --user "ann:§" https://x.example',
    "['curl', '-u', 'ann:§', 'https://x.example']",
    "curl -H 'X-Api-Key: §' https://x.example",
    "mysql -uroot -p§ shop",
    "['mysqldump', '-uroot', '-p§', 'shop']",
    "sshpass -p § ssh ann@host",
    "docker login -u ann -p § registry.example",
    "redis-cli -h db -a § ping",
    "ldapsearch -D cn=admin -w § -b dc=x",
    "openssl rsa -passin pass:§ -in key.pem",
    # addresses
    "postgresql://bob:§@db:5432/x",
    "redis://:§@h:6379/0",
    "postgresql://bob:p@ss/§@db/x",
    "https://x-access-token:§@github.com/a/b",
    "https://§-0123456789abcdef@github.com/a/b",
    "https://§:x-oauth-basic@github.com/a/b",
    "could not reach bob:§@db.example:5432",
    "postgresql:/bob:§@db/x",
    "postgresql://db/x?user=bob&password=§",
    # databases
    'duplicate key value violates unique constraint "u"\nDETAIL:  Key (api_key)=(§) already exists.',
    "Key (email, api_key)=(ann@x.example, §) already exists.",
    "Key (lower(api_key::text))=(§) already exists.",
    "Key (token)=(a) b (§) is not present in table",
    "Duplicate entry '§' for key 'users.api_key'",
    "Violation of UNIQUE KEY constraint 'UQ_users_api_key'. The duplicate key value is (§).",
    "null value in column\nDETAIL:  Failing row contains (1, bob, §, null).",
    "ALTER USER ann WITH PASSWORD '§'",
    "CREATE ROLE ann LOGIN ENCRYPTED PASSWORD '§' VALID UNTIL 'infinity'",
    "CREATE USER 'a'@'b' IDENTIFIED BY '§'",
    "SET PASSWORD FOR 'a'@'b' = '§'",
    "SELECT PASSWORD('§')",
    "UPDATE users SET password = '§' WHERE id = 1",
    "INSERT INTO users (name, password) VALUES ('bob', '§')",
    "(IntegrityError) x\n[SQL: INSERT INTO users (name, api_key) VALUES (?, ?)]\n[parameters: ('bob', '§')]",
    "(x) y\n[SQL: INSERT INTO t (api_key) VALUES (%(api_key)s)]\n[parameters: {'api_key': '§'}]",
    "(x) y\n[SQL: SELECT 1 FROM t WHERE token = %(param_1)s]\n[parameters: {'param_1': '§'}]",
    "(x) y\n[SQL: INSERT INTO t (n, pin) VALUES (?, ?)]\n[parameters: [(1, '§'), (2, '§')]]",
    "invalid password '§'",
    # validators
    "1 validation error for Login\npassword\n  String should have at least 9 characters "
    "[type=string_too_short, input_value='§', input_type=str]\n    For further information visit x",
    "1 validation error for Login\nuser.api_key\n  Input should be an int [type=int, input_value='§', input_type=str]",
    "1 validation error for X\nitems.0.token\n  Input bad [type=int, input_value='§', input_type=str]",
    "1 validation error for Login\n  Value error [type=x, input_value={'a': 1, 'pas...word': '§'}, input_type=dict]",
    "error: '1 validation error for X\\ntoken\\n  Input bad [type=int, input_value='§', input_type=str]'",
    "[{'type': 'string_too_short', 'loc': ('body', 'password'), 'msg': 'Too short', 'input': '§'}]",
    "On instance['password']:\n    '§'",
]

# Prefix, alphabet, length: put together only when the tests run, so that no scanner takes them for real.
LOWER_HEX, UPPER, MIXED, URL_SAFE = "0123456789abcdef", "A1B2C3D4E5F6G7H8", "aB3dE5fG7hJ9kLmN", "aB3-dE5_fG7hJ9kL"
TOKENS = [
    ("AKIA", UPPER, 16),
    ("ASIA", UPPER, 16),
    ("AIza", URL_SAFE, 35),
    ("GOCSPX-", URL_SAFE, 28),
    ("ya29.", URL_SAFE, 60),
    ("ghp_", MIXED, 36),
    ("gho_", MIXED, 36),
    ("ghs_", MIXED, 36),
    ("github_pat_", MIXED, 60),
    ("glpat-", URL_SAFE, 20),
    ("gldt-", URL_SAFE, 20),
    ("glrt-", URL_SAFE, 20),
    ("glptt-", LOWER_HEX, 40),
    ("xoxb-", "0123456789-aBc", 40),
    ("xoxp-", "0123456789-aBc", 40),
    ("xapp-1-", "A0123456789-bc", 40),
    ("123456789:AA", URL_SAFE, 33),
    ("hvs.", URL_SAFE, 24),
    ("hvb.", URL_SAFE, 90),
    ("s.", MIXED, 24),
    ("sk-", MIXED, 48),
    ("sk-ant-api03-", URL_SAFE, 60),
    ("sk-proj-", URL_SAFE, 60),
    ("hf_", MIXED, 34),
    ("gsk_", MIXED, 52),
    ("sk_live_", MIXED, 24),
    ("rk_test_", MIXED, 24),
    ("whsec_", MIXED, 32),
    ("sq0atp-", URL_SAFE, 22),
    ("shpat_", LOWER_HEX, 32),
    ("SG.", URL_SAFE, 22),
    ("key-", LOWER_HEX, 32),
    ("SK", LOWER_HEX, 32),
    ("npm_", MIXED, 36),
    ("pypi-", URL_SAFE, 60),
    ("rubygems_", LOWER_HEX, 48),
    ("dckr_pat_", URL_SAFE, 27),
    ("dop_v1_", LOWER_HEX, 64),
    ("dapi", LOWER_HEX, 32),
    ("glsa_", MIXED, 32),
    ("NRAK-", UPPER, 27),
    ("sntrys_", MIXED, 60),
    ("PMAK-", LOWER_HEX, 24),
    ("tskey-auth-", MIXED, 20),
    ("lin_api_", MIXED, 40),
    ("ATATT3", URL_SAFE, 60),
    ("AGE-SECRET-KEY-1", UPPER, 58),
    ("LS0tLS1CRUdJTiBQUklWQVRFIEtFWS", MIXED, 60),
    ("eyJhbGciOiJIUzI1NiJ9.eyJ", MIXED, 30),
    ("https://hooks.slack.com/services/", UPPER + "/", 40),
    ("https://discord.com/api/webhooks/", "0123456789/aBc", 60),
    ("https://acme.webhook.office.com/webhookb2/", LOWER_HEX + "/@", 60),
    ("https://api.telegram.org/bot", "123456789:AAb", 40),
    ("https://", MIXED, 32),  # the user of an address
]

# Must come out as they went in.
SHOWN_TEXTS = [
    "",
    "no secret here: fine",
    "https://host:80/a?to=x@y.com",
    "ssh://git@github.com/x",
    "postgresql://app_user@db/x",
    "Basic authentication failed",
    "the bearer of news",
    "KeyError: 'token'",
    "tokens: 12",
    "tokens=12",
    "max_tokens: 4096",
    "max_tokens=4,096 prompt_tokens=12",
    '{"max_tokens": 4096, "tokens": 12}',
    "token_count: 5",
    "password=None",
    "risk-assessment-of-the-quarter",
    "a.b.c eyJ",
    "author: Ann",
    "2026-01-01T00:00:00Z",
    '{"a":[1,2]}',
    "unexpected token: ','",
    "SyntaxError: unexpected token: '}' at line 3",
    "Unexpected token '<', \"<!DOCTYPE \"... is not valid JSON",
    "Unexpected token: EOF",
    "expected token: identifier",
    "auth: failed",
    "auth=failed user=bob",
    "auth: ok",
    "token: expired",
    "token: missing from the request",
    "password: required",
    "password: must be at least 8 characters",
    "password is too short",
    "session: closed by the server".replace("closed", "expired"),
    "signature: two arguments are missing",
    "secretary: Ann, passenger: Bob, keyboard: qwerty",
    "token_type: bearer",
    "grant_type=password",
    "error: invalid_token",
    "PASSWORD_FILE=/run/secrets/db",
    "usage: login <user> <password> [options]",
    "login --password-stdin registry.example",
    "mkdir -p /var/lib/app",
    "docker run -u 1000:1000 -p 8080:80 image",
    "ssh -p 2222 ann@host",
    "image nginx:1.25@sha256:0123456789abcdef",
    "mailto:ann@example.com",
    "Key (id)=(42) already exists.",
    "Duplicate entry '42' for key 'users.id'",
    "[SQL: SELECT name FROM users WHERE id = ?]\n[parameters: (42,)]",
    "1 validation error for X\nage\n  Input should be an int [type=int_parsing, input_value='ten', input_type=str]",
    "missing fields: ['password', 'email']",
    "{'loc': ('body', 'age'), 'msg': 'Too low', 'input': 3}",
    "<name>Ann</name>",
    "ratio 16:9@home",
    'File "/app/tokens.py", line 3, in parse_token',
    "job_01kg9f9c000000000000000001 attempt 3 of 5",
    "SELECT count(*) FROM tokens WHERE id = 3",
    "a key: value pair",
    "bypass: on",
]

# Payloads, results, metadata, fields of log lines.
HIDDEN_VALUES: list[Any] = [
    {"password": "§"},
    {"user": {"credentials": {"x": ["§"]}}},
    {"tokens": ["§"]},
    {"password_prod": "§"},
    {"pаssword": "§"},
    {"env": [{"name": "DB_PASSWORD", "value": "§"}]},
    {"env": [{"value": "§", "name": "DB_PASSWORD"}]},
    {"params": [{"Key": "api_key", "Value": "§"}]},
    {"params": [{"Name": "/prod/db/password", "Type": "SecureString", "Value": "§"}]},
    {"fields": [{"type": "password", "value": "§"}]},
    {"headers": [["Authorization", "§"], ["Accept", "*/*"]]},
    {"headers": [["X-Api-Key", "§"]]},
    {"pair": ("X-Api-Key", "§")},
    {"argv": ["tool", "--password", "§"]},
    {"argv": ["tool", "--password=§"]},
    {"argv": ["curl", "-u", "ann:§"]},
    {"errors": [{"loc": ["body", "password"], "msg": "too short", "input": "§"}]},
    {"note": "log in with password=§"},
    {"url": "postgresql://bob:§@db/x"},
    {"inner": '{"password": "§"}'},
    {"inner": '{"headers": [["Authorization", "§"]]}'},
    {"body": "<password>§</password>"},
]

SHOWN_VALUES: list[Any] = [
    {"password": None, "requires_auth": True},
    {"max_tokens": 5, "usage": {"prompt_tokens": 12, "tokens": 3}},
    {"max_tokens": "4096"},
    {"author": "Ann", "keyboard": "qwerty", "secretary": "Bob", "passenger": "Eve"},
    {"token_count": 7, "token_type": "bearer", "password_policy": "strict"},
    {"required": ["password", "email"]},
    {"fields": ["token", "password", "name"]},
    {"env": [{"name": "HOME", "value": "/root"}]},
    {"argv": ["tool", "--verbose", "run"]},
    {"argv": ["tool", "--max-tokens", "4096"]},
    {"type": "token", "value": ","},
    {"loc": ["body", "age"], "input": 3},
    {"message": "unexpected token: ','"},
]

"""PostgreSQL, by every synchronous driver that SQLAlchemy has for it; fastest by psycopg 3."""

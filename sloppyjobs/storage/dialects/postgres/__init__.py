"""PostgreSQL: set-based statements and pipelines by psycopg 3, and the common statements by any other driver."""

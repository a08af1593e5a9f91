"""PostgreSQL: set-based statements, COPY and pipelines by psycopg 3, and the common statements by any other driver."""

"""The tables: columns, types, migrations."""

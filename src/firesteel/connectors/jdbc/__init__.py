"""SQL databases: rows written and read, exactly once where the program asks for it; PostgreSQL and SQLite."""

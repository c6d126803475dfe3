"""Output of commands: tables, Markdown, JSON, CSV, and texts that several commands print."""

"""What a recording is as data: schema, tables, names, ledger."""

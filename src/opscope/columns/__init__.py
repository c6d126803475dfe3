"""The data of a recording: schema, tables, names, ledger."""

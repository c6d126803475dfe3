"""Output for agents (MCP), notebooks and `opscope diff --run`; other rooms compute the results."""

"""MCP: workflows as tools of agents, operators' tools and resources, runs as durable tasks."""

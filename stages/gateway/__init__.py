"""The governed MCP server through which an agent reads its database."""

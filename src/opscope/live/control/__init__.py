"""Control of a running process over a socket: server and client."""

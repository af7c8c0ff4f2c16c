"""FLOOR 4: asyncio. The only importer of asyncio, socket, ssl and time; knows nothing of the lock protocol."""

"""The web server, on a listening socket that the supervisor made: `python -m portal.embedded.web --fd 5`.

So no other program can take the port between the choice and the start, and a restart loses no connection.
"""

from __future__ import annotations

import argparse
import socket

import uvicorn

# A websocket frame of ours is a hint of some hundred bytes; larger ones are refused with 1009.
LARGEST_FRAME = 65536


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--fd", type=int, required=True)
    listener = socket.socket(fileno=parser.parse_args().fd)
    config = uvicorn.Config(
        "portal.asgi:application",
        ws_max_size=LARGEST_FRAME,
        # Open websockets and event streams must not hold up the end.
        timeout_graceful_shutdown=3,
        # The client's address is decided by our own list of trusted proxies.
        proxy_headers=False,
        server_header=False,
        access_log=False,
    )
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()

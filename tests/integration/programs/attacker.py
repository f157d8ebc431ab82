"""What somebody without any rights tries on a machine where a job runs; every command prints how far it got, as JSON.

Started by root it becomes another user. It talks to loopback unless told otherwise.

    noise PORT...          whatever comes to mind: garbage, other protocols, half of things, forged introductions
    crowd PORT COUNT       so many connections that say nothing, until standard input ends
    blocks NEEDLE PORT...  asks each port for Spark's blocks, as Spark does; which gave some, which with these bytes (hex)
    undecodable PORT...    sends each the shortest thing that Spark's streaming shuffle cannot decode
    read PATH...           which of these files and sockets can be opened
    reach HOST PORT...     which ports answer at another address
"""

import encodings.idna  # noqa: F401 - sockets import it when they see a name
import hashlib
import hmac
import json
import os
import resource
import socket
import stat
import struct
import sys

NOBODY = 65534
TIMEOUT = 30.0
HOST = "127.0.0.1"


def main(command, *arguments):
    """Do one of them."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if os.geteuid() == 0:
        # Not from the beginning: another user may not be allowed to read the interpreter's modules.
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    print(json.dumps(COMMANDS[command](*arguments)), flush=True)
    if command == "crowd":
        sys.stdin.read()


def connected(port, host=HOST):
    sock = socket.create_connection((host, int(port)), timeout=TIMEOUT)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


# Noise ----------------------------------------------------------------------------------------------------

GREETING_BYTES = 36
FLOOD = 200


def noise(*ports):
    """Returns how many connections it made."""
    attempts = [nothing, garbage, http, long_frame, huge_frame, torn, forged_hello, pickle_first]
    count = 0
    for port in ports:
        for attempt in attempts:
            count += 1
            try:
                with connected(port) as sock:
                    attempt(sock)
            except OSError:
                continue  # it hung up
        for _ in range(FLOOD):  # a flood: as fast as it goes, without waiting for anything
            connected(port).close()
            count += 1
    return count


def nothing(sock):
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset instead of an end


def garbage(sock):
    sock.sendall(os.urandom(1 << 16))
    drain(sock)


def http(sock):
    sock.sendall(b"POST /jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nrun")
    drain(sock)


def long_frame(sock):
    sock.sendall(frame(3, struct.pack("!qi", 1, 1000) + b"\xff" * 1000))
    drain(sock)


def huge_frame(sock):
    sock.sendall(struct.pack("!q", 2**62) + b"\0" * 1000)
    sock.sendall(struct.pack("!i", 2**31 - 1) * 100)


def torn(sock):
    sock.sendall(frame(3, struct.pack("!qi", 1, 100))[:11])


def pickle_first(sock):
    """The greeting of `multiprocessing`, and a pickle that would show if anybody read it."""
    code = b"cos\nsystem\n(S'touch /tmp/firesteel-was-here'\ntR."
    for part in (b"#WELCOME#", code):
        sock.sendall(struct.pack("!i", len(part)) + part)
    drain(sock)


def forged_hello(sock):
    """The handshake of Firesteel's own connections, with a secret that is guessed."""
    sock.settimeout(0.5)
    greeting = b""
    try:
        while len(greeting) < GREETING_BYTES:
            more = sock.recv(GREETING_BYTES - len(greeting))
            if not more:
                return
            greeting += more
    except TimeoutError:
        return  # this one waits to be spoken to
    if greeting.startswith(b"HTTP/1.1 403"):
        return  # the REST interface turns other users away with a sentence
    nonces = greeting[4:] + b"n" * 32
    proof = hmac.digest(hashlib.sha256(b"guess").digest(), b"firesteel client\0" + nonces, "sha256")
    sock.sendall(b"n" * 32 + proof)
    assert sock.recv(64) in (b"", bytes(32)), "the guess was right"


def drain(sock):
    sock.shutdown(socket.SHUT_WR)
    sock.settimeout(0.5)
    try:
        while sock.recv(4096):
            pass
    except TimeoutError:
        pass


KEPT = []


def crowd(port, count):
    KEPT.extend(connected(port) for _ in range(int(count)))
    return len(KEPT)


# Spark's protocol -------------------------------------------------------------------------------------------


def frame(kind, content):
    return struct.pack("!qb", 9 + len(content), kind) + content


def text(value):
    data = value.encode()
    return struct.pack("!i", len(data)) + data


def rpc(body):
    return frame(3, struct.pack("!qi", 7, len(body)) + body)


def undecodable(*ports):
    """24 bytes: a request with a body of three that means nothing. Returns how many ports took it."""
    packet = rpc(b"\xff\xff\xff")
    assert len(packet) == 24
    count = 0
    for port in ports:
        try:
            with connected(port) as sock:
                sock.sendall(packet)
                drain(sock)
                count += 1
        except OSError:
            continue
    return count


def blocks(needle, *ports):
    """How many blocks each port gave, and how many of them had the needle inside."""
    found = {}
    for port in ports:
        got = list(fetch(port))
        found[port] = [len(got), sum(bytes.fromhex(needle) in block for block in got)]
    return found


def fetch(port):
    if not speaks_spark(port):
        return
    for number in range(30):
        with connected(port) as sock:
            sock.sendall(rpc(open_block(number)))
            kind, answer = received(sock)
            if kind != 4:
                continue  # there is no such block
            # Behind the number of the request, the length and the kind of the answer: the stream to ask for.
            sock.sendall(frame(0, answer[13:21] + struct.pack("!i", 0)))
            kind, answer = received(sock)
            assert kind == 1, answer
            yield answer[12:]


def speaks_spark(port):
    try:
        with connected(port) as sock:
            sock.sendall(rpc(open_block(0)) + b"\n")  # who expects lines shall not wait for the end of one
            return received(sock)[0] in (4, 5)
    except OSError:
        return False


def open_block(number):
    wanted = text("app") + text("driver") + struct.pack("!i", 1) + text(f"broadcast_{number}_piece0")
    return b"\0" + wanted


def received(sock):
    length, kind = struct.unpack("!qb", exactly(sock, 9))
    if not 9 <= length < 1 << 30:
        raise ConnectionError("this is not Spark")
    return kind, exactly(sock, length - 9)


def exactly(sock, size):
    data = b""
    while len(data) < size:
        more = sock.recv(size - len(data))
        if not more:
            raise ConnectionError("hung up")
        data += more
    return data


# Files and addresses ----------------------------------------------------------------------------------------


def read(*paths):
    return [path for path in paths if opens(path)]


def opens(path):
    try:
        if stat.S_ISSOCK(os.stat(path).st_mode):
            with socket.socket(socket.AF_UNIX) as sock:
                sock.connect(path)
        elif os.path.isdir(path):
            os.listdir(path)
        else:
            open(path, "rb").close()
    except OSError:
        return False
    return True


def reach(host, *ports):
    return [port for port in ports if answers(host, port)]


def answers(host, port):
    try:
        connected(port, host).close()
    except OSError:
        return False
    return True


COMMANDS = {
    "noise": noise,
    "crowd": crowd,
    "blocks": blocks,
    "undecodable": undecodable,
    "read": read,
    "reach": reach,
}

if __name__ == "__main__":
    main(*sys.argv[1:])

"""A program of its own, run by processes.Detached: starts another one that is to be nobody's child.

    python -S -P detach.py CONNECTION FILE BYTE PROGRAM ARGUMENT…

It forks. Its child sends its number and a descriptor of itself over the socket CONNECTION, waits there for
an answer, locks the byte BYTE of the open file FILE, and becomes PROGRAM, which goes on holding that lock;
without an answer it ends. This process ends with that program, and has its status. Who has started both kills
this one as soon as nobody needs that status: then PROGRAM is init's child.

A process with threads cannot do this itself: between a fork and an exec its child may run no Python.
"""

import array
import contextlib
import fcntl
import os
import signal
import socket
import sys

# An asking process that dies may leave the other end of its socket to a child that it forked meanwhile.
_PATIENCE = 30.0


def become(connection: socket.socket, file: int, byte: int, command: list[str]) -> None:
    os.setsid()
    # What is ignored is so in a program that is started too: two signals by Python, others by nohup.
    for number in signal.valid_signals():
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    connection.settimeout(_PATIENCE)
    me = array.array("i", [os.pidfd_open(os.getpid())])
    connection.sendmsg([str(os.getpid()).encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, me)])
    if connection.recv(1):
        # Of the process: it outlives the exec, and no child of the program has it.
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
        os.execv(command[0], command)


def main() -> int:
    number, file, byte, *command = sys.argv[1:]
    connection = socket.socket(fileno=int(number))
    connection.set_inheritable(False)
    child = os.fork()
    if child == 0:
        with contextlib.suppress(TimeoutError, ConnectionError):
            become(connection, int(file), int(byte), command)
        return 1
    connection.close()
    os.close(int(file))
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main())

"""`softbench serve` on a Unix socket, and somebody who submits kernels to it."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time

from support import warm
from support.projects import PYTHONPATH

TOKEN = "a-token-of-some-length"
KERNEL = """
from softbench import implementation

@implementation(operator="softmax")
def {name}(case):
    import os, time, torch
    def launch(x):
        {first}
        return torch.softmax(x, dim=-1)
    return launch
"""
CHECKED = [{"operator": "softmax", "dtype": "float32", "shapes": [[8, 100]]}]
DOES = {"right": "pass", "wrong": "x = x + x", "crashes": "os.abort()", "hangs": "time.sleep(600)"}


class _Connection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=60)
        self._path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(60)
        self.sock.connect(str(self._path))


def submission(name, first="pass", **changes):
    source = KERNEL.format(name=name, first=first)
    return {"name": f"{name}.py", "source": source, "groups": CHECKED, "timed": False, **changes}


class Server:
    def __init__(self, folder, *options):
        self.folder, self._options = folder, options
        self.jobs_folder = folder / "queue" / "jobs"
        token = folder / "token"
        token.touch(0o600)
        token.write_text(f"{TOKEN}\n")
        self.start()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.end()

    def start(self):
        command = [sys.executable, "-m", "softbench", "serve", "--queue", "queue", "--socket", "s"]
        own = {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", "PYTHONPATH": PYTHONPATH}
        self._said = (self.folder / "said").open("a")
        self.process = warm.popen(PYTHONPATH)(
            [*command, "--token-file", "token", *self._options],
            cwd=self.folder,
            env={**os.environ, **own},
            stdout=self._said,
            stderr=self._said,
            start_new_session=True,
        )
        for _ in range(300):
            if self.process.poll() is not None:
                self._said.close()
                raise AssertionError(self.said)
            try:
                self.ask("GET", "/jobs")
            except OSError:
                time.sleep(0.1)
            else:
                return
        raise AssertionError(f"no answer: {self.said}")

    @property
    def said(self):
        return (self.folder / "said").read_text()

    def end(self, how=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(how)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        finally:
            self._said.close()

    def raw(self, method, path, body=None, token=TOKEN):
        connection = _Connection(self.folder / "s")
        try:
            connection.request(method, path, body, {"Authorization": f"Bearer {token}"})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def ask(self, method, path, data=None, status=0):
        found, body = self.raw(method, path, None if data is None else json.dumps(data).encode())
        assert status in (0, found), body
        return json.loads(body)

    def submit(self, data):
        return str(self.ask("POST", "/jobs", data, status=201)["id"])

    def jobs(self):
        return {job["id"]: job for job in self.ask("GET", "/jobs", status=200)["jobs"]}

    def events(self, job):
        """Returns when it has ended."""
        status, body = self.raw("GET", f"/jobs/{job}/events")
        assert status == 200, body
        return [json.loads(line) for line in body.splitlines()]

    def awaited(self, job, state, patience_s=30):
        end = time.monotonic() + patience_s
        while time.monotonic() < end:
            found = self.ask("GET", f"/jobs/{job}", status=200)
            if found["state"] == state:
                return found
            time.sleep(0.05)
        raise AssertionError(found)

"""Counts what it records, under a flight recorder, and dies: DIRECTORY COUNTS WAY [SECONDS]."""

import mmap
import os
import signal
import struct
import sys
import threading
import time

import torch

import opscope

directory, counts_file, way = sys.argv[1:4]
seconds = float(sys.argv[4]) if len(sys.argv) > 4 else 0.7
with open(counts_file, "r+b") as file:
    counts = mmap.mmap(file.fileno(), 4096)
recorder = opscope.flight_recorder(
    "30s", max_memory="4MiB", directory=directory, triggers=[], budget=None, record_shapes=True
)
x = torch.ones(4)


def work(number):
    count = 0
    while True:
        with opscope.record_function(f"unit {count % 97}"):
            x.add(1)
        count += 1
        struct.pack_into("Q", counts, number * 8, count)


def many_threads():
    while True:
        thread = threading.Thread(target=lambda: x.mul(2))
        thread.start()
        thread.join()


recorder.start()
for number in range(2):
    threading.Thread(target=work, args=(number,), daemon=True).start()
threading.Thread(target=many_threads, daemon=True).start()
time.sleep(seconds)
if way == "exit":
    os._exit(3)
os.kill(os.getpid(), getattr(signal, way))
time.sleep(60)

# Lookups in a dictionary of Python. Keeps to the rules of work.h.
import random
import sys
import time

n = 12_000_000 if sys.argv[1] == "large" else 1000
table = {key: key for key in range(0, n * 7, 7)}
total, batch = 0, 1000
print("ready", flush=True)
while True:
    start = time.process_time_ns()
    for _ in range(batch):
        total += table[int(random.random() * n) * 7]
    took = time.process_time_ns() - start
    if took < 2e7:
        batch *= 2
    else:
        print(took / batch, flush=True)

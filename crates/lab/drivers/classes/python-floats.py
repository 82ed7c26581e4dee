# A map of floating-point numbers in Python. Keeps to the rules of work.h.
import sys
import time

n = 1000 if sys.argv[1] == "large" else 10
state, batch = [0.5 + i / 1e6 for i in range(n)], 1
print("ready", flush=True)
while True:
    start = time.process_time_ns()
    for _ in range(batch):
        for i in range(0, n, n // 10):
            state[i] = 3.7 * state[i] * (1.0 - state[i])
    took = time.process_time_ns() - start
    if took < 2e7:
        batch *= 2
    else:
        print(took / batch, flush=True)

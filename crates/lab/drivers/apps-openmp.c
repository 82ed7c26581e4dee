// Regions with a loop, a barrier, tasks and a critical section. Arguments: threads, rounds.
#include <omp.h>
#include <stdlib.h>

int main(int count, char **arguments) {
    if (count != 3) return 2;
    int threads = atoi(arguments[1]), rounds = atoi(arguments[2]);
    long sum = 0, entries = 0;
    omp_set_num_threads(threads);
    for (int round = 0; round < rounds; round++) {
#pragma omp parallel for reduction(+ : sum) schedule(dynamic, 16)
        for (int i = 0; i < 1000; i++) sum += i;
#pragma omp parallel
        {
#pragma omp barrier
#pragma omp single
            for (int task = 0; task < 4; task++) {
#pragma omp task
                {
#pragma omp atomic
                    entries++;
                }
            }
#pragma omp critical
            {
#pragma omp atomic
                entries++;
            }
        }
    }
    return sum != 499500L * rounds || entries != (4L + threads) * rounds;
}

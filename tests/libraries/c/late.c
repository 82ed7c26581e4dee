/* A library that is loaded while fibers live. */
static __thread long late_counter = 77;
static __thread char late_zeros[LATE_ZEROS];

long *late_counter_of_thread(void) { return &late_counter; }

/* Returns true if all of the thread's bytes are `value`, and sets them to `next`. */
int late_exchange(char value, char next) {
    int same = 1;
    for (unsigned i = 0; i < LATE_ZEROS; i++) {
        same &= late_zeros[i] == value;
        late_zeros[i] = next;
    }
    return same;
}

// A library with thread-locals that do not fit behind those of the program.

static __thread int local = 11;
static __thread char large[20000];

int add(int number);
int add(int number) {
    large[19999]++;
    return local += number;
}

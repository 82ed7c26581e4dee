// A mutex may be destroyed, and its memory reused, once the last thread that counts on it has it.
#include "../check.h"

enum { ROUNDS = 1000 };
struct object {
    pthread_mutex_t mutex;
    int references;
};

static void *release(void *argument) {
    struct object *object = argument;
    EQUAL(pthread_mutex_lock(&object->mutex), 0);
    int left = --object->references;
    EQUAL(pthread_mutex_unlock(&object->mutex), 0);
    if (left > 0) return NULL;
    EQUAL(pthread_mutex_destroy(&object->mutex), 0);
    memset(object, 0x55, sizeof *object);
    free(object);
    return NULL;
}

int main(void) {
    for (int round = 0; round < ROUNDS; round++) {
        struct object *object = calloc(1, sizeof *object);
        CHECK(object);
        object->references = 2;
        pthread_t other = start(release, object);
        release(object);
        join(other);
    }
    return 0;
}

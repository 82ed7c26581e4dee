// Cleanup handlers run in reverse order, before destructors of keys, at a cancel and at
// pthread_exit, but not at a return; they may suspend.
#include "../check.h"

static char order[64];
static pthread_key_t key;

static void note(void *text) {
    pause_ms(1);
    strcat(order, text);
}

static void *run(void *argument) {
    EQUAL(pthread_setspecific(key, "k"), 0);
    pthread_cleanup_push(note, "1");
    pthread_cleanup_push(note, "2");
    pthread_cleanup_push(note, "3");
    pthread_cleanup_pop(0);
    pthread_cleanup_push(note, "4");
    pthread_cleanup_pop(1);
    if (argument == NULL) pthread_exit("ended");
    for (;;) pause_ms(1000);
    pthread_cleanup_pop(0);
    pthread_cleanup_pop(0);
}

static void *returns(UNUSED void *argument) {
    EQUAL(pthread_setspecific(key, "k"), 0);
    pthread_cleanup_push(note, "1");
    pthread_cleanup_pop(0);
    return "returned";
}

static void is_order(const char *wanted) {
    if (strcmp(order, wanted) != 0) FAIL("the order is %s, not %s", order, wanted);
    order[0] = 0;
}

int main(void) {
    EQUAL(pthread_key_create(&key, note), 0);
    CHECK(strcmp(join(start(run, NULL)), "ended") == 0);
    is_order("421k");
    pthread_t thread = start(run, &order);
    EQUAL(pthread_cancel(thread), 0);
    CHECK(join(thread) == PTHREAD_CANCELED);
    CHECK(strlen(order) <= 4);
    order[0] = 0;
    CHECK(strcmp(join(start(returns, NULL)), "returned") == 0);
    is_order("k");
    return 0;
}

/* Cancels before a start and before a wait; a cleared cancel has no effect; a shutdown cancels. */
#include "check.h"

static daiko_event event = DAIKO_EVENT_AUTO_INITIALIZER, never = DAIKO_EVENT_MANUAL_INITIALIZER;
static daiko_mutex mutex = DAIKO_MUTEX_INITIALIZER;
static int started, ended;

static void *starts(void *argument)
{
    started++;
    CHECK(daiko_cancelled(), 1);
    CHECK(daiko_event_wait(&event), ECANCELED);
    CHECK(daiko_event_wait(&event), ECANCELED);
    return argument;
}

/* Ends by a set of the event, which comes after the fiber has suspended. */
static void *clears(void *argument)
{
    OK(daiko_cancel(daiko_self()));
    CHECK(daiko_park(), ECANCELED);
    OK(daiko_cancel_clear());
    CHECK(daiko_cancelled(), 0);
    OK(daiko_event_wait(&event));
    return argument;
}

static void *waits_for_ever(void *none)
{
    CHECK(daiko_event_wait(&never), ECANCELED);
    /* The clean-up can take a lock; a wait would be cancelled again. */
    OK(daiko_cancel_clear());
    OK(daiko_mutex_lock(&mutex));
    OK(daiko_mutex_unlock(&mutex));
    ended++;
    return none;
}

static void *run(void *none)
{
    daiko_fiber_attr attr = DAIKO_FIBER_ATTR_INITIALIZER;
    daiko_fiber *fiber;
    void *end = NULL;
    for (; attr.flags <= DAIKO_FIBER_MIGRATABLE; attr.flags++) {
        OK(daiko_spawn(&fiber, &attr, starts, &attr));
        OK(daiko_cancel(fiber));
        OK(daiko_join(fiber, &end));
        CHECK(end == &attr, 1);
        CHECK(started, attr.flags + 1);
        OK(daiko_spawn(&fiber, &attr, clears, &event));
        OK(daiko_yield());
        OK(daiko_event_set(&event));
        OK(daiko_join(fiber, &end));
        CHECK(end == &event, 1);
        OK(daiko_spawn(NULL, &attr, waits_for_ever, none));
    }
    OK(daiko_yield());
    return none;
}

int main(void)
{
    in_runtime(1, run);
    CHECK(ended, 2);
    return 0;
}

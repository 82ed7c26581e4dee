/* Prints the sizes of the types, and checks that initializers give the bytes of the functions. */
#include "check.h"
#include <stddef.h>

#define SIZE(type) printf("size %s %u\n", #type, (unsigned)sizeof(type))
#define FIELD(type, field) \
    printf("size %s.%s at %u\n", #type, #field, (unsigned)offsetof(type, field))
#define SAME(type, initializer, init) \
    do { \
        static const type expected = initializer; \
        type made; \
        OK(init); \
        OK(memcmp(&made, &expected, sizeof made)); \
    } while (0)

int main(void)
{
    SIZE(daiko_mutex); SIZE(daiko_condvar); SIZE(daiko_rwlock); SIZE(daiko_semaphore);
    SIZE(daiko_barrier); SIZE(daiko_event); SIZE(daiko_once_flag);
    SIZE(daiko_runtime_attr); SIZE(daiko_fiber_attr); SIZE(daiko_poller_attr);
    FIELD(daiko_runtime_attr, version); FIELD(daiko_runtime_attr, workers);
    FIELD(daiko_runtime_attr, stack_size); FIELD(daiko_runtime_attr, guard_size);
    FIELD(daiko_runtime_attr, preset); FIELD(daiko_runtime_attr, flags);
    FIELD(daiko_fiber_attr, flags); FIELD(daiko_fiber_attr, worker);
    FIELD(daiko_fiber_attr, stack_size); FIELD(daiko_fiber_attr, name);
    FIELD(daiko_poller_attr, flags); FIELD(daiko_poller_attr, worker);
    FIELD(daiko_poller_attr, wake_fd); FIELD(daiko_poller_attr, unused);
    SAME(daiko_mutex, DAIKO_MUTEX_INITIALIZER, daiko_mutex_init(&made));
    SAME(daiko_condvar, DAIKO_CONDVAR_INITIALIZER, daiko_condvar_init(&made));
    /* Behind the first byte of the third word is padding. */
    SAME(daiko_rwlock, DAIKO_RWLOCK_INITIALIZER,
         (daiko_rwlock_init(&made), made.reserved[2] &= 0xff, 0));
    SAME(daiko_semaphore, DAIKO_SEMAPHORE_INITIALIZER(7), daiko_semaphore_init(&made, 7));
    SAME(daiko_event, DAIKO_EVENT_MANUAL_INITIALIZER, daiko_event_init(&made, 0));
    SAME(daiko_event, DAIKO_EVENT_AUTO_INITIALIZER, daiko_event_init(&made, 1));
    SAME(daiko_runtime_attr, DAIKO_RUNTIME_ATTR_INITIALIZER,
         daiko_runtime_attr_init(&made, sizeof made));
    SAME(daiko_fiber_attr, DAIKO_FIBER_ATTR_INITIALIZER,
         daiko_fiber_attr_init(&made, sizeof made));
    SAME(daiko_poller_attr, DAIKO_POLLER_ATTR_INITIALIZER,
         daiko_poller_attr_init(&made, sizeof made));
    return 0;
}

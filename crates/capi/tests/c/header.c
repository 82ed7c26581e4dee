/* Uses each initializer, as C99 and as C++11. */
#include <daiko.h>

daiko_mutex mutex = DAIKO_MUTEX_INITIALIZER;
daiko_condvar condvar = DAIKO_CONDVAR_INITIALIZER;
daiko_rwlock lock = DAIKO_RWLOCK_INITIALIZER;
daiko_semaphore semaphore = DAIKO_SEMAPHORE_INITIALIZER(3);
daiko_event manual = DAIKO_EVENT_MANUAL_INITIALIZER;
daiko_event automatic = DAIKO_EVENT_AUTO_INITIALIZER;
daiko_once_flag once = DAIKO_ONCE_INITIALIZER;
daiko_runtime_attr runtime_attr = DAIKO_RUNTIME_ATTR_INITIALIZER;
daiko_fiber_attr fiber_attr = DAIKO_FIBER_ATTR_INITIALIZER;
daiko_poller_attr poller_attr = DAIKO_POLLER_ATTR_INITIALIZER;

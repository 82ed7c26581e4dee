/* Daiko: fibers with waits that agents poll. SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Every function that returns int returns 0 or a number of errno.h; errno is not used. In addition
 * to the codes that each group names:
 *
 *   EINVAL          a pointer is NULL or misaligned, a number is out of range
 *   ENOTRECOVERABLE a fault of Daiko, which has been printed to standard error
 *
 * A function that may wait is marked WAITS. It also returns:
 *
 *   ECANCELED  the calling fiber is cancelled: at once, even if there is nothing to wait for, and
 *              again at each such call until daiko_cancel_clear
 *   EBUSY      the caller is between daiko_no_suspend_begin and daiko_no_suspend_end
 *   EPERM      the caller is a poller; or it is no fiber, and the function is marked FIBERS ONLY
 *
 * Other functions never wait. A thread that is no fiber blocks where a fiber would suspend.
 *
 * Deadlines are absolute times of CLOCK_MONOTONIC. A deadline that has passed gives ETIMEDOUT,
 * unless there is nothing to wait for. Functions of descriptors and words take NULL for "never".
 *
 * No exception of C++, longjmp or pthread_exit may leave a function that Daiko calls. */
#ifndef DAIKO_H
#define DAIKO_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <time.h>

#define DAIKO_VERSION_MAJOR 0
#define DAIKO_VERSION_MINOR 1
#define DAIKO_VERSION_PATCH 0
#define DAIKO_VERSION_NUMBER \
    (DAIKO_VERSION_MAJOR * 65536u + DAIKO_VERSION_MINOR * 256u + DAIKO_VERSION_PATCH)

#ifdef __cplusplus
extern "C" {
#endif

/* <time.h> of strict C99 does not define it. */
struct timespec;

/* ---- Life ---------------------------------------------------------------------------------- */

typedef struct daiko_runtime daiko_runtime;

/* The function of a fiber or of a blocking call. */
typedef void *(*daiko_function)(void *argument);

/* How long agents poll before they sleep: for ever, for 50 us, not at all. */
#define DAIKO_PRESET_DEFAULT 0u
#define DAIKO_PRESET_LATENCY 1u
#define DAIKO_PRESET_BALANCED 2u
#define DAIKO_PRESET_POWER 3u

/* Fibers may continue on any worker, unless their attributes say otherwise. */
#define DAIKO_RUNTIME_MIGRATABLE 1u

/* Attributes begin with their size; later versions may add fields at the end. 0 is the default. */
typedef struct daiko_runtime_attr {
    size_t size;
    uint32_t version;  /* DAIKO_VERSION_NUMBER of the caller: ENOTSUP if the library is older */
    uint32_t workers;  /* default: the CPUs that the process may use */
    size_t stack_size; /* of each fiber; default: DAIKO_STACK_SIZE, or 256 KiB */
    size_t guard_size; /* below each stack; default: 64 KiB, for frames without stack probes */
    uint32_t preset;   /* DAIKO_PRESET_ */
    uint32_t flags;    /* DAIKO_RUNTIME_ */
} daiko_runtime_attr;

#define DAIKO_RUNTIME_ATTR_INITIALIZER \
    { sizeof(daiko_runtime_attr), DAIKO_VERSION_NUMBER, 0, 0, 0, 0, 0 }

/* The version of the library, as text and as a number. */
const char *daiko_version(void);
uint32_t daiko_version_number(void);

/* The text of a code that a function below has returned. Never NULL. */
const char *daiko_strerror(int code);

/* Sets attributes that choose nothing; size is sizeof *attr. */
int daiko_runtime_attr_init(daiko_runtime_attr *attr, size_t size);

/* Starts a runtime. attr may be NULL. EAGAIN, ENOMEM, ENOTSUP; E2BIG: attr has a choice that
 * this library does not know. */
int daiko_runtime_new(daiko_runtime **runtime, const daiko_runtime_attr *attr);

/* Runs a fiber and waits for its end. runtime may be NULL: see daiko_spawn. result may be NULL.
 * ESHUTDOWN, EAGAIN. WAITS */
int daiko_runtime_run(daiko_runtime *runtime, daiko_function function, void *argument,
                      void **result);

/* Cancels all fibers, waits for up to 5 s for their ends, and ends the workers. left, which may be
 * NULL, gets the number of fibers that have not ended. No other call may use the runtime meanwhile.
 * EDEADLK: a fiber of the runtime calls; EPERM: a forked child calls; ESHUTDOWN. WAITS */
int daiko_runtime_shutdown(daiko_runtime *runtime, size_t *left);

/* Shuts the runtime down if it is not, and frees the handle. NULL is ignored. EPERM: it is the
 * default runtime. WAITS */
int daiko_runtime_free(daiko_runtime *runtime);

/* The runtime of callers that name none and are no fibers. It is started at its first use. */
int daiko_default_runtime(daiko_runtime **runtime);

/* Changes the preset. runtime may be NULL: the default one. */
int daiko_set_preset(daiko_runtime *runtime, uint32_t preset);

/* ---- Fibers -------------------------------------------------------------------------------- */

/* A pointer to a fiber is a counted reference. The one that a spawn gives is used up by the one
 * daiko_join or daiko_detach of the fiber. */
typedef struct daiko_fiber daiko_fiber;

#define DAIKO_FIBER_MIGRATABLE 1u /* may continue on any worker */
#define DAIKO_FIBER_ON_WORKER 2u  /* starts on attr.worker */
#define DAIKO_FIBER_SPREAD 4u     /* starts on the worker that has the fewest fibers */

typedef struct daiko_fiber_attr {
    size_t size;
    uint32_t flags;
    uint32_t worker;
    size_t stack_size;
    const char *name; /* copied; at most 256 bytes of UTF-8 */
} daiko_fiber_attr;

#define DAIKO_FIBER_ATTR_INITIALIZER \
    { sizeof(daiko_fiber_attr), 0, 0, 0, NULL }

int daiko_fiber_attr_init(daiko_fiber_attr *attr, size_t size);

/* Spawns a fiber: in the caller's runtime if a fiber calls, else in the default runtime. If fiber
 * is NULL, the new fiber is detached. attr may be NULL. ESHUTDOWN, EAGAIN, E2BIG, EPERM. */
int daiko_spawn(daiko_fiber **fiber, const daiko_fiber_attr *attr, daiko_function function,
                void *argument);
int daiko_spawn_on(daiko_runtime *runtime, daiko_fiber **fiber, const daiko_fiber_attr *attr,
                   daiko_function function, void *argument);

/* Waits for the end of a fiber, and uses the reference up. result may be NULL. EDEADLK: the fiber
 * is the caller; ETIMEDOUT, ECANCELED, EDEADLK: the reference is not used up. WAITS */
int daiko_join(daiko_fiber *fiber, void **result);
int daiko_join_until(daiko_fiber *fiber, void **result, const struct timespec *deadline);

/* Gives up the right to join, and uses the reference up. */
int daiko_detach(daiko_fiber *fiber);

/* Makes every call of the fiber that waits, or may wait, return ECANCELED. Nothing is unwound. A
 * fiber that has not started starts nevertheless. */
int daiko_cancel(daiko_fiber *fiber);

/* Is 1 if the caller is a cancelled fiber, else 0. A cancel by another worker may become visible
 * only at the next wait. */
int daiko_cancelled(void);

/* Lets the calling fiber wait again, for example to clean up. EPERM: no fiber calls. */
int daiko_cancel_clear(void);

/* The calling fiber; NULL if the caller is none. The pointer is no reference of its own: it is
 * valid until the fiber's function returns, or longer if retained. */
daiko_fiber *daiko_self(void);

/* Add and drop a reference, for daiko_unpark, daiko_cancel and daiko_fiber_name. */
int daiko_fiber_retain(daiko_fiber *fiber);
int daiko_fiber_release(daiko_fiber *fiber);

/* Copies the name, as much of it as fits, with a final 0. */
int daiko_fiber_name(daiko_fiber *fiber, char *to, size_t size);

/* ---- Waits without an object ---------------------------------------------------------------- */

/* Suspends until daiko_unpark, which an earlier call of it satisfies. Callers check their condition
 * in a loop. FIBERS ONLY, WAITS */
int daiko_park(void);

/* As daiko_park; returns 0 also once the deadline has passed. */
int daiko_park_until(const struct timespec *deadline);

/* Lets daiko_park of the fiber return: now, or when it is called next. */
int daiko_unpark(daiko_fiber *fiber);

/* Lets other fibers of the worker run. FIBERS ONLY, WAITS */
int daiko_yield(void);

/* WAITS */
int daiko_sleep_until(const struct timespec *deadline);

/* Between these calls, which nest, functions that may wait return EBUSY. EPERM: no fiber calls;
 * EOVERFLOW: 32,767 deep; EINVAL: no begin. */
int daiko_no_suspend_begin(void);
int daiko_no_suspend_end(void);

/* ---- Locks ---------------------------------------------------------------------------------- */

/* All of these may lie anywhere in memory, are never copied, and need no destruction: they own
 * nothing. Their sizes do not change. The holder of a lock unlocks it. A lock does not count: a
 * second lock by its holder waits for ever. */
typedef struct { uint64_t reserved[4]; } daiko_mutex;
typedef struct { uint64_t reserved[4]; } daiko_condvar;
typedef struct { uint64_t reserved[6]; } daiko_rwlock;
typedef struct { uint64_t reserved[4]; } daiko_semaphore;
typedef struct { uint64_t reserved[5]; } daiko_barrier;
typedef struct { uint64_t reserved[4]; } daiko_event;
typedef struct { uint64_t reserved[5]; } daiko_once_flag;

#define DAIKO_MUTEX_INITIALIZER { { 0, 0, 0, 0 } }
#define DAIKO_CONDVAR_INITIALIZER { { 0, 0, 0, 0 } }
#define DAIKO_RWLOCK_INITIALIZER { { 0, UINT64_C(0x7fffffff00000000), 0, 0, 0, 0 } }
#define DAIKO_SEMAPHORE_INITIALIZER(permits) { { 0, (uint64_t)(uint32_t)(permits) << 32, 0, 0 } }
#define DAIKO_EVENT_MANUAL_INITIALIZER { { 0, 0, 0, 0 } }
#define DAIKO_EVENT_AUTO_INITIALIZER { { 0, UINT64_C(4) << 32, 0, 0 } }
#define DAIKO_ONCE_INITIALIZER { { 0, 0, 0, 0, 0 } }

/* EBUSY: it is held (destroy, trylock); EPERM: it is not held (unlock). */
int daiko_mutex_init(daiko_mutex *mutex);
int daiko_mutex_destroy(daiko_mutex *mutex);
int daiko_mutex_lock(daiko_mutex *mutex);                                           /* WAITS */
int daiko_mutex_lock_until(daiko_mutex *mutex, const struct timespec *deadline);    /* WAITS */
int daiko_mutex_trylock(daiko_mutex *mutex);
int daiko_mutex_unlock(daiko_mutex *mutex);

/* The mutex is held again when a wait returns, by ECANCELED and ETIMEDOUT as well. EPERM: it is not
 * held. All waiters at a time use one mutex. */
int daiko_condvar_init(daiko_condvar *condvar);
int daiko_condvar_wait(daiko_condvar *condvar, daiko_mutex *mutex);                 /* WAITS */
int daiko_condvar_wait_until(daiko_condvar *condvar, daiko_mutex *mutex,
                             const struct timespec *deadline);                      /* WAITS */
int daiko_condvar_notify_one(daiko_condvar *condvar);
int daiko_condvar_notify_all(daiko_condvar *condvar);

/* EBUSY: it is held (try); EPERM: it is not held (unlock). */
int daiko_rwlock_init(daiko_rwlock *lock);
int daiko_rwlock_read(daiko_rwlock *lock);                                          /* WAITS */
int daiko_rwlock_read_until(daiko_rwlock *lock, const struct timespec *deadline);   /* WAITS */
int daiko_rwlock_tryread(daiko_rwlock *lock);
int daiko_rwlock_write(daiko_rwlock *lock);                                         /* WAITS */
int daiko_rwlock_write_until(daiko_rwlock *lock, const struct timespec *deadline);  /* WAITS */
int daiko_rwlock_trywrite(daiko_rwlock *lock);
int daiko_rwlock_unlock(daiko_rwlock *lock);

/* FIFO, of up to 2^31 - 1 permits. EAGAIN: they are not there (try); EOVERFLOW (release). */
int daiko_semaphore_init(daiko_semaphore *semaphore, uint32_t permits);
int daiko_semaphore_acquire(daiko_semaphore *semaphore, uint32_t count);            /* WAITS */
int daiko_semaphore_acquire_until(daiko_semaphore *semaphore, uint32_t count,
                                  const struct timespec *deadline);                 /* WAITS */
int daiko_semaphore_tryacquire(daiko_semaphore *semaphore, uint32_t count);
int daiko_semaphore_release(daiko_semaphore *semaphore, uint32_t count);

/* is_leader, which may be NULL, gets 1 for one of the parties, else 0. A party that returns
 * ETIMEDOUT or ECANCELED has not arrived. */
int daiko_barrier_init(daiko_barrier *barrier, uint32_t parties);
int daiko_barrier_wait(daiko_barrier *barrier, int *is_leader);                     /* WAITS */
int daiko_barrier_wait_until(daiko_barrier *barrier, int *is_leader,
                             const struct timespec *deadline);                      /* WAITS */

/* A set of a manual event lets all pass until the reset; one of an auto event lets one pass. */
int daiko_event_init(daiko_event *event, int is_auto);
int daiko_event_set(daiko_event *event);
int daiko_event_reset(daiko_event *event);
int daiko_event_wait(daiko_event *event);                                           /* WAITS */
int daiko_event_wait_until(daiko_event *event, const struct timespec *deadline);    /* WAITS */

/* Calls function once, and waits while another caller does. EDEADLK: function itself calls.
 * WAITS */
int daiko_once(daiko_once_flag *once, void (*function)(void *argument), void *argument);

/* ---- Channels of pointers ------------------------------------------------------------------- */

typedef struct daiko_channel daiko_channel;

#define DAIKO_CHANNEL_UNBOUNDED SIZE_MAX

/* Capacity 0: a send waits for its receiver. Any number of fibers and threads send and receive.
 * EPIPE: it is closed, and, for a receiver, empty; EAGAIN: it is full or empty (try). */
int daiko_channel_new(daiko_channel **channel, size_t capacity);
int daiko_channel_send(daiko_channel *channel, void *message);                      /* WAITS */
int daiko_channel_recv(daiko_channel *channel, void **message);                     /* WAITS */
int daiko_channel_send_until(daiko_channel *channel, void *message,
                             const struct timespec *deadline);                      /* WAITS */
int daiko_channel_recv_until(daiko_channel *channel, void **message,
                             const struct timespec *deadline);                      /* WAITS */
int daiko_channel_trysend(daiko_channel *channel, void *message);
int daiko_channel_tryrecv(daiko_channel *channel, void **message);
int daiko_channel_close(daiko_channel *channel);

/* No other call may use the channel any more. Messages in it are lost. NULL is ignored. */
int daiko_channel_free(daiko_channel *channel);

/* ---- Words in memory ------------------------------------------------------------------------ */

/* The word differs from value, equals it, is at least value, has a bit of value. */
#define DAIKO_CHANGED_FROM 0u
#define DAIKO_EQUAL 1u
#define DAIKO_AT_LEAST 2u
#define DAIKO_ANY_BIT 3u

/* Suspends until the word meets the condition; seen, which may be NULL, gets the value that did.
 * Agents sample the word, so its writer need not know. A value that comes and goes may be missed.
 * The writer's stores before a release of the word are visible. FIBERS ONLY, WAITS */
int daiko_watch_u8(const uint8_t *word, uint32_t condition, uint8_t value,
                   const struct timespec *deadline, uint8_t *seen);
int daiko_watch_u16(const uint16_t *word, uint32_t condition, uint16_t value,
                    const struct timespec *deadline, uint16_t *seen);
int daiko_watch_u32(const uint32_t *word, uint32_t condition, uint32_t value,
                    const struct timespec *deadline, uint32_t *seen);
int daiko_watch_u64(const uint64_t *word, uint32_t condition, uint64_t value,
                    const struct timespec *deadline, uint64_t *seen);
int daiko_watch_ptr(void *const *word, uint32_t condition, void *value,
                    const struct timespec *deadline, void **seen);

/* As daiko_watch_u64, for a word that is not sampled: its writer calls daiko_watch_notify. */
int daiko_watch_told_u64(const uint64_t *word, uint32_t condition, uint64_t value,
                         const struct timespec *deadline, uint64_t *seen);

/* Resumes the fibers of runtime (NULL: as daiko_spawn) that have a told watch of the word, if their
 * condition holds; resumed, which may be NULL, gets their number. */
int daiko_watch_notify(daiko_runtime *runtime, const uint64_t *word, size_t *resumed);

/* ---- Agents, blocking calls ----------------------------------------------------------------- */

typedef struct daiko_poller daiko_poller;

#define DAIKO_POLLER_ON_WORKER 1u      /* only the agent of attr.worker calls it */
#define DAIKO_POLLER_PEER_ELSEWHERE 2u /* the party that it looks for has a CPU of its own */

typedef struct daiko_poller_attr {
    size_t size;
    uint32_t flags;
    uint32_t worker;
    int wake_fd; /* wakes the worker when it is readable; duplicated; -1: none */
    uint32_t unused;
} daiko_poller_attr;

#define DAIKO_POLLER_ATTR_INITIALIZER \
    { sizeof(daiko_poller_attr), 0, 0, -1, 0 }

int daiko_poller_attr_init(daiko_poller_attr *attr, size_t size);

/* Lets agents of runtime (NULL: as daiko_spawn) call look, which must not wait, and returns the
 * number of events that it has found. attr may be NULL. E2BIG, EBADF. */
int daiko_poller_register(daiko_runtime *runtime, daiko_poller **poller,
                          const daiko_poller_attr *attr, size_t (*look)(void *argument),
                          void *argument);
int daiko_poller_set_active(daiko_poller *poller, int active);

/* Ends the polling; afterwards look is not running. WAITS */
int daiko_poller_unregister(daiko_poller *poller);

/* Calls function on a thread for blocking calls; result may be NULL. A cancel does not end it.
 * WAITS */
int daiko_blocking(daiko_function function, void *argument, void **result);

/* ---- Descriptors ---------------------------------------------------------------------------- */

/* As the system calls of these names; they return the codes of these as well. The open file becomes
 * non-blocking. deadline may be NULL: never. EOPNOTSUPP: the file is always ready. WAITS, all */
int daiko_read(int fd, void *to, size_t size, const struct timespec *deadline, size_t *done);
int daiko_write(int fd, const void *from, size_t size, const struct timespec *deadline,
                size_t *done);
int daiko_accept(int fd, struct sockaddr *address, socklen_t *size,
                 const struct timespec *deadline, int *accepted);
int daiko_connect(int fd, const struct sockaddr *address, socklen_t size,
                  const struct timespec *deadline);

/* Waits for POLLIN or for POLLOUT; seen, which may be NULL, gets the events of poll(2). */
int daiko_poll_fd(int fd, short events, const struct timespec *deadline, short *seen);

/* ---- Keys ----------------------------------------------------------------------------------- */

#define DAIKO_KEYS_MAX 1024u

/* A pointer of each fiber, or of each thread that is no fiber; NULL at first. destructor, which may
 * be NULL, gets the pointer at the end of the fiber, if it is not NULL; no key has a value then.
 * EAGAIN: there are DAIKO_KEYS_MAX; EPERM: set by a destructor. */
int daiko_key_create(uint32_t *key, void (*destructor)(void *value));
int daiko_key_delete(uint32_t key);
void *daiko_key_get(uint32_t key);
int daiko_key_set(uint32_t key, void *value);

/* ---- Segments: memory that processes share -------------------------------------------------- */

typedef struct daiko_segment daiko_segment;

/* Whether a segment, or an object in it, shall exist: ENOENT, EEXIST. */
#define DAIKO_OPEN 0u
#define DAIKO_CREATE 1u
#define DAIKO_OPEN_OR_CREATE 2u

/* Attaches to a segment: a file of this path, or of this name in /dev/shm if it has no slash. bytes
 * is its size if it is created. EACCES, ENOSPC; ENOTSUP: it is no segment, or of another version;
 * EIO: it was cut short. */
int daiko_segment_open(daiko_segment **segment, const char *path, uint32_t how, size_t bytes);

/* As daiko_segment_open, for other users besides the caller's own: these, and the members of these
 * groups. All its programs name the same users and groups. EACCES: it is of another user, or
 * for more users; ENOTSUP: its file system has no access-control lists. A user or group that is
 * permitted can change all values, and cut the segment short. */
int daiko_segment_open_for(daiko_segment **segment, const char *path, uint32_t how, size_t bytes,
                           const uint32_t *users, size_t user_count, const uint32_t *groups,
                           size_t group_count);

/* Removes the file; attached processes keep the memory. */
int daiko_segment_remove(daiko_segment *segment);

/* Objects that were opened keep the memory until they are closed. */
int daiko_segment_detach(daiko_segment *segment);

/* Objects have names in the segment. EINVAL: the name is that of another kind of object. A handle
 * is of one process. Deadlines may be NULL: never. A close of a handle leaves the object. */
typedef struct daiko_shared_mutex daiko_shared_mutex;
typedef struct daiko_shared_semaphore daiko_shared_semaphore;
typedef struct daiko_shared_event daiko_shared_event;
typedef struct daiko_shared_condvar daiko_shared_condvar;
typedef struct daiko_shared_once daiko_shared_once;
typedef struct daiko_shared_barrier daiko_shared_barrier;
typedef struct daiko_shared_party daiko_shared_party;

/* EOWNERDEAD: a holder has died, and the mutex is held; daiko_shared_mutex_consistent ends that
 * state. EPERM: it is not held by this handle. EBUSY: it is (close). */
int daiko_shared_mutex_open(daiko_shared_mutex **mutex, daiko_segment *segment, const char *name,
                            uint32_t how);
int daiko_shared_mutex_lock(daiko_shared_mutex *mutex,
                            const struct timespec *deadline);                       /* WAITS */
int daiko_shared_mutex_unlock(daiko_shared_mutex *mutex);
int daiko_shared_mutex_consistent(daiko_shared_mutex *mutex);
int daiko_shared_mutex_close(daiko_shared_mutex *mutex);

/* mutex is held by the caller, and is held again at any end of the wait, also by a cancel. A wait
 * may end without a notification. EOWNERDEAD: as daiko_shared_mutex_lock. */
int daiko_shared_condvar_open(daiko_shared_condvar **condvar, daiko_segment *segment,
                              const char *name, uint32_t how);
int daiko_shared_condvar_wait(daiko_shared_condvar *condvar, daiko_shared_mutex *mutex,
                              const struct timespec *deadline);                     /* WAITS */
int daiko_shared_condvar_notify_one(daiko_shared_condvar *condvar);
int daiko_shared_condvar_notify_all(daiko_shared_condvar *condvar);
int daiko_shared_condvar_close(daiko_shared_condvar *condvar);

/* permit gets the number of the permit, to release it by. The permits of a process that has died
 * are free again. EPERM: this process does not hold the permit. */
int daiko_shared_semaphore_open(daiko_shared_semaphore **semaphore, daiko_segment *segment,
                                const char *name, uint32_t how, uint32_t permits);
int daiko_shared_semaphore_acquire(daiko_shared_semaphore *semaphore,
                                   const struct timespec *deadline,
                                   uint32_t *permit);                               /* WAITS */
int daiko_shared_semaphore_release(daiko_shared_semaphore *semaphore, uint32_t permit);
int daiko_shared_semaphore_close(daiko_shared_semaphore *semaphore);

int daiko_shared_event_open(daiko_shared_event **event, daiko_segment *segment, const char *name,
                            uint32_t how);
int daiko_shared_event_set(daiko_shared_event *event);
int daiko_shared_event_reset(daiko_shared_event *event);
int daiko_shared_event_wait(daiko_shared_event *event,
                            const struct timespec *deadline);                       /* WAITS */
int daiko_shared_event_close(daiko_shared_event *event);

/* is_again is not 0 if an earlier call has not completed, because its process has died. */
typedef void (*daiko_initialiser)(void *argument, int is_again);

/* Calls init, unless it or another has completed here; waits for one that is running, until the
 * deadline. init does not call its own object. */
int daiko_shared_once_open(daiko_shared_once **once, daiko_segment *segment, const char *name,
                           uint32_t how);
int daiko_shared_once_call(daiko_shared_once *once, daiko_initialiser init, void *argument,
                           const struct timespec *deadline);                        /* WAITS */
int daiko_shared_once_close(daiko_shared_once *once);

/* A barrier for 1 to 4096 parties, of any processes. A party belongs to one fiber or thread at a
 * time. EBUSY: all parties are taken (connect), or another call uses this one. is_leader, which may
 * be NULL, gets 1 for one party of each round. EOWNERDEAD: a party has died before it arrived;
 * EPIPE: one was closed; ETIMEDOUT. After these the caller has arrived, and a further call goes on
 * to wait in the same round. */
int daiko_shared_barrier_open(daiko_shared_barrier **barrier, daiko_segment *segment,
                              const char *name, uint32_t how, uint32_t parties);
int daiko_shared_barrier_close(daiko_shared_barrier *barrier);
int daiko_shared_party_connect(daiko_shared_party **party, daiko_shared_barrier *barrier);
int daiko_shared_party_wait(daiko_shared_party *party, const struct timespec *deadline,
                            int *is_leader);                                        /* WAITS */
int daiko_shared_party_close(daiko_shared_party *party);

typedef struct daiko_shared_channel daiko_shared_channel;
typedef struct daiko_shared_sender daiko_shared_sender;
typedef struct daiko_shared_receiver daiko_shared_receiver;

/* A channel of records of record_size bytes, from 1 to 256 senders at a time to one receiver. The
 * records of a sender keep their order. capacity is the number of records of each sender that can
 * be on the way: 1 to 2^20, rounded up to a power of two. If the channel exists, both numbers are
 * its creator's. A program in Rust opens it as a Channel of any type of this size. EINVAL: the
 * channel has records of another size. Its ends outlive the handle. */
int daiko_shared_channel_open(daiko_shared_channel **channel, daiko_segment *segment,
                              const char *name, uint32_t how, size_t record_size,
                              uint32_t capacity, uint32_t senders);
int daiko_shared_channel_close(daiko_shared_channel *channel);

/* An end belongs to one fiber or thread at a time. Once it is closed, or its process has died, the
 * next end goes on from there. record has record_size bytes. EBUSY: all ends of this kind are in
 * use (connect), or another call uses this end. EPIPE: the receiver is closed or has died; or all
 * senders are closed or have died, and their records are received. A channel that had no such end
 * yet waits for it. EAGAIN: it is full or empty (try); EIO: the segment was cut short; EBADMSG: a
 * process broke the protocol. */
int daiko_shared_sender_connect(daiko_shared_sender **sender, daiko_shared_channel *channel);
int daiko_shared_sender_send(daiko_shared_sender *sender, const void *record,
                             const struct timespec *deadline);                      /* WAITS */
int daiko_shared_sender_trysend(daiko_shared_sender *sender, const void *record);
int daiko_shared_sender_close(daiko_shared_sender *sender);

int daiko_shared_receiver_connect(daiko_shared_receiver **receiver, daiko_shared_channel *channel);
int daiko_shared_receiver_recv(daiko_shared_receiver *receiver, void *record,
                               const struct timespec *deadline);                    /* WAITS */
int daiko_shared_receiver_tryrecv(daiko_shared_receiver *receiver, void *record);
int daiko_shared_receiver_close(daiko_shared_receiver *receiver);

typedef struct daiko_shared_mpmc daiko_shared_mpmc;
typedef struct daiko_shared_mpmc_sender daiko_shared_mpmc_sender;
typedef struct daiko_shared_mpmc_receiver daiko_shared_mpmc_receiver;

/* As daiko_shared_channel_open, for 1 to 256 processes that send, and as many that receive: each
 * record goes to one receiver. capacity is for each process that sends. */
int daiko_shared_mpmc_open(daiko_shared_mpmc **channel, daiko_segment *segment, const char *name,
                           uint32_t how, size_t record_size, uint32_t capacity, uint32_t senders,
                           uint32_t receivers);
int daiko_shared_mpmc_close(daiko_shared_mpmc *channel);

/* Any fibers and threads of the process may use an end at the same time. The codes are those of the
 * other channel; EBUSY: so many other processes have such ends. EPIPE: all receivers are closed or
 * have died; records on the way go to later receivers. */
int daiko_shared_mpmc_sender_connect(daiko_shared_mpmc_sender **sender,
                                     daiko_shared_mpmc *channel);
int daiko_shared_mpmc_sender_send(daiko_shared_mpmc_sender *sender, const void *record,
                                  const struct timespec *deadline);                 /* WAITS */
int daiko_shared_mpmc_sender_trysend(daiko_shared_mpmc_sender *sender, const void *record);
int daiko_shared_mpmc_sender_close(daiko_shared_mpmc_sender *sender);

int daiko_shared_mpmc_receiver_connect(daiko_shared_mpmc_receiver **receiver,
                                       daiko_shared_mpmc *channel);
int daiko_shared_mpmc_receiver_recv(daiko_shared_mpmc_receiver *receiver, void *record,
                                    const struct timespec *deadline);               /* WAITS */
int daiko_shared_mpmc_receiver_tryrecv(daiko_shared_mpmc_receiver *receiver, void *record);
int daiko_shared_mpmc_receiver_close(daiko_shared_mpmc_receiver *receiver);

typedef struct daiko_client daiko_client;
typedef struct daiko_server daiko_server;

/* Gets the request in the first size bytes of memory, writes the reply there, and returns its
 * length, at most room. The client may write to the memory meanwhile if it breaks the protocol. */
typedef size_t (*daiko_handler)(void *argument, unsigned char *memory, size_t size, size_t room);

int daiko_client_connect(daiko_client **client, daiko_segment *segment, const char *name);

/* Sends a request and waits for its reply; size gets the length of that. ECONNREFUSED: no process
 * serves it; EOWNERDEAD: the server died with the request in hand; EMSGSIZE: the request does not
 * fit into a slot, or the reply not into room. WAITS */
int daiko_client_call(daiko_client *client, const void *request, size_t request_size,
                      const struct timespec *deadline, void *reply, size_t room, size_t *size);
int daiko_client_close(daiko_client *client);

/* Creates the service if there is none, with so many slots of so many bytes, and serves it by
 * fibers of the caller's runtime, or of the default one. EBUSY: it is served already. */
int daiko_service_serve(daiko_server **server, daiko_segment *segment, const char *name,
                        uint32_t slots, uint32_t slot_bytes, daiko_handler handler,
                        void *argument);

/* As daiko_service_serve, shared with up to 15 other servers that were started by this function.
 * Each request is taken by one of them. */
int daiko_service_share(daiko_server **server, daiko_segment *segment, const char *name,
                        uint32_t slots, uint32_t slot_bytes, daiko_handler handler,
                        void *argument);

/* Stops serving, after the calls in hand. WAITS */
int daiko_server_stop(daiko_server *server);

#ifdef __cplusplus
}
#endif

#endif

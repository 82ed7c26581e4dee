/* Cancels in the waits for objects of a segment, and calls these with bad input. */
#include "cancel.h"
#include <unistd.h>

static daiko_segment *segment;
static daiko_shared_mutex *held, *again, *again_too;
static daiko_shared_semaphore *semaphore;
static daiko_shared_event *event;
static daiko_shared_channel *full, *empty;
static daiko_shared_sender *sender, *feed;
static daiko_shared_receiver *receiver, *drain;
static daiko_shared_condvar *condvar;
static daiko_shared_once *once;
static daiko_shared_barrier *barrier;
static daiko_shared_party *one, *other;
static daiko_shared_mpmc *many;
static daiko_shared_mpmc_sender *many_sender;
static daiko_shared_mpmc_receiver *many_receiver;
static daiko_client *client;
static daiko_server *server;
static daiko_event reply = DAIKO_EVENT_AUTO_INITIALIZER, gate = DAIKO_EVENT_AUTO_INITIALIZER;
static daiko_fiber *initialiser;
static uint32_t permit, mine;
static size_t size;
static char text[8], record[3];

/* The handler waits as well: in a server that is stopped it would be cancelled. */
static size_t answers(void *none, unsigned char *memory, size_t length, size_t room)
{
    (void)none;
    CHECK(room >= 8, 1);
    OK(daiko_event_wait(&reply));
    memory[0]++;
    return length;
}

static void init(void *is_running, int is_again)
{
    CHECK(is_again, 0);
    *(int *)is_running = 1;
    OK(daiko_event_wait(&gate));
    *(int *)is_running = 0;
}

static void *initialises(void *is_running)
{
    OK(daiko_shared_once_call(once, init, is_running, NULL));
    return is_running;
}

/* Opens an object that a fiber is about to initialise, after that of the last case. */
static void start_initialiser(void)
{
    static int is_running;
    static char name[8] = "once  ";
    if (is_running)
        OK(daiko_event_set(&gate));
    if (once) {
        OK(daiko_join(initialiser, NULL));
        OK(daiko_shared_once_close(once));
    }
    name[4]++;
    OK(daiko_shared_once_open(&once, segment, name, DAIKO_CREATE));
    OK(daiko_spawn(&initialiser, NULL, initialises, &is_running));
    while (!is_running)
        OK(daiko_yield());
}

#define CASES(X) \
    X(shared_condvar_wait, , OK(daiko_shared_mutex_lock(again_too, NULL)); \
      code = daiko_shared_condvar_wait(condvar, again_too, NULL); \
      OK(daiko_shared_mutex_unlock(again_too)), OK(daiko_shared_condvar_notify_one(condvar))) \
    X(shared_once_call, start_initialiser(), code = daiko_shared_once_call(once, init, NULL, &far), \
      OK(daiko_event_set(&gate))) \
    X(shared_party_wait, , code = daiko_shared_party_wait(one, NULL, NULL), \
      CHECK(daiko_shared_party_close(one), EBUSY); OK(daiko_shared_party_wait(other, NULL, NULL))) \
    X(shared_mpmc_sender_send, while (daiko_shared_mpmc_sender_trysend(many_sender, "ab") == 0) {}, \
      code = daiko_shared_mpmc_sender_send(many_sender, "cd", &far), \
      OK(daiko_shared_mpmc_receiver_tryrecv(many_receiver, record))) \
    X(shared_mpmc_receiver_recv, \
      while (daiko_shared_mpmc_receiver_tryrecv(many_receiver, record) == 0) {}, \
      code = daiko_shared_mpmc_receiver_recv(many_receiver, record, NULL), \
      OK(daiko_shared_mpmc_sender_send(many_sender, "gh", NULL))) \
    X(shared_mutex_lock, , HOLDS(daiko_shared_mutex_lock(again, NULL), daiko_shared_mutex_unlock(again)), \
      OK(daiko_shared_mutex_unlock(held)); OK(daiko_yield()); OK(daiko_yield()); \
      OK(daiko_shared_mutex_lock(held, NULL))) \
    X(shared_semaphore_acquire, , code = daiko_shared_semaphore_acquire(semaphore, &far, &permit), \
      OK(daiko_shared_semaphore_release(semaphore, mine)); mine = 0) \
    X(shared_event_wait, OK(daiko_shared_event_reset(event)), \
      code = daiko_shared_event_wait(event, NULL), OK(daiko_shared_event_set(event))) \
    X(shared_sender_send, while (daiko_shared_sender_trysend(sender, "ab") == 0) {}, \
      code = daiko_shared_sender_send(sender, "cd", &far), \
      CHECK(daiko_shared_sender_close(sender), EBUSY); \
      OK(daiko_shared_receiver_tryrecv(drain, record))) \
    X(shared_receiver_recv, , code = daiko_shared_receiver_recv(receiver, record, NULL), \
      CHECK(daiko_shared_receiver_close(receiver), EBUSY); \
      OK(daiko_shared_sender_send(feed, "ef", NULL))) \
    X(client_call, , code = daiko_client_call(client, "a", 1, &far, text, 8, &size), \
      OK(daiko_event_set(&reply)); OK(daiko_yield()); OK(daiko_event_set(&reply)))

CASES(X)
#define NAMED(name, before, wait, wake) CASE(name)
static const struct wait_case cases[] = { CASES(NAMED) };

#define TELL(what, call, code) \
    do { printf(what " %.*s\n", (int)strcspn(#call, "("), #call); CHECK(call, code); } while (0)
#define BAD(call, code) TELL("bad input", call, code)
#define AT_ONCE(call) TELL("cancelled", call, ECANCELED)
#define NONE(call) BAD(call, EINVAL)

static void bad_input(void)
{
    NONE(daiko_segment_open(NULL, NULL, 0, 0)); NONE(daiko_segment_open(&segment, NULL, 0, 0));
    NONE(daiko_segment_open_for(NULL, NULL, 0, 0, NULL, 0, NULL, 0));
    NONE(daiko_segment_open_for(&segment, "x", 0, 0, NULL, 1, NULL, 0));
    NONE(daiko_segment_open_for(&segment, "x", 0, 0, NULL, 0, (uint32_t *)(void *)1, 1));
    NONE(daiko_segment_remove(NULL)); NONE(daiko_segment_detach(NULL));
    NONE(daiko_shared_mutex_open(NULL, NULL, NULL, 0)); NONE(daiko_shared_mutex_lock(NULL, NULL));
    NONE(daiko_shared_mutex_unlock(NULL)); NONE(daiko_shared_mutex_consistent(NULL));
    NONE(daiko_shared_mutex_close(NULL)); NONE(daiko_shared_semaphore_open(NULL, NULL, NULL, 0, 1));
    NONE(daiko_shared_semaphore_acquire(NULL, NULL, NULL)); NONE(daiko_shared_semaphore_close(NULL));
    NONE(daiko_shared_semaphore_release(NULL, 0)); NONE(daiko_shared_event_open(NULL, NULL, NULL, 0));
    NONE(daiko_shared_event_set(NULL)); NONE(daiko_shared_event_reset(NULL));
    NONE(daiko_shared_event_wait(NULL, NULL)); NONE(daiko_shared_event_close(NULL));
    NONE(daiko_shared_channel_open(NULL, NULL, NULL, 0, 1, 1, 1)); NONE(daiko_shared_channel_close(NULL));
    NONE(daiko_shared_sender_connect(NULL, NULL)); NONE(daiko_shared_sender_send(NULL, NULL, NULL));
    NONE(daiko_shared_sender_trysend(NULL, NULL)); NONE(daiko_shared_sender_close(NULL));
    NONE(daiko_shared_receiver_connect(NULL, NULL)); NONE(daiko_shared_receiver_close(NULL));
    NONE(daiko_shared_receiver_recv(NULL, NULL, NULL)); NONE(daiko_shared_receiver_tryrecv(NULL, NULL));
    NONE(daiko_shared_condvar_open(NULL, NULL, NULL, 0)); NONE(daiko_shared_condvar_close(NULL));
    NONE(daiko_shared_condvar_wait(NULL, NULL, NULL)); NONE(daiko_shared_condvar_notify_one(NULL));
    NONE(daiko_shared_condvar_notify_all(NULL)); NONE(daiko_shared_once_open(NULL, NULL, NULL, 0));
    NONE(daiko_shared_once_call(NULL, init, NULL, NULL)); NONE(daiko_shared_once_close(NULL));
    NONE(daiko_shared_barrier_open(NULL, NULL, NULL, 0, 1)); NONE(daiko_shared_barrier_close(NULL));
    NONE(daiko_shared_party_connect(NULL, NULL)); NONE(daiko_shared_party_close(NULL));
    NONE(daiko_shared_party_wait(NULL, NULL, NULL)); NONE(daiko_shared_mpmc_close(NULL));
    NONE(daiko_shared_mpmc_open(NULL, NULL, NULL, 0, 1, 1, 1, 1));
    NONE(daiko_shared_mpmc_sender_connect(NULL, NULL)); NONE(daiko_shared_mpmc_sender_close(NULL));
    NONE(daiko_shared_mpmc_sender_send(NULL, NULL, NULL));
    NONE(daiko_shared_mpmc_sender_trysend(NULL, NULL)); NONE(daiko_shared_mpmc_receiver_close(NULL));
    NONE(daiko_shared_mpmc_receiver_connect(NULL, NULL));
    NONE(daiko_shared_mpmc_receiver_recv(NULL, NULL, NULL));
    NONE(daiko_shared_mpmc_receiver_tryrecv(NULL, NULL));
    NONE(daiko_client_connect(NULL, NULL, NULL)); NONE(daiko_client_close(NULL));
    NONE(daiko_client_call(NULL, NULL, 1, NULL, NULL, 1, &size)); NONE(daiko_server_stop(NULL));
    NONE(daiko_service_serve(NULL, NULL, NULL, 1, 64, answers, NULL));
    NONE(daiko_service_share(NULL, NULL, NULL, 1, 64, answers, NULL));
    BAD(daiko_segment_open(&segment, "daiko-test-none", DAIKO_OPEN, 0), ENOENT);
}

static void of_several(const char *name)
{
    uint32_t group = getgid();
    daiko_segment *again;
    daiko_server *one, *other, *third;
    OK(daiko_segment_open_for(&segment, name, DAIKO_CREATE, 1 << 20, NULL, 0, &group, 1));
    OK(daiko_segment_open_for(&again, name, DAIKO_OPEN, 0, NULL, 0, &group, 1));
    OK(daiko_segment_detach(again));
    CHECK(daiko_segment_open(&again, name, DAIKO_OPEN, 0), EACCES);
    OK(daiko_segment_remove(segment));
    OK(daiko_service_share(&one, segment, "c", 4, 64, answers, NULL));
    OK(daiko_service_share(&other, segment, "c", 4, 64, answers, NULL));
    CHECK(daiko_service_serve(&third, segment, "c", 4, 64, answers, NULL), EBUSY);
    OK(daiko_server_stop(one));
    OK(daiko_server_stop(other));
    OK(daiko_segment_detach(segment));
}

static void *run(void *none)
{
    char name[32];
    snprintf(name, sizeof name, "daiko-test-%d", (int)getpid());
    of_several(name);
    OK(daiko_segment_open(&segment, name, DAIKO_CREATE, 1 << 20));
    OK(daiko_segment_remove(segment));
    OK(daiko_shared_mutex_open(&held, segment, "m", DAIKO_CREATE));
    CHECK(daiko_shared_mutex_open(&again, segment, "m", DAIKO_CREATE), EEXIST);
    OK(daiko_shared_mutex_open(&again, segment, "m", DAIKO_OPEN));
    CHECK(daiko_shared_mutex_unlock(held), EPERM);
    OK(daiko_shared_mutex_lock(held, NULL));
    OK(daiko_shared_semaphore_open(&semaphore, segment, "s", DAIKO_OPEN_OR_CREATE, 1));
    CHECK(daiko_shared_semaphore_release(semaphore, 7), EPERM);
    OK(daiko_shared_semaphore_acquire(semaphore, NULL, &mine));
    OK(daiko_shared_mutex_open(&again_too, segment, "n", DAIKO_CREATE));
    OK(daiko_shared_condvar_open(&condvar, segment, "v", DAIKO_OPEN_OR_CREATE));
    CHECK(daiko_shared_condvar_wait(condvar, again_too, NULL), EPERM);
    OK(daiko_shared_barrier_open(&barrier, segment, "b", DAIKO_CREATE, 2));
    OK(daiko_shared_party_connect(&one, barrier));
    OK(daiko_shared_party_connect(&other, barrier));
    OK(daiko_shared_mpmc_open(&many, segment, "many", DAIKO_CREATE, 3, 2, 1, 1));
    OK(daiko_shared_mpmc_sender_connect(&many_sender, many));
    OK(daiko_shared_mpmc_receiver_connect(&many_receiver, many));
    OK(daiko_shared_event_open(&event, segment, "e", DAIKO_CREATE));
    OK(daiko_shared_channel_open(&full, segment, "full", DAIKO_CREATE, 3, 2, 1));
    OK(daiko_shared_sender_connect(&sender, full));
    OK(daiko_shared_receiver_connect(&drain, full));
    OK(daiko_shared_channel_open(&empty, segment, "empty", DAIKO_OPEN_OR_CREATE, 3, 2, 1));
    OK(daiko_shared_sender_connect(&feed, empty));
    OK(daiko_shared_receiver_connect(&receiver, empty));
    OK(daiko_service_serve(&server, segment, "c", 4, 64, answers, NULL));
    OK(daiko_client_connect(&client, segment, "c"));
    run_cases(cases, sizeof cases / sizeof *cases);
    OK(memcmp(text, "b", 1));
    OK(strcmp(record, "ef"));
    CHECK(daiko_shared_once_call(once, NULL, NULL, NULL), EINVAL);
    OK(daiko_cancel(daiko_self()));
    AT_ONCE(daiko_shared_mutex_lock(again, NULL));
    AT_ONCE(daiko_shared_semaphore_acquire(semaphore, NULL, &permit));
    AT_ONCE(daiko_shared_event_wait(event, NULL));
    AT_ONCE(daiko_shared_sender_send(feed, "gh", NULL));
    AT_ONCE(daiko_shared_receiver_recv(drain, record, NULL));
    AT_ONCE(daiko_shared_condvar_wait(condvar, again_too, NULL));
    AT_ONCE(daiko_shared_once_call(once, init, NULL, NULL));
    AT_ONCE(daiko_shared_party_wait(one, NULL, NULL));
    AT_ONCE(daiko_shared_mpmc_sender_send(many_sender, "gh", NULL));
    AT_ONCE(daiko_shared_mpmc_receiver_recv(many_receiver, record, NULL));
    AT_ONCE(daiko_client_call(client, "a", 1, NULL, text, 8, &size));
    AT_ONCE(daiko_server_stop(server));
    OK(daiko_cancel_clear());
    OK(daiko_client_close(client));
    OK(daiko_server_stop(server));
    OK(daiko_segment_detach(segment));
    return none;
}

int main(void)
{
    bad_input();
    in_runtime(1, run);
    return 0;
}

// A map in persistent memory: a red-black tree in which every change is a transaction of
// libpmemobj.
//
// - run POOL BYTES NODES SEED: inserts NODES nodes, prints "ready", then removes one node and
//   inserts one at random, forever. Counts from SIGUSR1 to SIGUSR2, then prints operations,
//   nanoseconds, and nanoseconds of CPU time.
// - steps POOL BYTES SEED STEPS AT: does random operations, and is killed at write AT of these, if
//   that is not 0.
// - verify POOL: opens the pool, which undoes an unfinished change, checks that it is a tree, and
//   prints all keys with their values.
//
// Status 2: a line on standard error states the error of usage, pool or machine. Status 3: the map
// is wrong.
#define _GNU_SOURCE
#include <inttypes.h>
#include <libpmemobj.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define LAYOUT "daiko-smt-rbtree"
enum { BLACK, RED };
enum { LEFT, RIGHT };

// Positions are offsets in the pool. All leaves are one node, `nil` of the tree, which is black.
// Its parent is meaningful only during a removal.
typedef uint64_t offset;

struct node {
    uint64_t key, value;
    offset parent, child[2];
    uint64_t colour;
};

struct tree {
    offset root, nil;
    uint64_t count;
};

static PMEMobjpool *pool;
static struct tree *tree;
static uint64_t pool_id;
static uint64_t writes, dies_at;

static void fail(int status, const char *what, const char *why) {
    fprintf(stderr, "%s%s%s\n", what, why ? ": " : "", why ? why : "");
    exit(status);
}

static void wrong(const char *what) {
    fail(3, "the map is wrong", what);
}

static struct node *at(offset node) {
    return (struct node *)((char *)pool + node);
}

// Adds a range to the transaction, which saves its old contents, before a change.
static void announce(void *start, size_t bytes) {
    if (++writes == dies_at)
        raise(SIGKILL);
    pmemobj_tx_add_range_direct(start, bytes);
}

#define SET(place, value)                                                                          \
    do {                                                                                           \
        announce(&(place), sizeof(place));                                                         \
        (place) = (value);                                                                         \
    } while (0)

// Does `change` in a transaction, completely or not at all.
static void transact(void (*change)(uint64_t, uint64_t), uint64_t key, uint64_t value) {
    TX_BEGIN(pool) {
        change(key, value);
    } TX_ONABORT {
        fail(2, "a transaction was aborted", pmemobj_errormsg());
    } TX_END
}

static offset new_node(uint64_t key, uint64_t value, uint64_t colour) {
    PMEMoid id = pmemobj_tx_zalloc(sizeof(struct node), 0);
    struct node *node = at(id.off);
    node->key = key;
    node->value = value;
    node->colour = colour;
    node->parent = node->child[LEFT] = node->child[RIGHT] = tree->nil;
    return id.off;
}

// The tree follows Cormen, Leiserson, Rivest and Stein, "Introduction to Algorithms", chapter 13.

static int side_of(offset node) {
    return at(at(node)->parent)->child[RIGHT] == node;
}

// Puts `node` in the place of `old` below its parent.
static void replace(offset old, offset node) {
    offset parent = at(old)->parent;
    if (parent == tree->nil)
        SET(tree->root, node);
    else
        SET(at(parent)->child[side_of(old)], node);
    SET(at(node)->parent, parent);
}

// Moves `node` down to `side`, and its child on the other side up into its place.
static void rotate(offset node, int side) {
    offset up = at(node)->child[!side];
    offset middle = at(up)->child[side];
    SET(at(node)->child[!side], middle);
    if (middle != tree->nil)
        SET(at(middle)->parent, node);
    replace(node, up);
    SET(at(up)->child[side], node);
    SET(at(node)->parent, up);
}

static offset find(uint64_t key) {
    offset node = tree->root;
    while (node != tree->nil && at(node)->key != key)
        node = at(node)->child[at(node)->key < key];
    return node;
}

// Restores the colours after an insertion: `node` is red, and its parent may be red.
static void mend_insert(offset node) {
    while (at(at(node)->parent)->colour == RED) {
        offset parent = at(node)->parent;
        int side = side_of(parent);
        offset up = at(parent)->parent;
        offset uncle = at(up)->child[!side];
        if (at(uncle)->colour == RED) {
            SET(at(parent)->colour, BLACK);
            SET(at(uncle)->colour, BLACK);
            SET(at(up)->colour, RED);
            node = up;
            continue;
        }
        if (side_of(node) != side) {
            rotate(parent, side);
            parent = node;
        }
        SET(at(parent)->colour, BLACK);
        SET(at(up)->colour, RED);
        rotate(up, !side);
        break;
    }
    if (at(tree->root)->colour == RED)
        SET(at(tree->root)->colour, BLACK);
}

static void insert(uint64_t key, uint64_t value) {
    offset parent = tree->nil, node = tree->root;
    while (node != tree->nil) {
        if (at(node)->key == key) {
            SET(at(node)->value, value);
            return;
        }
        parent = node;
        node = at(node)->child[at(node)->key < key];
    }
    node = new_node(key, value, RED);
    at(node)->parent = parent;
    if (parent == tree->nil)
        SET(tree->root, node);
    else
        SET(at(parent)->child[at(parent)->key < key], node);
    SET(tree->count, tree->count + 1);
    mend_insert(node);
}

// Restores the colours after a removal: the paths through `node` have one black node less than
// other paths.
static void mend_remove(offset node) {
    while (node != tree->root && at(node)->colour == BLACK) {
        offset parent = at(node)->parent;
        int side = side_of(node);
        offset sibling = at(parent)->child[!side];
        if (at(sibling)->colour == RED) {
            SET(at(sibling)->colour, BLACK);
            SET(at(parent)->colour, RED);
            rotate(parent, side);
            sibling = at(parent)->child[!side];
        }
        offset near = at(sibling)->child[side], far = at(sibling)->child[!side];
        if (at(near)->colour == BLACK && at(far)->colour == BLACK) {
            SET(at(sibling)->colour, RED);
            node = parent;
            continue;
        }
        if (at(far)->colour == BLACK) {
            SET(at(near)->colour, BLACK);
            SET(at(sibling)->colour, RED);
            rotate(sibling, !side);
            sibling = near;
            far = at(sibling)->child[!side];
        }
        SET(at(sibling)->colour, at(parent)->colour);
        SET(at(parent)->colour, BLACK);
        SET(at(far)->colour, BLACK);
        rotate(parent, side);
        node = tree->root;
    }
    if (at(node)->colour == RED)
        SET(at(node)->colour, BLACK);
}

static void remove_key(uint64_t key, uint64_t unused) {
    (void)unused;
    offset node = find(key);
    if (node == tree->nil)
        return;
    offset gone = node;
    if (at(node)->child[LEFT] != tree->nil && at(node)->child[RIGHT] != tree->nil)
        for (gone = at(node)->child[RIGHT]; at(gone)->child[LEFT] != tree->nil;)
            gone = at(gone)->child[LEFT];
    // `gone` has at most one child. Its key and value move up to `node`.
    offset child = at(gone)->child[at(gone)->child[LEFT] == tree->nil];
    replace(gone, child);
    if (gone != node) {
        SET(at(node)->key, at(gone)->key);
        SET(at(node)->value, at(gone)->value);
    }
    SET(tree->count, tree->count - 1);
    if (at(gone)->colour == BLACK)
        mend_remove(child);
    pmemobj_tx_free((PMEMoid){pool_id, gone});
}

// Checks the nodes below `node`. Returns the number of black nodes on each path below it.
static uint64_t verify_below(offset node, offset parent, uint64_t least, uint64_t most,
                             uint64_t *count, void (*visit)(const struct node *)) {
    if (node == tree->nil)
        return 1;
    const struct node *here = at(node);
    if (here->parent != parent)
        wrong("the parent of a node does not have it as a child");
    if (here->key < least || here->key > most)
        wrong("a key is out of order");
    if (here->colour == RED && at(parent)->colour == RED)
        wrong("a red node has a red parent");
    if (++*count > tree->count)
        wrong("there are more nodes than the count says");
    // No key is 0 or the largest number.
    uint64_t left = verify_below(here->child[LEFT], node, least, here->key - 1, count, visit);
    if (visit)
        visit(here);
    uint64_t right = verify_below(here->child[RIGHT], node, here->key + 1, most, count, visit);
    if (left != right)
        wrong("paths have unlike numbers of black nodes");
    return left + (here->colour == BLACK);
}

static void verify(void (*visit)(const struct node *)) {
    uint64_t count = 0;
    if (at(tree->nil)->colour != BLACK || at(tree->root)->colour != BLACK)
        wrong("the root or a leaf is red");
    verify_below(tree->root, tree->nil, 1, UINT64_MAX - 1, &count, visit);
    if (count != tree->count)
        wrong("there are fewer nodes than the count says");
}

static void make_tree(uint64_t unused, uint64_t unused_too) {
    (void)unused, (void)unused_too;
    announce(tree, sizeof *tree);
    tree->nil = new_node(0, 0, BLACK);
    tree->root = tree->nil;
}

static void use(PMEMobjpool *opened) {
    pool = opened;
    PMEMoid root = pmemobj_root(pool, sizeof(struct tree));
    if (OID_IS_NULL(root))
        fail(2, "no room for the root of a pool", pmemobj_errormsg());
    tree = pmemobj_direct(root);
    pool_id = root.pool_uuid_lo;
    if (tree->nil == 0)
        transact(make_tree, 0, 0);
}

static void create(const char *path, uint64_t bytes) {
    PMEMobjpool *created = pmemobj_create(path, LAYOUT, bytes, 0600);
    if (!created) {
        fprintf(stderr, "cannot have a pool of %" PRIu64 " bytes: %s\n", bytes, pmemobj_errormsg());
        exit(2);
    }
    use(created);
}

static void open_pool(const char *path) {
    PMEMobjpool *opened = pmemobj_open(path, LAYOUT);
    if (!opened)
        fail(2, "cannot open the pool", pmemobj_errormsg());
    use(opened);
}

static uint64_t state;

// xorshift64* (Vigna, "An experimental exploration of Marsaglia's xorshift generators, scrambled",
// 2016). The state must not be 0.
static uint64_t random_number(void) {
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * UINT64_C(2685821657736338717);
}

static uint64_t below(uint64_t bound) {
    return (uint64_t)(((unsigned __int128)random_number() * bound) >> 64);
}

static void seed(const char *word) {
    state = strtoull(word, NULL, 10) * 2 + 1;
}

// Uses so few keys that a step often finds its key in the tree. The lab's tests do the same steps
// on a map of their own.
static void random_steps(uint64_t steps) {
    for (uint64_t step = 0; step < steps; step++) {
        uint64_t key = 1 + below(512), value = random_number();
        transact(value & 1 ? insert : remove_key, key, value);
        if (step % 16 == 0)
            verify(NULL);
    }
}

static void print(const struct node *node) {
    printf("%" PRIu64 " %" PRIu64 "\n", node->key, node->value);
}

static volatile sig_atomic_t begun, ended;

static void on_signal(int number) {
    if (number == SIGUSR1)
        begun = 1;
    else
        ended = 1;
}

static uint64_t now(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static uint64_t new_key(void) {
    return 1 + below(UINT64_MAX - 2);
}

static void run(uint64_t nodes) {
    uint64_t *keys = calloc(nodes, sizeof *keys);
    if (!keys || nodes == 0)
        fail(2, "no memory for so many keys, or none at all", NULL);
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGUSR2, &action, NULL);
    for (uint64_t index = 0; index < nodes; index++)
        transact(insert, keys[index] = new_key(), index);
    puts("ready");
    fflush(stdout);
    uint64_t operations = 0, start = 0, start_cpu = 0;
    for (;;) {
        // After it has begun, it counts at least one operation, however soon it is ended.
        if (begun && !start) {
            start = now(CLOCK_MONOTONIC);
            start_cpu = now(CLOCK_THREAD_CPUTIME_ID);
            operations = 0;
        } else if (ended) {
            break;
        }
        uint64_t index = below(nodes);
        transact(remove_key, keys[index], 0);
        transact(insert, keys[index] = new_key(), operations);
        operations += 2;
    }
    uint64_t elapsed = start ? now(CLOCK_MONOTONIC) - start : 0;
    uint64_t cpu = start ? now(CLOCK_THREAD_CPUTIME_ID) - start_cpu : 0;
    printf("%" PRIu64 " %" PRIu64 " %" PRIu64 "\n", start ? operations : 0, elapsed, cpu);
    if (tree->count != nodes)
        wrong("keys are missing or occurred twice");
    verify(NULL);
}

int main(int count, char **words) {
    // The parent may be killed; this process would then use a CPU for nothing.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const char *mode = count > 2 ? words[1] : "";
    if (!strcmp(mode, "verify") && count == 3) {
        open_pool(words[2]);
        verify(print);
    } else if (!strcmp(mode, "run") && count == 6) {
        create(words[2], strtoull(words[3], NULL, 10));
        // The file is removed when this process ends.
        unlink(words[2]);
        seed(words[5]);
        run(strtoull(words[4], NULL, 10));
    } else if (!strcmp(mode, "steps") && count == 7) {
        create(words[2], strtoull(words[3], NULL, 10));
        seed(words[4]);
        writes = 0;
        dies_at = strtoull(words[6], NULL, 10);
        random_steps(strtoull(words[5], NULL, 10));
    } else {
        fail(2, "run POOL BYTES NODES SEED, steps POOL BYTES SEED STEPS AT, verify POOL", NULL);
    }
    pmemobj_close(pool);
    return 0;
}

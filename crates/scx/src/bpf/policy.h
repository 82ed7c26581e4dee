/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The decisions of the scheduler: plain C without the kernel, also compiled for the machine by
 * tests (tests/native.rs).
 *
 * Placement of woken tasks is from Goda and Tago, "Improvement of load balancing at process wake-up
 * that considers interrupts which follow the process"; it has to choose the CPUs in
 * crates/core/src/place/follow/vectors.txt. Pairs are from P4 and decided like `wanted` and
 * `ends_look` in crates/core/src/place/pair/pick.rs.
 */
#ifndef DAIKO_POLICY_H
#define DAIKO_POLICY_H

typedef unsigned char __u8;
typedef short __s16;
typedef unsigned short __u16;
typedef int __s32;
typedef unsigned int __u32;
typedef long long __s64;
typedef unsigned long long __u64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;

#define INLINE static inline __attribute__((always_inline, unused))

#define WORDS 2
#define MOST_CPUS (64 * WORDS)
#define NOWHERE 0xffff

/* Nanoseconds that a task may run while other tasks wait. */
#define SLICE 5000000
/* Virtual time by which a task that does not sleep is behind the clock at most. */
#define LAG (20 * SLICE)
/* Nanoseconds that a task waits for its share at most, if all CPUs are equally busy: the kernel
 * detaches a scheduler under which a task waits for 10 s. */
#define REACH 2000000000ULL

/* Weights are those of the kernel's control groups: 100 is that of nice 0. Shares are weights in
 * parts of 1 / GRAIN. */
#define NORMAL 100
#define GRAIN 1024

/* Number of queued tasks that are looked at for a complement. */
#define LOOKS 4
/* Largest number of times that a queued task is passed over. */
#define PASSES 4

/* A bit for each CPU. */
struct cpus {
	__u64 word[WORDS];
};

/*
 * Placement at a wake-up. SHARED is FOLLOW without holds: if no CPU is idle, the task waits in the
 * queue of its domain, not in that of the chosen CPU.
 */
enum policy { EXISTING = 0, FOLLOW = 1, SHARED = 2 };

/* The effect of a running task on its core, numbered as `Class` of crates/core. */
enum class { UNKNOWN = 0, COMPUTE = 1, STALL = 2, CLASSES = 3 };

/* The state of a task. */
struct memory {
	__u16 home; /* CPU of the last placement */
	__u16 left; /* CPU that the last wake-up has taken it from */
	__u8 held; /* further wake-ups for which it stays at most */
};

/* The outcome of a hold at a wake-up. */
enum hold { NOT_HELD, STILL_HELD, FOLLOWED, BOUND_REACHED };

struct verdict {
	__u16 chosen;
	__u8 hold;
	__u8 swap; /* returns to the CPU it just left, which wakes it */
	__u8 balanced; /* was moved between wake-ups */
};

/* The idle CPUs that a task may use. */
struct view {
	struct cpus cores; /* with idle siblings only */
	struct cpus beside; /* best beside the class of the task */
	struct cpus idle; /* all of them */
};

INLINE int has(const struct cpus *set, __u16 cpu)
{
	__u64 word = 0;

	/* Only constant indices: the verifier accepts no computed index into a stack. */
	for (int at = 0; at < WORDS; at++)
		if (at == cpu / 64)
			word = set->word[at];
	return word >> cpu % 64 & 1;
}

INLINE int is_empty(const struct cpus *set)
{
	__u64 any = 0;

	for (int at = 0; at < WORDS; at++)
		any |= set->word[at];
	return !any;
}

INLINE struct cpus both(const struct cpus *one, const struct cpus *other)
{
	struct cpus set;

	for (int at = 0; at < WORDS; at++)
		set.word[at] = one->word[at] & other->word[at];
	return set;
}

INLINE struct cpus without(const struct cpus *one, const struct cpus *other)
{
	struct cpus set;

	for (int at = 0; at < WORDS; at++)
		set.word[at] = one->word[at] & ~other->word[at];
	return set;
}

INLINE int size_of(const struct cpus *set)
{
	int size = 0;

	for (int at = 0; at < WORDS; at++)
		size += __builtin_popcountll(set->word[at]);
	return size;
}

/* The first CPU of the set that is not below `from`, or NOWHERE. */
INLINE __u16 first_from(const struct cpus *set, __u16 from)
{
	for (int at = 0; at < WORDS; at++) {
		__u64 word = set->word[at];

		if (at < from / 64)
			continue;
		if (at == from / 64)
			word &= ~0ULL << from % 64;
		if (word)
			return 64 * at + __builtin_ctzll(word);
	}
	return NOWHERE;
}

/*
 * The kernel's policy: the waking CPU if it is idle; else the previous CPU if it is idle; else the
 * next idle CPU behind the waker, wrapping around; the waker if no CPU is idle.
 */
INLINE __u16 existing(__u16 waker, __u16 previous, const struct cpus *idle)
{
	__u16 next;

	if (has(idle, waker))
		return waker;
	if (has(idle, previous))
		return previous;
	next = first_from(idle, waker);
	if (next == NOWHERE)
		next = first_from(idle, 0);
	return next == NOWHERE ? waker : next;
}

/*
 * The same policy for CPUs that share cores: among idle cores; else among the idle CPUs beside a
 * complement; else among all idle CPUs. Without siblings these are the same.
 */
INLINE __u16 prefer(__u16 waker, __u16 previous, const struct view *view)
{
	struct cpus set = view->cores;

	if (is_empty(&set))
		set = view->beside;
	if (is_empty(&set))
		set = view->idle;
	return existing(waker, previous, &set);
}

/*
 * The same policy, but a moved task stays on its CPU until that CPU has processed a wake-up, for at
 * most `bound` wake-ups.
 */
INLINE void follow(struct memory *task, __u16 waker, __u16 previous, const struct view *view, __u8 bound,
		 struct verdict *verdict)
{
	if (task->home != previous && task->home != NOWHERE) {
		verdict->balanced = 1;
		task->held = bound;
	}
	task->home = previous;
	verdict->chosen = previous;
	if (task->held) {
		task->held = waker == previous ? 0 : task->held - 1;
		verdict->hold = task->held ? STILL_HELD : waker == previous ? FOLLOWED : BOUND_REACHED;
		return;
	}
	task->home = verdict->chosen = prefer(waker, previous, view);
	if (task->home != previous)
		task->held = bound;
}

/* Decides on a wake-up and updates the state of the task. */
INLINE struct verdict place(struct memory *task, __u32 policy, __u8 bound, __u16 waker, __u16 previous,
			  const struct view *view)
{
	struct verdict verdict = {};

	if (policy == FOLLOW) {
		follow(task, waker, previous, view, bound, &verdict);
	} else {
		verdict.balanced = task->home != previous && task->home != NOWHERE;
		verdict.chosen = policy == SHARED && is_empty(&view->idle) ? previous :
									     prefer(waker, previous, view);
		task->home = verdict.chosen;
		task->held = 0;
	}
	verdict.swap = verdict.chosen != previous && verdict.chosen == waker && verdict.chosen == task->left;
	task->left = verdict.chosen != previous ? previous : NOWHERE;
	return verdict;
}

/*
 * The best class beside these siblings: the complement of the class that most of them run, or
 * UNKNOWN if neither class outnumbers the other.
 */
INLINE __u8 wanted(const struct cpus *siblings, const struct cpus *stalling, const struct cpus *computing)
{
	struct cpus stall = both(siblings, stalling), compute = both(siblings, computing);
	int more = size_of(&compute) - size_of(&stall);

	return more == 0 ? UNKNOWN : more > 0 ? STALL : COMPUTE;
}

/*
 * Whether no queued task behind this one is looked at: it has the wanted class, or was passed over
 * often enough.
 */
INLINE int ends_look(__u8 wanted, __u8 class, __u8 passed)
{
	return class == wanted || passed >= PASSES;
}

/* Whether a task shares its core with its own kind. */
INLINE int is_doubled(__u8 class, __u8 wanted)
{
	return class != UNKNOWN && wanted != UNKNOWN && class != wanted;
}

/* Whether one virtual time is before another; they wrap around. */
INLINE int is_before(__u64 one, __u64 other)
{
	return (__s64)(one - other) < 0;
}

/*
 * The share of a member with `part` of the load of a group, of which the weight is `own`; `share`
 * is its share without this group.
 */
INLINE __u64 portion(__u64 share, __u64 part, __u64 load, __u64 own)
{
	return share * own / (load > part ? load : part);
}

/* Virtual time for a time on the CPU: the same as the time for the share of nice 0. */
INLINE __u64 charge(__u64 used, __u64 share)
{
	return used * (NORMAL * GRAIN) / (share ? share : 1);
}

/* The virtual time by which a task may be ahead of the clock, for this load of a number of CPUs. */
INLINE __u64 farthest(__u64 load, __u32 cpus)
{
	__u64 reach = REACH * NORMAL * cpus / (load ? load : 1);

	return reach < LAG ? LAG : reach;
}

/*
 * The virtual time of a task that comes from a queue with one clock to a queue with another: its
 * distance to the clock remains.
 */
INLINE __u64 carry(__u64 vtime, __u64 clock_of_old, __u64 clock_of_new)
{
	return vtime - clock_of_old + clock_of_new;
}

/*
 * The virtual time of a task in its queue. A task that has slept gains a slice at most, any other
 * one a lag, which it may have as its share was more than a CPU. No task is farther ahead than
 * `most`, as its share may have been small for a moment only.
 */
INLINE __u64 bounded(__u64 vtime, __u64 clock, int slept, __u64 most)
{
	__u64 least = clock - (slept ? SLICE : LAG);

	if (is_before(vtime, least))
		return least;
	return is_before(clock + most, vtime) ? clock + most : vtime;
}

/* A decision, for tests. */
struct trial {
	struct memory task;
	__u16 waker, previous;
	__u32 policy, bound;
	struct cpus idle;
	struct verdict verdict;
};

INLINE void decide(struct trial *trial)
{
	/* Copies, as accesses to a context need constant offsets. */
	struct view view = { .idle = trial->idle };
	struct memory task = trial->task;

	trial->verdict = place(&task, trial->policy, trial->bound, trial->waker, trial->previous, &view);
	trial->task = task;
}

#endif

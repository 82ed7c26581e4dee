// SPDX-License-Identifier: GPL-2.0
/*
 * Placement of woken tasks, as a scheduler of sched_ext: the existing policy of kernels, or the
 * policy by which tasks wait for the interrupt that wakes them (crates/scx/README.md).
 *
 * From Goda and Tago, "Improvement of load balancing at process wake-up that considers interrupts
 * which follow the process". The part above DAIKO_POLICY_ONLY is plain C and is also compiled for
 * the machine by tests. It has to choose the CPUs in crates/core/src/place/follow/vectors.txt.
 */

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

#define WORDS 2
#define MOST_CPUS (64 * WORDS)
#define NOWHERE 0xffff

/* A bit for each CPU. */
struct cpus {
	__u64 word[WORDS];
};

enum policy { EXISTING = 0, FOLLOW = 1 };

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

static inline __attribute__((always_inline)) int has(const struct cpus *set, __u16 cpu)
{
	__u64 word = 0;

	/* Only constant indices: the verifier accepts no computed index into a stack. */
	for (int at = 0; at < WORDS; at++)
		if (at == cpu / 64)
			word = set->word[at];
	return word >> cpu % 64 & 1;
}

/* The first CPU of the set that is not below `from`, or NOWHERE. */
static inline __attribute__((always_inline)) __u16 first_from(const struct cpus *set, __u16 from)
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
static inline __attribute__((always_inline)) __u16 existing(__u16 waker, __u16 previous, const struct cpus *idle)
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
 * The same policy, but a moved task stays on its CPU until that CPU has processed a wake-up, for at
 * most `bound` wake-ups.
 */
static inline __attribute__((always_inline)) void follow(struct memory *task, __u16 waker, __u16 previous,
							 const struct cpus *idle, __u8 bound, struct verdict *verdict)
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
	task->home = verdict->chosen = existing(waker, previous, idle);
	if (task->home != previous)
		task->held = bound;
}

/* Decides on a wake-up and updates the state of the task. */
static inline __attribute__((always_inline)) struct verdict place(struct memory *task, __u32 policy, __u8 bound,
								  __u16 waker, __u16 previous, const struct cpus *idle)
{
	struct verdict verdict = {};

	if (policy == FOLLOW) {
		follow(task, waker, previous, idle, bound, &verdict);
	} else {
		verdict.balanced = task->home != previous && task->home != NOWHERE;
		task->home = verdict.chosen = existing(waker, previous, idle);
		task->held = 0;
	}
	verdict.swap = verdict.chosen != previous && verdict.chosen == waker && verdict.chosen == task->left;
	task->left = verdict.chosen != previous ? previous : NOWHERE;
	return verdict;
}

/* A wake-up with its decision, for tests. */
struct trial {
	struct memory task;
	__u16 waker, previous;
	__u32 policy, bound;
	struct cpus idle;
	struct verdict verdict;
};

static inline __attribute__((always_inline)) void decide(struct trial *trial)
{
	/* Copies, as accesses to a context need constant offsets. */
	struct cpus idle = trial->idle;
	struct memory task = trial->task;

	trial->verdict = place(&task, trial->policy, trial->bound, trial->waker, trial->previous, &idle);
	trial->task = task;
}

#ifndef DAIKO_POLICY_ONLY

#define BPF_MAP_TYPE_ARRAY 2
#define BPF_MAP_TYPE_PERCPU_ARRAY 6
#define BPF_MAP_TYPE_RINGBUF 27
#define BPF_MAP_TYPE_TASK_STORAGE 29
#define BPF_F_NO_PREALLOC 1
#define BPF_LOCAL_STORAGE_GET_F_CREATE 1

struct bpf_iter_num {
	__u64 opaque;
};

#include <stdbool.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

char _license[] SEC("license") = "GPL";

/* The used members of the kernel's types. libbpf finds their offsets when the program is loaded. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct cpumask {
	unsigned long bits[WORDS];
};

struct sched_ext_entity {
	__u32 flags;
};

struct task_struct {
	int pid;
	unsigned int flags;
	int nr_cpus_allowed;
	const struct cpumask *cpus_ptr;
	struct sched_ext_entity scx;
};

enum scx_exit_kind { SCX_EXIT_NONE };

struct scx_exit_info {
	enum scx_exit_kind kind;
	__s64 exit_code;
	const char *reason;
	char *msg;
};

#pragma clang attribute pop

struct scx_init_task_args;

/* libbpf finds each member by its name. */
struct sched_ext_ops {
	__s32 (*select_cpu)(struct task_struct *, __s32, __u64);
	void (*enqueue)(struct task_struct *, __u64);
	void (*dispatch)(__s32, struct task_struct *);
	void (*tick)(struct task_struct *);
	__s32 (*init_task)(struct task_struct *, struct scx_init_task_args *);
	__s32 (*init)(void);
	void (*exit)(struct scx_exit_info *);
	__u32 timeout_ms;
	char name[128];
};

/* Constants of the kernel, which are the same in all versions with sched_ext. */
#define PF_KTHREAD 0x00200000
#define SCX_TASK_QUEUED 1
#define SCX_WAKE_TTWU 8
#define SCX_KICK_IDLE 1
#define SCX_DSQ_LOCAL (1ULL << 63 | 2)

/* Weak, so that a kernel without sched_ext can load the trial below. */
__s32 scx_bpf_create_dsq(__u64 queue, __s32 node) __ksym __weak;
void scx_bpf_dsq_insert(struct task_struct *p, __u64 queue, __u64 slice, __u64 flags) __ksym __weak;
bool scx_bpf_dsq_insert___v2(struct task_struct *p, __u64 queue, __u64 slice, __u64 flags) __ksym __weak;
bool scx_bpf_dsq_move_to_local(__u64 queue) __ksym __weak;
bool scx_bpf_dsq_move_to_local___v2(__u64 queue, __u64 flags) __ksym __weak;
__s32 scx_bpf_dsq_nr_queued(__u64 queue) __ksym __weak;
void scx_bpf_kick_cpu(__s32 cpu, __u64 flags) __ksym __weak;
__u32 scx_bpf_nr_cpu_ids(void) __ksym __weak;
__s32 scx_bpf_pick_any_cpu(const struct cpumask *allowed, __u64 flags) __ksym __weak;
__s32 scx_bpf_pick_idle_cpu(const struct cpumask *allowed, __u64 flags) __ksym __weak;
bool scx_bpf_test_and_clear_cpu_idle(__s32 cpu) __ksym __weak;
const struct cpumask *scx_bpf_get_idle_cpumask(void) __ksym __weak;
void scx_bpf_put_idle_cpumask(const struct cpumask *mask) __ksym __weak;
__s32 scx_bpf_task_cpu(const struct task_struct *p) __ksym __weak;

/* Nanoseconds that a task may run while other tasks wait. */
#define SLICE 5000000

/* Set by the loader at any time: `settings` of src/loader/maps.rs. */
enum setting { POLICY, BOUND, RECORDER, STOP, SETTINGS };

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SETTINGS);
	__type(key, __u32);
	__type(value, __u32);
} settings SEC(".maps");

/* In the order of src/counters.rs. */
enum counter { WAKES, MIGRATIONS, SWAPS, HELD, FOLLOWS, BOUNDS, BALANCED, STOLEN, LOST, COUNTERS };

struct counts {
	__u64 count[COUNTERS];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct counts);
} counters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct memory);
} memories SEC(".maps");

/* For each CPU: 1 + the CPU that offers it a task. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MOST_CPUS);
	__type(key, __u32);
	__type(value, __u32);
} offers SEC(".maps");

/* A wake-up in the format of src/event.rs. */
struct event {
	__u64 time; /* ns since boot */
	__u32 task;
	__u16 waker, previous, chosen, unused[3];
	struct cpus idle;
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4 << 20);
} events SEC(".maps");

/* Reason for the end of this scheduler, in the format of src/ending.rs; of kind 0 while it runs. */
struct ending {
	__s32 kind, unused;
	__s64 code;
	char reason[128];
	char message[256];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ending);
} endings SEC(".maps");

static inline __u32 setting(__u32 which)
{
	__u32 *value = bpf_map_lookup_elem(&settings, &which);

	return value ? *value : 0;
}

static inline void count(enum counter which)
{
	__u32 first = 0;
	struct counts *counts = bpf_map_lookup_elem(&counters, &first);

	if (counts)
		counts->count[which]++;
}

static inline void insert(struct task_struct *p, __u64 queue, __u64 flags)
{
	if (bpf_ksym_exists(scx_bpf_dsq_insert___v2))
		scx_bpf_dsq_insert___v2(p, queue, SLICE, flags);
	else
		scx_bpf_dsq_insert(p, queue, SLICE, flags);
}

static inline bool take_from(__u64 queue)
{
	if (bpf_ksym_exists(scx_bpf_dsq_move_to_local___v2))
		return scx_bpf_dsq_move_to_local___v2(queue, 0);
	return scx_bpf_dsq_move_to_local(queue);
}

static inline __u64 lowest(__u32 bits)
{
	return bits < 64 ? (1ULL << bits) - 1 : ~0ULL;
}

/* Bits behind the possible CPUs are undefined. A kernel for up to 64 CPUs has one word only. */
static inline struct cpus read_mask(const struct cpumask *mask)
{
	__u32 cpus = scx_bpf_nr_cpu_ids();
	struct cpus set = {};

	set.word[0] = mask->bits[0] & lowest(cpus);
	if (bpf_core_field_size(mask->bits) > sizeof(mask->bits[0]) && cpus > 64)
		set.word[1] = mask->bits[1] & lowest(cpus - 64);
	return set;
}

static inline struct cpus idle_and(const struct cpus *allowed)
{
	const struct cpumask *mask = scx_bpf_get_idle_cpumask();
	struct cpus idle = read_mask(mask);

	scx_bpf_put_idle_cpumask(mask);
	for (int at = 0; at < WORDS; at++)
		idle.word[at] &= allowed->word[at];
	return idle;
}

static inline void count_verdict(const struct verdict *verdict, __u16 previous)
{
	count(WAKES);
	if (verdict->chosen != previous)
		count(MIGRATIONS);
	if (verdict->swap)
		count(SWAPS);
	if (verdict->hold != NOT_HELD)
		count(HELD);
	if (verdict->hold == FOLLOWED)
		count(FOLLOWS);
	if (verdict->hold == BOUND_REACHED)
		count(BOUNDS);
	if (verdict->balanced)
		count(BALANCED);
}

static inline void record(const struct task_struct *p, __u16 waker, __u16 previous, const struct cpus *idle,
			  __u16 chosen)
{
	struct event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);

	if (!event) {
		count(LOST);
		return;
	}
	*event = (struct event){ .time = bpf_ktime_get_boot_ns(), .task = p->pid, .waker = waker,
				 .previous = previous, .chosen = chosen, .idle = *idle };
	bpf_ringbuf_submit(event, 0);
}

/* Chooses a CPU for a wake-up, or for a starting task, which is not counted as a wake-up. */
static inline __u16 choose(struct task_struct *p, __u16 waker, __u16 previous, const struct cpus *idle,
			   __u64 wake_flags)
{
	struct memory *task = bpf_task_storage_get(&memories, p, NULL, 0);
	struct verdict verdict;

	if (!task || !(wake_flags & SCX_WAKE_TTWU))
		return existing(waker, previous, idle);
	verdict = place(task, setting(POLICY), setting(BOUND), waker, previous, idle);
	count_verdict(&verdict, previous);
	if (setting(RECORDER))
		record(p, waker, previous, idle, verdict.chosen);
	return verdict.chosen;
}

SEC("struct_ops/select_cpu")
__s32 BPF_PROG(follow_select_cpu, struct task_struct *p, __s32 previous, __u64 wake_flags)
{
	struct cpus allowed = read_mask(p->cpus_ptr);
	struct cpus idle = idle_and(&allowed);
	__s32 cpu = choose(p, bpf_get_smp_processor_id(), previous, &idle, wake_flags);

	/* The policies ignore affinity: the waker's CPU and the previous CPU may be forbidden by now. */
	if (!has(&allowed, cpu))
		cpu = has(&allowed, previous) ? previous : scx_bpf_pick_any_cpu(p->cpus_ptr, 0);
	if (cpu >= 0 && has(&idle, cpu) && scx_bpf_test_and_clear_cpu_idle(cpu))
		insert(p, SCX_DSQ_LOCAL, 0);
	return cpu;
}

/* Queues the task on its CPU. An idle CPU may take it from there. */
SEC("struct_ops/enqueue")
void BPF_PROG(follow_enqueue, struct task_struct *p, __u64 flags)
{
	__s32 cpu = scx_bpf_task_cpu(p);

	if (p->flags & PF_KTHREAD && p->nr_cpus_allowed == 1) {
		insert(p, SCX_DSQ_LOCAL, flags);
		return;
	}
	insert(p, cpu, flags);
	/* The CPU may have become idle since it was found busy. */
	scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

/*
 * Takes a task from a queue of at least `least` tasks. Two are an imbalance; a single task will
 * have its turn.
 */
static inline bool steal(__u64 queue, __s32 least)
{
	if (scx_bpf_dsq_nr_queued(queue) < least || !take_from(queue))
		return false;
	count(STOLEN);
	return true;
}

SEC("struct_ops/dispatch")
void BPF_PROG(follow_dispatch, __s32 cpu, struct task_struct *running)
{
	__u32 cpus = scx_bpf_nr_cpu_ids(), key = cpu, step;
	__u32 *offer = bpf_map_lookup_elem(&offers, &key);

	if (take_from(cpu) || (running && running->scx.flags & SCX_TASK_QUEUED))
		return;
	if (offer && *offer) {
		__u32 from = *offer - 1;

		*offer = 0;
		if (steal(from, 1))
			return;
	}
	bpf_for(step, 1, cpus)
		if (steal((cpu + step) % cpus, 2))
			return;
}

/* Offers a task that waits behind a running task to an idle CPU. */
SEC("struct_ops/tick")
void BPF_PROG(follow_tick, struct task_struct *p)
{
	__s32 here = scx_bpf_task_cpu(p), cpu;
	__u32 key, *offer;

	if (scx_bpf_dsq_nr_queued(here) <= 0)
		return;
	cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (cpu < 0)
		return;
	key = cpu;
	offer = bpf_map_lookup_elem(&offers, &key);
	if (offer)
		*offer = here + 1;
	scx_bpf_kick_cpu(cpu, 0);
}

SEC("struct_ops.s/init_task")
__s32 BPF_PROG(follow_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct memory fresh = { .home = NOWHERE, .left = NOWHERE };

	return bpf_task_storage_get(&memories, p, &fresh, BPF_LOCAL_STORAGE_GET_F_CREATE)
		       ? 0
		       : -12; /* ENOMEM */
}

SEC("struct_ops.s/init")
__s32 BPF_PROG(follow_init)
{
	__u32 cpus = scx_bpf_nr_cpu_ids();
	__u32 cpu;

	if (cpus > MOST_CPUS)
		return -7; /* E2BIG; the loader has checked this before */
	bpf_for(cpu, 0, cpus) {
		__s32 error = scx_bpf_create_dsq(cpu, -1);

		if (error)
			return error;
	}
	return 0;
}

SEC("struct_ops/exit")
void BPF_PROG(follow_exit, struct scx_exit_info *info)
{
	__u32 first = 0;
	struct ending *ending = bpf_map_lookup_elem(&endings, &first);

	if (!ending)
		return;
	bpf_probe_read_kernel_str(ending->reason, sizeof(ending->reason), info->reason);
	bpf_probe_read_kernel_str(ending->message, sizeof(ending->message), info->msg);
	ending->code = info->exit_code;
	ending->kind = info->kind;
}

/*
 * Hotplug is left to the kernel, which detaches schedulers without hotplug callbacks and gives the
 * reason.
 */
SEC(".struct_ops.link")
struct sched_ext_ops daiko_follow = {
	.select_cpu = (void *)follow_select_cpu,
	.enqueue = (void *)follow_enqueue,
	.dispatch = (void *)follow_dispatch,
	.tick = (void *)follow_tick,
	.init_task = (void *)follow_init_task,
	.init = (void *)follow_init,
	.exit = (void *)follow_exit,
	.timeout_ms = 10000,
	.name = "daiko_follow",
};

/* Runs the policy in a kernel with or without sched_ext. */
SEC("syscall")
int try_policy(struct trial *trial)
{
	decide(trial);
	return 0;
}

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/* The maps of the scheduler and their accessors. */
#ifndef DAIKO_STATE_H
#define DAIKO_STATE_H

#include "kernel.h"

/* Set by the loader at any time: `Setting` of src/loader/maps.rs. */
enum setting { POLICY, BOUND, RECORDER, STOP, PAIR, SETTINGS };

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SETTINGS);
	__type(key, __u32);
	__type(value, __u32);
} settings SEC(".maps");

/* In the order of src/counters.rs. */
enum counter {
	WAKES, MIGRATIONS, SWAPS, HELD, FOLLOWS, BOUNDS, BALANCED, STOLEN, LOST,
	CORE, PAIRED, DOUBLED, SKIPPED, MOVED, EXCHANGED, COUNTERS
};

struct counts {
	__u64 count[COUNTERS];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct counts);
} counters SEC(".maps");

/* A CPU, as described by the loader before the scheduler is attached (src/processor.rs). */
struct processor {
	struct cpus siblings; /* the other CPUs of its core */
	__u64 domain; /* number of the queue that it shares with the CPUs of its cache */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MOST_CPUS);
	__type(key, __u32);
	__type(value, struct processor);
} processors SEC(".maps");

/* Declared classes of threads. The kernel removes them with the threads. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, __u32);
} classes SEC(".maps");

struct task {
	struct memory memory;
	__u8 passed; /* times that it was passed over in its queue */
	__u8 placed; /* waits in the queue of the CPU that was chosen for it */
	__u8 sought; /* an idle CPU was looked for at this wake-up */
	__u8 slept; /* has not been queued and has not run since it was woken */
	__u8 crowded; /* ends of slices in a row with a busy sibling */
	__u32 domain; /* the clock of its virtual time */
	__u32 weight; /* its part of the load of a group, or 0 while it is not runnable */
	__u64 group; /* the group that it belongs to */
	__u64 member; /* the group that has its weight */
	__u64 vtime;
	__u64 began; /* its CPU time when it began to run */
	__u64 queued; /* when it was queued, in ns */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task);
} tasks SEC(".maps");

/* The virtual time of each domain: the largest at which a task began a slice. */
static __u64 clocks[MOST_CPUS];

/* The number of domains and of CPUs, and whether any CPU has siblings. */
static __u32 domains;
static __u32 machine;
static bool has_siblings;

/* The CPUs that run tasks of each class. */
static struct cpus running_class[CLASSES];

/* The CPUs that run a task which may run elsewhere. */
static struct cpus movable;

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


/* Queues: one for each CPU, numbered like it, then one for each domain. */
static inline __u64 queue_of_domain(__u32 domain)
{
	return MOST_CPUS + domain;
}

static inline struct task *task_of(struct task_struct *p)
{
	return bpf_task_storage_get(&tasks, p, NULL, 0);
}

static inline __u8 class_of(struct task_struct *p)
{
	__u32 *class = bpf_task_storage_get(&classes, p, NULL, 0);

	return class && *class < CLASSES ? *class : UNKNOWN;
}

static inline __u32 domain_of(__u32 cpu)
{
	struct processor *processor = bpf_map_lookup_elem(&processors, &cpu);

	return processor ? processor->domain % MOST_CPUS : 0;
}

INLINE struct cpus siblings_of(__u32 cpu)
{
	struct processor *processor = bpf_map_lookup_elem(&processors, &cpu);

	return processor ? processor->siblings : (struct cpus){};
}

static inline __u8 wanted_at(__u32 cpu)
{
	struct cpus siblings = siblings_of(cpu);

	return wanted(&siblings, &running_class[STALL], &running_class[COMPUTE]);
}

static inline bool may_run(const struct task_struct *p, __s32 cpu)
{
	struct cpus allowed = read_mask(p->cpus_ptr);

	return has(&allowed, cpu) && (!p->migration_disabled || scx_bpf_task_cpu(p) == cpu);
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

/* Counts a slice that begins. */
static inline void count_slice(__u32 cpu, __u8 class)
{
	__u8 best = wanted_at(cpu);

	if (class == UNKNOWN || best == UNKNOWN)
		return;
	count(is_doubled(class, best) ? DOUBLED : PAIRED);
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

#endif

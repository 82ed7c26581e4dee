/* SPDX-License-Identifier: GPL-2.0 */
/* The kernel's types, functions and constants that the scheduler uses. */
#ifndef DAIKO_KERNEL_H
#define DAIKO_KERNEL_H

#include "policy.h"

#define BPF_MAP_TYPE_HASH 1
#define BPF_MAP_TYPE_ARRAY 2
#define BPF_MAP_TYPE_PERCPU_ARRAY 6
#define BPF_MAP_TYPE_RINGBUF 27
#define BPF_MAP_TYPE_TASK_STORAGE 29
#define BPF_F_NO_PREALLOC 1
#define BPF_LOCAL_STORAGE_GET_F_CREATE 1

struct bpf_iter_num {
	__u64 opaque;
};

struct bpf_iter_scx_dsq {
	__u64 opaque[6];
};

#include <stdbool.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

/* The used members of the kernel's types. libbpf finds their offsets when the program is loaded. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct cpumask {
	unsigned long bits[WORDS];
};

struct sched_ext_entity {
	__u32 flags;
	__u32 weight;
	__u64 slice;
	__u64 dsq_vtime;
};

struct sched_entity {
	__u64 sum_exec_runtime;
};

struct task_struct {
	int pid;
	unsigned int flags;
	int nr_cpus_allowed;
	unsigned short migration_disabled;
	const struct cpumask *cpus_ptr;
	struct sched_entity se;
	struct sched_ext_entity scx;
};

struct kernfs_node {
	__u64 id;
};

struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
};

struct cgroup {
	struct cgroup_subsys_state self;
	struct kernfs_node *kn;
};

struct scx_init_task_args {
	struct cgroup *cgroup;
};

struct scx_cgroup_init_args {
	__u32 weight;
};

enum scx_exit_kind { SCX_EXIT_NONE };

struct scx_exit_info {
	enum scx_exit_kind kind;
	__s64 exit_code;
	const char *reason;
	char *msg;
};

struct scx_bpf_dsq_insert_vtime_args {
	__u64 dsq_id;
	__u64 slice;
	__u64 vtime;
	__u64 enq_flags;
};

enum scx_enq_flags { SCX_ENQ_LAST = 1 };

#pragma clang attribute pop

/*
 * libbpf finds each member by its name. The loader takes the first ones out (`GROUP_OPERATIONS` of
 * src/loader/mod.rs) for a kernel without them.
 */
struct sched_ext_ops {
	__s32 (*cgroup_init)(struct cgroup *, struct scx_cgroup_init_args *);
	void (*cgroup_exit)(struct cgroup *);
	void (*cgroup_move)(struct task_struct *, struct cgroup *, struct cgroup *);
	void (*cgroup_set_weight)(struct cgroup *, __u32);
	__s32 (*select_cpu)(struct task_struct *, __s32, __u64);
	void (*enqueue)(struct task_struct *, __u64);
	void (*dispatch)(__s32, struct task_struct *);
	void (*tick)(struct task_struct *);
	void (*runnable)(struct task_struct *, __u64);
	void (*running)(struct task_struct *);
	void (*stopping)(struct task_struct *, bool);
	void (*quiescent)(struct task_struct *, __u64);
	void (*update_idle)(__s32, bool);
	void (*enable)(struct task_struct *);
	__s32 (*init_task)(struct task_struct *, struct scx_init_task_args *);
	__s32 (*init)(void);
	void (*exit)(struct scx_exit_info *);
	__u64 flags;
	__u32 timeout_ms;
	char name[128];
};

/* Constants of the kernel, which are the same in all versions with sched_ext. */
#define PF_KTHREAD 0x00200000
#define SCX_OPS_KEEP_BUILTIN_IDLE 1
#define SCX_OPS_ENQ_LAST 2
#define SCX_OPS_SWITCH_PARTIAL 8
#define SCX_TASK_QUEUED 1
#define SCX_WAKE_TTWU 8
#define SCX_KICK_IDLE 1
#define SCX_ENQ_PREEMPT (1ULL << 32)
#define SCX_DSQ_LOCAL (1ULL << 63 | 2)
#define SCX_DSQ_LOCAL_ON (1ULL << 63 | 1ULL << 62)

/* Weak, so that a kernel without sched_ext can load the trial of the policy. */
__s32 scx_bpf_create_dsq(__u64 queue, __s32 node) __ksym __weak;
void scx_bpf_dsq_insert(struct task_struct *p, __u64 queue, __u64 slice, __u64 flags) __ksym __weak;
bool scx_bpf_dsq_insert___v2(struct task_struct *p, __u64 queue, __u64 slice, __u64 flags) __ksym __weak;
void scx_bpf_dsq_insert_vtime(struct task_struct *p, __u64 queue, __u64 slice, __u64 vtime, __u64 flags) __ksym __weak;
bool __scx_bpf_dsq_insert_vtime(struct task_struct *p, struct scx_bpf_dsq_insert_vtime_args *args) __ksym __weak;
bool scx_bpf_dsq_move(struct bpf_iter_scx_dsq *iterator, struct task_struct *p, __u64 queue, __u64 flags) __ksym __weak;
bool scx_bpf_dsq_move_to_local(__u64 queue) __ksym __weak;
bool scx_bpf_dsq_move_to_local___v2(__u64 queue, __u64 flags) __ksym __weak;
__s32 scx_bpf_dsq_nr_queued(__u64 queue) __ksym __weak;
int bpf_iter_scx_dsq_new(struct bpf_iter_scx_dsq *iterator, __u64 queue, __u64 flags) __ksym __weak;
struct task_struct *bpf_iter_scx_dsq_next(struct bpf_iter_scx_dsq *iterator) __ksym __weak;
void bpf_iter_scx_dsq_destroy(struct bpf_iter_scx_dsq *iterator) __ksym __weak;
void scx_bpf_kick_cpu(__s32 cpu, __u64 flags) __ksym __weak;
__u32 scx_bpf_nr_cpu_ids(void) __ksym __weak;
__s32 scx_bpf_pick_any_cpu(const struct cpumask *allowed, __u64 flags) __ksym __weak;
__s32 scx_bpf_pick_idle_cpu(const struct cpumask *allowed, __u64 flags) __ksym __weak;
bool scx_bpf_test_and_clear_cpu_idle(__s32 cpu) __ksym __weak;
const struct cpumask *scx_bpf_get_idle_cpumask(void) __ksym __weak;
const struct cpumask *scx_bpf_get_idle_smtmask(void) __ksym __weak;
void scx_bpf_put_idle_cpumask(const struct cpumask *mask) __ksym __weak;
__s32 scx_bpf_task_cpu(const struct task_struct *p) __ksym __weak;
bool scx_bpf_task_set_slice(struct task_struct *p, __u64 slice) __ksym __weak;

static inline void insert(struct task_struct *p, __u64 queue, __u64 flags)
{
	if (bpf_ksym_exists(scx_bpf_dsq_insert___v2))
		scx_bpf_dsq_insert___v2(p, queue, SLICE, flags);
	else
		scx_bpf_dsq_insert(p, queue, SLICE, flags);
}

static inline void insert_by_time(struct task_struct *p, __u64 queue, __u64 vtime, __u64 flags)
{
	struct scx_bpf_dsq_insert_vtime_args args = {
		.dsq_id = queue, .slice = SLICE, .vtime = vtime, .enq_flags = flags,
	};

	if (bpf_ksym_exists(__scx_bpf_dsq_insert_vtime))
		__scx_bpf_dsq_insert_vtime(p, &args);
	else
		scx_bpf_dsq_insert_vtime(p, queue, SLICE, vtime, flags);
}

static inline bool take_from(__u64 queue)
{
	if (bpf_ksym_exists(scx_bpf_dsq_move_to_local___v2))
		return scx_bpf_dsq_move_to_local___v2(queue, 0);
	return scx_bpf_dsq_move_to_local(queue);
}

/* Lets a running task run for another slice. */
static inline void renew(struct task_struct *p)
{
	if (bpf_ksym_exists(scx_bpf_task_set_slice))
		scx_bpf_task_set_slice(p, SLICE);
	else
		p->scx.slice = SLICE;
}

static inline __u64 lowest(__u32 bits)
{
	return bits < 64 ? (1ULL << bits) - 1 : ~0ULL;
}

/* Bits behind the possible CPUs are undefined. A kernel for up to 64 CPUs has one word only. */
INLINE struct cpus read_mask(const struct cpumask *mask)
{
	__u32 cpus = scx_bpf_nr_cpu_ids();
	struct cpus set = {};

	set.word[0] = mask->bits[0] & lowest(cpus);
	if (bpf_core_field_size(mask->bits) > sizeof(mask->bits[0]) && cpus > 64)
		set.word[1] = mask->bits[1] & lowest(cpus - 64);
	return set;
}

INLINE struct cpus idle_cpus(void)
{
	const struct cpumask *mask = scx_bpf_get_idle_cpumask();
	struct cpus idle = read_mask(mask);

	scx_bpf_put_idle_cpumask(mask);
	return idle;
}

/* The idle CPUs that have no busy siblings. */
INLINE struct cpus idle_cores(void)
{
	const struct cpumask *mask = scx_bpf_get_idle_smtmask();
	struct cpus idle = read_mask(mask);

	scx_bpf_put_idle_cpumask(mask);
	return idle;
}

#endif

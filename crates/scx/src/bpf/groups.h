/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Control groups: the share of a task is its weight, times weight divided by load for each group
 * above it. The load of a group is the sum of the weights of its runnable tasks and of its groups
 * with such tasks.
 *
 * Loads need no lock. The part of a group in its parent's load is a function of one word: its
 * weight if it has members, else 0. Each change of the word is one atomic operation, which returns
 * the word before: the difference of the function is added to the parent. Additions commute, so
 * once all are done each load is the sum.
 */
#ifndef DAIKO_GROUPS_H
#define DAIKO_GROUPS_H

#include "state.h"

/* Levels of groups that have an effect, from the task upwards. */
#define LEVELS 32
/* The root, for this scheduler. A kernel without groups has this one only. */
#define ROOT 0
/* One member in the word of a group; its weight is below. */
#define MEMBER (1ULL << 32)

struct group {
	__u64 parent;
	__u64 word; /* members, and its weight; 0 once it has ended */
	__u64 load;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1 << 16);
	__type(key, __u64);
	__type(value, struct group);
} groups SEC(".maps");

static inline __u64 name_of(const struct cgroup *group)
{
	return group && group->self.parent ? group->kn->id : ROOT;
}

static inline struct group *find(__u64 name)
{
	return bpf_map_lookup_elem(&groups, &name);
}

/* Adds a member with a weight to a group, or takes one (-MEMBER, -weight), and so on upwards. */
static inline void add_member(__u64 name, __u64 member, __u64 weight)
{
	int level;

	bpf_for(level, 0, LEVELS) {
		struct group *group = find(name);
		__u64 before;

		if (!group)
			return;
		__sync_fetch_and_add(&group->load, weight);
		before = __sync_fetch_and_add(&group->word, member);
		/* Only the first and the last member change the load of the parent. */
		if (name == ROOT || before / MEMBER != (member == MEMBER ? 0 : 1))
			return;
		weight = (__u32)before;
		/* A task that ends may outlive its group. */
		if (!weight)
			return;
		if (member != MEMBER)
			weight = -weight;
		name = group->parent;
	}
}

/* The share of a task. */
static inline __u64 share_of(const struct task *task, __u32 weight)
{
	__u64 share = (__u64)weight * GRAIN, part = weight, name = task->group;
	int level;

	bpf_for(level, 0, LEVELS) {
		struct group *group = name == ROOT ? NULL : find(name);
		__u64 own;

		if (!group)
			break;
		own = (__u32)group->word;
		if (!own)
			break;
		share = portion(share, part, group->load, own);
		part = own;
		name = group->parent;
	}
	return share;
}

/* The virtual time by which a task may be ahead of the clock. */
static inline __u64 most_ahead(void)
{
	struct group *root = find(ROOT);

	return farthest(root ? root->load : 0, machine);
}

SEC("struct_ops/runnable")
void BPF_PROG(daiko_runnable, struct task_struct *p, __u64 flags)
{
	struct task *task = task_of(p);

	if (!task || task->weight)
		return;
	task->weight = p->scx.weight;
	task->member = task->group;
	add_member(task->member, MEMBER, task->weight);
}

SEC("struct_ops/quiescent")
void BPF_PROG(daiko_quiescent, struct task_struct *p, __u64 flags)
{
	struct task *task = task_of(p);

	if (!task || !task->weight)
		return;
	add_member(task->member, -MEMBER, -(__u64)task->weight);
	task->weight = 0;
}

SEC("struct_ops.s/cgroup_init")
__s32 BPF_PROG(daiko_cgroup_init, struct cgroup *group, struct scx_cgroup_init_args *args)
{
	struct group fresh = { .word = args->weight };
	__u64 name = name_of(group);

	if (name == ROOT)
		return 0;
	fresh.parent = name_of(group->self.parent->cgroup);
	/* A group without room has no effect: an error would keep it from being made. */
	bpf_map_update_elem(&groups, &name, &fresh, 0);
	return 0;
}

SEC("struct_ops/cgroup_exit")
void BPF_PROG(daiko_cgroup_exit, struct cgroup *cgroup)
{
	__u64 name = name_of(cgroup), before;
	struct group *group = find(name);

	if (!group || name == ROOT)
		return;
	before = __sync_fetch_and_and(&group->word, 0);
	if (before >= MEMBER)
		add_member(group->parent, -MEMBER, -(__u64)(__u32)before);
	bpf_map_delete_elem(&groups, &name);
}

/* The kernel takes the task out of its queue before, and calls `runnable` afterwards. */
SEC("struct_ops/cgroup_move")
void BPF_PROG(daiko_cgroup_move, struct task_struct *p, struct cgroup *from, struct cgroup *to)
{
	struct task *task = task_of(p);

	if (task)
		task->group = name_of(to);
}

/* The kernel changes the weight of one group at a time. */
SEC("struct_ops/cgroup_set_weight")
void BPF_PROG(daiko_cgroup_set_weight, struct cgroup *cgroup, __u32 weight)
{
	__u64 name = name_of(cgroup), more, before;
	struct group *group = find(name), *parent;

	if (!group || name == ROOT)
		return;
	more = (__u64)weight - (__u32)group->word;
	before = __sync_fetch_and_add(&group->word, more);
	parent = find(group->parent);
	if (before >= MEMBER && parent)
		__sync_fetch_and_add(&parent->load, more);
}

#endif

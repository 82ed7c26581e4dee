// SPDX-License-Identifier: GPL-2.0
/*
 * A scheduler of sched_ext by virtual time, with the placements of P3 and P4
 * (crates/scx/README.md). policy.h decides; this file knows the state.
 */
#include "groups.h"

char _license[] SEC("license") = "GPL";

/* Nanoseconds that an idle CPU leaves a held task to its own CPU: a tick of a kernel at 250 Hz. */
#define PATIENCE 4000000
/* Ends of slices with a busy sibling after which a running task looks for a better CPU. */
#define CROWDED 2

/* The CPUs of a set beside which a task of this class belongs. */
INLINE struct cpus beside_complements(const struct cpus *idle, __u8 class)
{
	__u32 cpus = scx_bpf_nr_cpu_ids(), cpu;
	struct cpus set = {};

	if (class == UNKNOWN)
		return set;
	bpf_for(cpu, 0, cpus) {
		if (!has(idle, cpu) || wanted_at(cpu) != class)
			continue;
		for (int at = 0; at < WORDS; at++)
			if (at == cpu / 64)
				set.word[at] |= 1ULL << cpu % 64;
	}
	return set;
}

INLINE struct view look(const struct cpus *allowed, __u8 class)
{
	/* Without siblings the masks are one, which may change between two looks. */
	struct cpus idle = idle_cpus(), cores = has_siblings ? idle_cores() : idle;
	struct view view = {};

	view.idle = both(&idle, allowed);
	view.cores = both(&cores, &view.idle);
	if (is_empty(&view.cores) && setting(PAIR))
		view.beside = beside_complements(&view.idle, class);
	return view;
}

static inline bool claim(__s32 cpu, const struct view *view)
{
	if (cpu < 0 || !has(&view->idle, cpu) || !scx_bpf_test_and_clear_cpu_idle(cpu))
		return false;
	if (has(&view->cores, cpu))
		count(CORE);
	return true;
}

/* Chooses a CPU for a wake-up, or for a starting task, which is not counted as a wake-up. */
static inline __u16 choose(struct task_struct *p, struct task *task, __u16 previous, const struct view *view,
			   __u64 wake_flags)
{
	__u16 waker = bpf_get_smp_processor_id();
	__u32 policy = setting(POLICY);
	struct verdict verdict;

	if (!(wake_flags & SCX_WAKE_TTWU))
		return prefer(waker, previous, view);
	verdict = place(&task->memory, policy, setting(BOUND), waker, previous, view);
	task->placed = policy != SHARED;
	count_verdict(&verdict, previous);
	if (setting(RECORDER))
		record(p, waker, previous, &view->idle, verdict.chosen);
	return verdict.chosen;
}

SEC("struct_ops/select_cpu")
__s32 BPF_PROG(daiko_select_cpu, struct task_struct *p, __s32 previous, __u64 wake_flags)
{
	struct cpus allowed = read_mask(p->cpus_ptr);
	__u8 class = class_of(p);
	struct view view = look(&allowed, class);
	struct task *task = task_of(p);
	__s32 cpu = previous;

	if (task) {
		task->sought = task->slept = 1;
		task->placed = 0;
		cpu = choose(p, task, previous, &view, wake_flags);
	}
	/* The policies ignore affinity: the waker's CPU and the previous CPU may be forbidden by now. */
	if (!has(&allowed, cpu))
		cpu = has(&allowed, previous) ? previous : scx_bpf_pick_any_cpu(p->cpus_ptr, 0);
	if (claim(cpu, &view))
		insert(p, SCX_DSQ_LOCAL, 0);
	return cpu;
}

/* Brings the virtual time of a task to the clock of a domain. */
static inline void join(struct task *task, __u32 domain)
{
	__u32 old = task->domain % MOST_CPUS;

	domain %= MOST_CPUS;
	if (domain != old)
		task->vtime = carry(task->vtime, clocks[old], clocks[domain]);
	task->vtime = bounded(task->vtime, clocks[domain], task->slept, most_ahead());
	task->slept = 0;
	task->domain = domain;
}

/* Charges a running task for the time since it began to run, or was last charged. */
static inline void settle(const struct task_struct *p, struct task *task)
{
	__u64 now = p->se.sum_exec_runtime;

	task->vtime += charge(now - task->began, share_of(task, p->scx.weight));
	task->began = now;
}

/* Lets the clock of a domain follow a task that begins to run, or goes on. */
static inline void advance(__u32 domain, __u64 vtime)
{
	if (domain < MOST_CPUS && is_before(clocks[domain], vtime))
		clocks[domain] = vtime;
}

/* The first CPU of these that runs a task of a class beside another one of it, or NOWHERE. */
static inline __u16 doubled(const struct cpus *among, __u8 class)
{
	__u32 cpus = scx_bpf_nr_cpu_ids(), cpu;

	bpf_for(cpu, 0, cpus) {
		struct cpus alike = class == STALL ? running_class[STALL] : running_class[COMPUTE];

		if (has(among, cpu) && has(&alike, cpu) && is_doubled(class, wanted_at(cpu)))
			return cpu;
	}
	return NOWHERE;
}

/*
 * A better CPU for the only task of a CPU: an idle core; else, if it runs beside its own kind, an
 * idle CPU beside a complement, or a CPU with a task in the opposite trouble, to be exchanged for
 * it. NOWHERE if there is none.
 */
static inline __u16 better(struct task_struct *p, struct task *task, __u8 class, __u32 cpu, struct view *view)
{
	struct cpus allowed = read_mask(p->cpus_ptr);
	struct cpus others;

	if (task->crowded < CROWDED || task->memory.held)
		return NOWHERE;
	*view = look(&allowed, class);
	if (is_empty(&view->cores) && !(setting(PAIR) && is_doubled(class, wanted_at(cpu))))
		return NOWHERE;
	others = both(&allowed, &movable);
	if (is_empty(&view->cores) && is_empty(&view->beside))
		return doubled(&others, class == STALL ? COMPUTE : STALL);
	return prefer(cpu, cpu, view);
}

/* Queues the only task of a CPU: where it was, unless there is a better CPU. */
static inline void enqueue_last(struct task_struct *p, struct task *task, __u32 cpu)
{
	struct view view = {};
	__u16 other = better(p, task, class_of(p), cpu, &view);

	task->crowded = 0;
	if (other != NOWHERE && claim(other, &view)) {
		count(MOVED);
		insert(p, SCX_DSQ_LOCAL_ON | other, 0);
	} else if (other != NOWHERE && is_empty(&view.cores) && is_empty(&view.beside)) {
		count(EXCHANGED);
		insert(p, SCX_DSQ_LOCAL_ON | other, SCX_ENQ_PREEMPT);
	} else {
		insert(p, SCX_DSQ_LOCAL, 0);
		scx_bpf_kick_cpu(cpu, 0);
	}
}

/* Lets a task wait: for the CPU chosen for it, or for any CPU of the domain. */
static inline void wait(struct task_struct *p, struct task *task, __u32 cpu, __u64 flags)
{
	__u32 domain = domain_of(cpu);
	bool is_bound = task->placed || p->nr_cpus_allowed == 1;
	__s32 idle;

	join(task, domain);
	task->queued = bpf_ktime_get_ns();
	insert_by_time(p, is_bound ? cpu : queue_of_domain(domain), task->vtime, flags);
	/* Either this sees an idle CPU, or that CPU sees the task when it becomes idle. */
	if (is_bound)
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	if (task->memory.held)
		return;
	idle = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (idle >= 0)
		scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
}

SEC("struct_ops/enqueue")
void BPF_PROG(daiko_enqueue, struct task_struct *p, __u64 flags)
{
	__s32 cpu = scx_bpf_task_cpu(p), idle = -1;
	struct task *task = task_of(p);
	bool is_last = flags & bpf_core_enum_value(enum scx_enq_flags, SCX_ENQ_LAST);

	/* Threads of the kernel for one CPU serve all tasks of it. */
	if (!task || (p->flags & PF_KTHREAD && p->nr_cpus_allowed == 1)) {
		insert(p, SCX_DSQ_LOCAL, is_last ? 0 : flags);
		if (is_last)
			scx_bpf_kick_cpu(cpu, 0);
		return;
	}
	if (is_last) {
		enqueue_last(p, task, cpu);
		return;
	}
	if (!task->sought && !task->memory.held && p->nr_cpus_allowed > 1) {
		struct cpus allowed = read_mask(p->cpus_ptr);
		__u8 class = class_of(p);
		struct cpus siblings = siblings_of(cpu);
		struct view view = look(&allowed, class);

		/* A thread of the kernel that takes its CPU soon leaves the core. */
		if (is_empty(&view.beside))
			view.beside = both(&siblings, &view.idle);
		if (!is_empty(&view.idle) && claim(prefer(cpu, cpu, &view), &view))
			idle = prefer(cpu, cpu, &view);
	}
	task->sought = 0;
	if (idle >= 0)
		insert(p, SCX_DSQ_LOCAL_ON | idle, flags);
	else
		wait(p, task, cpu, flags);
}

/* The virtual time of the first task of a queue; false if it is empty. */
static inline bool first_of(__u64 queue, __u64 *vtime)
{
	struct task_struct *p;
	bool found = false;

	if (scx_bpf_dsq_nr_queued(queue) <= 0)
		return false;
	bpf_for_each(scx_dsq, p, queue, 0) {
		*vtime = p->scx.dsq_vtime;
		found = true;
		break;
	}
	return found;
}

/* Notes for the first tasks of a queue that a task behind them was preferred. */
static inline void pass_over(__u64 queue, __s32 cpu, int tasks)
{
	struct task_struct *p;
	int looked = 0;

	bpf_for_each(scx_dsq, p, queue, 0) {
		struct task *task;

		if (looked >= tasks)
			break;
		if (!may_run(p, cpu))
			continue;
		looked++;
		task = task_of(p);
		if (task)
			task->passed++;
		count(SKIPPED);
	}
}

/* Takes the first task of a class among the oldest of a queue. */
static inline bool take_complement(__u64 queue, __s32 cpu, __u8 class)
{
	struct task_struct *p;
	int looked = 0;
	bool taken = false;

	bpf_for_each(scx_dsq, p, queue, 0) {
		struct task *task;
		__u8 its;

		if (looked >= LOOKS)
			break;
		if (!may_run(p, cpu))
			continue;
		looked++;
		its = class_of(p);
		task = task_of(p);
		if (!ends_look(class, its, task ? task->passed : PASSES))
			continue;
		taken = its == class && scx_bpf_dsq_move(&___it, p, SCX_DSQ_LOCAL, 0);
		break;
	}
	if (taken && looked > 1)
		pass_over(queue, cpu, looked - 1);
	return taken;
}

/*
 * Takes the next task for a CPU from its own queue and that of its domain, or returns false if a
 * running task, with its virtual time in `vtime`, is to go on.
 */
static inline bool take_next(__s32 cpu, __u8 running, bool goes_on, __u64 vtime)
{
	__u64 shared = queue_of_domain(domain_of(cpu)), own_vtime = 0, shared_vtime = 0;
	bool has_own = first_of(cpu, &own_vtime), has_shared = first_of(shared, &shared_vtime);
	__u8 wants = setting(PAIR) ? wanted_at(cpu) : UNKNOWN;

	if (has_own && !(has_shared && is_before(shared_vtime, own_vtime)) &&
	    !(goes_on && is_before(vtime, own_vtime)))
		return take_from(cpu);
	if (!has_shared)
		return has_own && !goes_on && take_from(cpu);
	if (wants != UNKNOWN && !(goes_on && running == wants && is_before(vtime, shared_vtime)) &&
	    take_complement(shared, cpu, wants))
		return true;
	if (goes_on && is_before(vtime, shared_vtime))
		return false;
	return take_from(shared) || (has_own && !goes_on && take_from(cpu));
}

/* Takes a task that waits for another CPU and has no reason to. */
static inline bool steal(__u32 queue, __s32 cpu)
{
	__u64 now = bpf_ktime_get_ns();
	struct task_struct *p;
	bool taken = false;

	if (scx_bpf_dsq_nr_queued(queue) <= 0)
		return false;
	bpf_for_each(scx_dsq, p, queue, 0) {
		struct task *task = task_of(p);

		if (!task || !may_run(p, cpu) || (task->memory.held && now - task->queued < PATIENCE))
			continue;
		taken = scx_bpf_dsq_move(&___it, p, SCX_DSQ_LOCAL, 0);
		if (taken)
			break;
	}
	if (taken)
		count(STOLEN);
	return taken;
}

/* Takes a task from another domain or CPU. */
static inline bool steal_any(__s32 cpu)
{
	__u32 cpus = scx_bpf_nr_cpu_ids(), step;

	bpf_for(step, 0, domains) {
		__u64 queue = queue_of_domain(step);

		if (scx_bpf_dsq_nr_queued(queue) > 0 && take_from(queue)) {
			count(STOLEN);
			return true;
		}
	}
	bpf_for(step, 1, cpus)
		if (steal((cpu + step) % cpus, cpu))
			return true;
	return false;
}

static inline bool has_busy_sibling(__u32 cpu)
{
	struct cpus siblings = siblings_of(cpu), idle = idle_cpus(), busy = without(&siblings, &idle);

	return !is_empty(&busy);
}

SEC("struct_ops/dispatch")
void BPF_PROG(daiko_dispatch, __s32 cpu, struct task_struct *running)
{
	bool goes_on = running && running->scx.flags & SCX_TASK_QUEUED;
	struct task *task = goes_on ? task_of(running) : NULL;
	__u8 class = goes_on ? class_of(running) : UNKNOWN;
	struct view view;

	if (task)
		settle(running, task);
	if (take_next(cpu, class, task, task ? task->vtime : 0))
		return;
	if (!task) {
		if (!goes_on)
			steal_any(cpu);
		return;
	}
	advance(task->domain, task->vtime);
	task->crowded = has_busy_sibling(cpu) ? task->crowded + 1 : 0;
	/* Without another slice, `enqueue` moves it. */
	if (better(running, task, class, cpu, &view) != NOWHERE)
		return;
	count_slice(cpu, class);
	renew(running);
}

static inline void put(struct cpus *set, __u32 cpu, bool is_in)
{
	__u64 bit = 1ULL << cpu % 64;

	if (cpu >= MOST_CPUS)
		return;
	if (is_in)
		__sync_fetch_and_or(&set->word[cpu / 64], bit);
	else
		__sync_fetch_and_and(&set->word[cpu / 64], ~bit);
}

/* Notes for other CPUs that a CPU runs a task of a class. */
static inline void note(__u32 cpu, __u8 class, bool is_movable)
{
	put(&running_class[COMPUTE], cpu, class == COMPUTE);
	put(&running_class[STALL], cpu, class == STALL);
	put(&movable, cpu, is_movable);
}

SEC("struct_ops/running")
void BPF_PROG(daiko_running, struct task_struct *p)
{
	struct task *task = task_of(p);
	__u32 cpu = scx_bpf_task_cpu(p);
	__u8 class = class_of(p);

	note(cpu, class, p->nr_cpus_allowed > 1);
	count_slice(cpu, class);
	if (!task)
		return;
	task->passed = 0;
	task->crowded = 0;
	task->began = p->se.sum_exec_runtime;
	join(task, domain_of(cpu));
	advance(task->domain, task->vtime);
}

SEC("struct_ops/stopping")
void BPF_PROG(daiko_stopping, struct task_struct *p, bool runnable)
{
	struct task *task = task_of(p);

	note(scx_bpf_task_cpu(p), UNKNOWN, false);
	if (task)
		settle(p, task);
}

/* Offers a task that waits behind a running task for its CPU to an idle CPU. */
SEC("struct_ops/tick")
void BPF_PROG(daiko_tick, struct task_struct *p)
{
	__s32 cpu = scx_bpf_task_cpu(p), idle;

	note(cpu, class_of(p), p->nr_cpus_allowed > 1);
	if (scx_bpf_dsq_nr_queued(cpu) <= 0)
		return;
	idle = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (idle >= 0)
		scx_bpf_kick_cpu(idle, 0);
}

/* Looks again if a task was queued while the CPU was becoming idle. */
SEC("struct_ops/update_idle")
void BPF_PROG(daiko_update_idle, __s32 cpu, bool idle)
{
	__u32 domain;

	if (!idle)
		return;
	if (scx_bpf_dsq_nr_queued(cpu) > 0) {
		scx_bpf_kick_cpu(cpu, 0);
		return;
	}
	bpf_for(domain, 0, domains)
		if (scx_bpf_dsq_nr_queued(queue_of_domain(domain)) > 0) {
			scx_bpf_kick_cpu(cpu, 0);
			return;
		}
}

SEC("struct_ops/enable")
void BPF_PROG(daiko_enable, struct task_struct *p)
{
	struct task *task = task_of(p);

	if (!task)
		return;
	task->domain = domain_of(scx_bpf_task_cpu(p)) % MOST_CPUS;
	task->vtime = clocks[task->domain % MOST_CPUS];
}

SEC("struct_ops.s/init_task")
__s32 BPF_PROG(daiko_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct task fresh = { .memory = { .home = NOWHERE, .left = NOWHERE } };

	if (bpf_core_field_exists(args->cgroup))
		fresh.group = name_of(args->cgroup);
	return bpf_task_storage_get(&tasks, p, &fresh, BPF_LOCAL_STORAGE_GET_F_CREATE)
		       ? 0
		       : -12; /* ENOMEM */
}

SEC("struct_ops.s/init")
__s32 BPF_PROG(daiko_init)
{
	__u32 cpus = scx_bpf_nr_cpu_ids();
	struct group root = {};
	__u64 name = ROOT;
	__u32 cpu;

	if (cpus > MOST_CPUS)
		return -7; /* E2BIG; the loader has checked this before */
	machine = cpus;
	if (bpf_map_update_elem(&groups, &name, &root, 0))
		return -12; /* ENOMEM */
	bpf_for(cpu, 0, cpus) {
		__s32 error = scx_bpf_create_dsq(cpu, -1);
		struct cpus siblings = siblings_of(cpu);

		if (error)
			return error;
		has_siblings |= !is_empty(&siblings);
		if (domains <= domain_of(cpu))
			domains = domain_of(cpu) + 1;
	}
	bpf_for(cpu, 0, domains) {
		__s32 error = scx_bpf_create_dsq(queue_of_domain(cpu), -1);

		if (error)
			return error;
	}
	return 0;
}

SEC("struct_ops/exit")
void BPF_PROG(daiko_exit, struct scx_exit_info *info)
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
 * Hotplug is left to the kernel, which detaches schedulers without hotplug callbacks and asks for
 * their restart.
 */
#define OPERATIONS(extra)                                                                  \
	{                                                                                  \
		.cgroup_init = (void *)daiko_cgroup_init,                                  \
		.cgroup_exit = (void *)daiko_cgroup_exit,                                  \
		.cgroup_move = (void *)daiko_cgroup_move,                                  \
		.cgroup_set_weight = (void *)daiko_cgroup_set_weight,                      \
		.runnable = (void *)daiko_runnable, .quiescent = (void *)daiko_quiescent,  \
		.select_cpu = (void *)daiko_select_cpu, .enqueue = (void *)daiko_enqueue,  \
		.dispatch = (void *)daiko_dispatch, .tick = (void *)daiko_tick,            \
		.running = (void *)daiko_running, .stopping = (void *)daiko_stopping,      \
		.update_idle = (void *)daiko_update_idle, .enable = (void *)daiko_enable,  \
		.init_task = (void *)daiko_init_task, .init = (void *)daiko_init,          \
		.exit = (void *)daiko_exit, .timeout_ms = 10000, .name = "daiko",          \
		.flags = SCX_OPS_KEEP_BUILTIN_IDLE | SCX_OPS_ENQ_LAST | (extra),           \
	}

/* For all normal tasks of the machine, or for those that have SCHED_EXT only. */
SEC(".struct_ops.link")
struct sched_ext_ops daiko_all = OPERATIONS(0);
SEC(".struct_ops.link")
struct sched_ext_ops daiko_partial = OPERATIONS(SCX_OPS_SWITCH_PARTIAL);

/* Runs the policy in a kernel with or without sched_ext. */
SEC("syscall")
int try_policy(struct trial *trial)
{
	decide(trial);
	return 0;
}

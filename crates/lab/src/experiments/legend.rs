//! Descriptions of all methods, for the legend of a report and for `daiko lab list`.

/// Names of methods with their descriptions.
const METHODS: &[(&str, &str)] = &[
    ("agent+rtsignal", "a polling agent on a CPU of its own wakes kernel threads by signals (P1)"),
    ("argobots", "Argobots: explicit hand-off between its threads, or a thread for each fork"),
    ("assembly-ring", "a bare switch of stacks in assembly, without a scheduler: a limit"),
    ("assembly-ring-own", "the same, which also writes the thread pointer at each switch: a limit"),
    ("balanced", "a fiber, of a runtime with the preset Balanced"),
    ("boost-fiber", "Boost.Fiber: a buffered channel for each fiber"),
    ("budget-0.01", "a fiber, of a runtime that may poll for 1 % of a CPU"),
    ("budget-0.1", "a fiber, of a runtime that may poll for 10 % of a CPU"),
    ("budget-0.5", "a fiber, of a runtime that may poll for 50 % of a CPU"),
    ("c-condvar", "a program in C: pthread_cond_wait, of kernel threads"),
    ("c-nptl", "a program in C: kernel threads and the calls of glibc"),
    ("c-semaphore", "a program in C: sem_wait and sem_post, of kernel threads"),
    ("condvar", "pthread_cond_wait, of kernel threads"),
    ("cross", "stalling and computing tasks share cores (P4)"),
    ("crossbeam-channel", "crossbeam-channel, between kernel threads"),
    ("daiko", "fibers with thread-locals of their own, pinned to their worker: the default"),
    ("daiko-balanced", "fibers of a runtime with the preset Balanced"),
    ("daiko-borrowed", "fibers that borrow the thread-locals of their worker, pinned"),
    ("daiko-borrowed-mover", "fibers that borrow the thread-locals of any worker, which may move"),
    ("daiko-borrowed-mover-rmw", "the same, where owners pay for the barriers of theft"),
    ("daiko-follow", "fibers that continue on the worker of the packet that wakes them (P3)"),
    ("daiko-join", "daiko::join, in fibers of the default kind"),
    ("daiko-mover", "fibers that may move between workers"),
    ("daiko-own", "fibers with thread-locals of their own, asked for as pinned"),
    ("daiko-own-mover", "fibers with thread-locals of their own, which may move"),
    ("daiko-pinned", "fibers that stay on the worker that started them"),
    ("daiko-pool", "fibers without io_uring, so that a pool of threads makes the calls that wait"),
    ("daiko-poller", "fibers, and a poller of shared memory that the user wrote"),
    ("daiko-processes", "fibers whose workers are processes"),
    ("daiko-run", "an unmodified application, with its threads on Daiko's workers"),
    ("daiko-watch", "fibers that wait for a word in memory, which agents poll"),
    ("daiko-watch-p1", "the same, as in P1: any agent resumes any fiber, and one polls at a time"),
    ("datum-transfer", "a datum and its flag in one cache line, from one CPU to another: a limit"),
    ("dropin", "the same program as c-nptl, unmodified, on Daiko's workers"),
    ("dropin-condvar", "the same program as c-condvar, unmodified, on Daiko's workers"),
    ("dropin-semaphore", "the same program as c-semaphore, unmodified, on Daiko's workers"),
    ("echo-daiko", "a fiber for each connection"),
    ("echo-daiko-epoll", "a fiber for each connection, with events by epoll"),
    ("echo-daiko-uring", "a fiber for each connection, with events by io_uring"),
    ("echo-daiko-uring-irq", "the same, where io_uring interrupts the worker for each change"),
    ("echo-threads", "a kernel thread for each connection"),
    ("echo-tokio", "a task for each connection, in tokio's multi-threaded runtime"),
    ("echo-tokio-single", "a task for each connection, in tokio's current_thread runtime"),
    ("eventfd", "an event counter of the kernel, for each thread that waits"),
    ("existing", "wake-ups as the kernel places them today"),
    ("fio", "the program fio, by io_uring: a limit"),
    ("flume", "flume, between kernel threads"),
    ("follow", "wake-ups whose interrupts follow their tasks (P3)"),
    ("futex", "futex wait and wake, of kernel threads or processes"),
    ("go", "goroutines and channels"),
    ("iceoryx2", "iceoryx2, requests and responses between processes"),
    ("kanal", "kanal, between kernel threads"),
    ("kv", "Daiko's example, a key-value store with a fiber for each connection"),
    ("latency", "a fiber, of a runtime with the preset Latency"),
    ("line-transfer", "a cache line from one CPU to another: a limit"),
    ("mailbox", "processes that poll shared memory, with the question and the answer apart"),
    ("mappings", "classes of daiko pair from mappings of persistent memory"),
    ("may", "coroutines of may, which may move between its workers"),
    ("mpi", "Open MPI, between processes of one machine"),
    ("mpi-blocking", "Open MPI, one exchange after another by MPI_Send and MPI_Recv"),
    ("mpi-threads", "Open MPI, a kernel thread for each exchange, by MPI_THREAD_MULTIPLE"),
    ("mpi-waitall", "Open MPI, all exchanges by one thread and MPI_Waitall"),
    ("native", "an unmodified application, with kernel threads"),
    ("nosmt", "one task on each core, the other hardware threads idle (P4)"),
    ("nosmt-2t-cross", "a stalling and a computing task share a hardware thread (P4)"),
    ("nosmt-2t-parallel", "tasks of one kind share a hardware thread (P4)"),
    ("nptl", "kernel threads and the locks of glibc"),
    ("optimised", "classes of daiko pair, of programs that are compiled with -O2 or interpreted"),
    ("parallel", "tasks of one kind share a core (P4)"),
    ("parking_lot", "the locks of parking_lot, of kernel threads"),
    ("pipe", "a pipe for each kernel thread or process that waits"),
    ("polling", "kernel threads that poll their buffer all the time"),
    ("power", "a fiber, of a runtime with the preset Power"),
    ("rayon", "rayon::join, in a pool of kernel threads"),
    ("redis", "redis-server"),
    ("rmw-pair", "two locked instructions on a line of the own cache: a limit"),
    ("rtsignal", "real-time signals between kernel threads: P1's baseline"),
    ("sampling", "classes of daiko pair from samples of instructions"),
    ("semaphore", "sem_wait and sem_post, of kernel threads or processes"),
    ("semop", "System V semaphores, of the kernel"),
    ("sequential", "no threads"),
    ("spin", "processes that poll shared memory"),
    ("spin-futex", "processes that poll shared memory, and then sleep on a futex"),
    ("std-mpsc", "std::sync::mpsc, between kernel threads"),
    ("std-park", "std::thread::park and unpark"),
    ("switch", "a bare switch of stacks in assembly: a limit"),
    ("target-10us", "a fiber, of a runtime with a latency target of 10 us"),
    ("target-500us", "a fiber, of a runtime with a latency target of 500 us"),
    ("target-50us", "a fiber, of a runtime with a latency target of 50 us"),
    ("tcp", "a TCP connection for each client"),
    ("thread-pointer", "a write of the thread pointer: a limit"),
    ("threads", "kernel threads"),
    ("tokio", "tasks of tokio, in its multi-threaded runtime"),
    ("tokio-blocking", "tasks of tokio, whose calls of std::fs run in spawn_blocking"),
    ("tokio-current", "tasks of tokio, in its current_thread runtime"),
    ("tokio-fs", "tasks of tokio, by tokio::fs"),
    ("unix-socket", "a Unix socket for each client"),
    ("unoptimised", "classes of daiko pair, of programs that are compiled with -O0"),
];

/// The description of a method, one line without a full stop; `None` if there is no such method.
///
/// # Examples
///
/// ```
/// use daiko_lab::experiments::legend::describe;
///
/// assert_eq!(describe("go"), Some("goroutines and channels"));
/// assert_eq!(describe("nonsense"), None);
/// ```
pub fn describe(method: &str) -> Option<&'static str> {
    METHODS.iter().find(|(name, _)| *name == method).map(|(_, text)| *text)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::ALL;
    use super::*;

    #[test]
    fn the_legend_describes_exactly_the_methods() {
        let described: BTreeSet<&str> = METHODS.iter().map(|(name, _)| *name).collect();
        let methods: BTreeSet<&str> = ALL.iter().flat_map(|row| (row.methods)()).collect();
        assert_eq!(described, methods);
        assert_eq!(described.len(), METHODS.len(), "a method is described twice");
    }
}

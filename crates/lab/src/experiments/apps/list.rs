//! The applications.
//!
//! Commands are lines of `sh` in a folder of their own, with these variables:
//!
//! - `$RUN`: the command in front of the application, or nothing.
//! - `$AMOUNT`: how many units of work it does, or how many seconds it works.
//! - `$THREADS`: the number of its threads, or connections, if it has a list of them.
//! - `$PORT`: a port that is free on the loopback.
//! - `$PROGRAM`: the path of the compiled program, for an application of the lab.

use super::installed::Need;
use crate::kit::driver::{Driver, Toolchain, find_compiler, words};
use crate::kit::{Skip, host};

/// An application, and how it is measured.
pub(super) struct App {
    pub(super) name: &'static str,
    /// A unit of its work, in the plural.
    pub(super) unit: &'static str,
    pub(super) needs: &'static [Need],
    /// The program of the lab that the application is, if it is not installed.
    pub(super) program: Option<&'static Driver>,
    /// Files in its folder, by name.
    pub(super) files: &'static [(&'static str, &'static str)],
    pub(super) threads: ThreadList,
    pub(super) amount: WorkAmount,
    /// Makes the folder ready.
    pub(super) prepare: &'static str,
    pub(super) kind: AppKind,
}

/// Numbers of threads, each a case.
#[derive(Clone, Copy)]
pub(super) enum ThreadList {
    /// The application has a number of its own.
    Own,
    Numbers(&'static [usize]),
    /// Multiples of the number of CPUs.
    TimesCpus(&'static [usize]),
}

/// The work of a sample.
#[derive(Clone, Copy)]
pub(super) enum WorkAmount {
    Units(u64),
    Seconds(u64),
}

/// How an application runs, and how its throughput is read. A line `rate` gets the output of the
/// run or of the load, and prints the number of units and their number per second.
#[derive(Clone, Copy)]
pub(super) enum AppKind {
    /// A program that ends after its work. `check` follows it, and fails if the result is wrong.
    Batch { run: &'static str, check: &'static str },
    /// A program that ends after its time.
    Rated { run: &'static str, rate: &'static str },
    /// A server. Once `is_ready` succeeds, `fill` prepares it, and `load` is measured.
    Server {
        start: &'static str,
        is_ready: &'static str,
        fill: &'static str,
        load: &'static str,
        rate: &'static str,
    },
}

use AppKind::{Batch, Rated, Server};

impl WorkAmount {
    /// The number in `$AMOUNT`. A quick run does a quarter.
    pub(super) fn number(self, quick: bool) -> u64 {
        let (Self::Units(number) | Self::Seconds(number)) = self;
        if quick { number.div_ceil(4) } else { number }
    }
}

impl ThreadList {
    /// The numbers of threads, or `None` if there is no list.
    pub(super) fn numbers(self) -> Option<Vec<usize>> {
        match self {
            Self::Own => None,
            Self::Numbers(numbers) => Some(numbers.into()),
            Self::TimesCpus(factors) => {
                Some(factors.iter().map(|factor| factor * host::cpus()).collect())
            }
        }
    }
}

impl App {
    /// Fails with the reason to skip if a program or a compiler is missing.
    pub(super) fn supports(&self) -> Result<(), Skip> {
        Need::all(self.name, self.needs)?;
        let named = |skip: Skip| Skip { reason: format!("{}: {}", self.name, skip.reason), ..skip };
        self.program.map_or(Ok(()), |program| program.supports().map_err(named))
    }
}

const NOTHING: &str = "true";

/// An application without threads to choose, programs and files; the rest of its row differs.
const PLAIN: App = App {
    name: "",
    unit: "",
    needs: &[],
    program: None,
    files: &[],
    threads: ThreadList::Own,
    amount: WorkAmount::Units(1),
    prepare: NOTHING,
    kind: Batch { run: NOTHING, check: NOTHING },
};

/// Lets the lines after it run a command of PostgreSQL, which refuses to run as root; `as_user`
/// is the last command of a line.
macro_rules! postgresql {
    ($line:literal) => {
        concat!(
            "PATH=$(echo /usr/lib/postgresql/*/bin | tr ' ' ':'):$PATH; as_user() { \
             if [ $(id -u) = 0 ]; then exec setpriv --reuid=nobody --clear-groups \"$@\"; \
             else exec \"$@\"; fi; }; ",
            $line
        )
    };
}

macro_rules! stress {
    ($name:literal) => {
        App {
            name: concat!("stress-ng-", $name),
            unit: "operations",
            needs: &[Need::program("stress-ng", "stress-ng")],
            amount: WorkAmount::Seconds(2),
            kind: Rated {
                run: concat!(
                    "exec $RUN stress-ng --",
                    $name,
                    " 2 -t $AMOUNT --metrics-brief --verify 2>&1"
                ),
                rate: "awk '/metrc.*[0-9]$/ { units = $(NF - 5); rate = $(NF - 1) } \
                       END { print units, rate }'",
            },
            ..PLAIN
        }
    };
}

macro_rules! openmp {
    ($compiler:literal, $policy:literal, $program:ident) => {
        App {
            name: concat!("openmp-", $compiler, "-", $policy),
            unit: "rounds of a thread",
            program: Some(&$program),
            threads: ThreadList::TimesCpus(&[1, 2, 4, 16]),
            amount: WorkAmount::Units(20_000),
            kind: Batch {
                run: concat!(
                    "OMP_WAIT_POLICY=",
                    $policy,
                    " exec $RUN $PROGRAM $THREADS $((AMOUNT / THREADS))"
                ),
                check: NOTHING,
            },
            ..PLAIN
        }
    };
}

pub(super) const APPS: &[App] = &[
    App {
        name: "mariadb",
        unit: "transactions",
        needs: &[
            Need::program("mariadbd", "mariadb-server"),
            Need::program("sysbench", "sysbench"),
        ],
        threads: ThreadList::Numbers(&[4, 64, 1000]),
        amount: WorkAmount::Seconds(4),
        prepare: "mariadb-install-db --no-defaults --datadir=$PWD/data --user=$(id -un) \
            --auth-root-authentication-method=normal",
        kind: Server {
            start: "exec $RUN mariadbd --no-defaults --user=$(id -un) --datadir=$PWD/data \
                --socket=$PWD/socket --skip-networking --max-connections=$((THREADS + 200)) \
                --table-open-cache=4000 --innodb-flush-log-at-trx-commit=2",
            is_ready: "mariadb-admin --no-defaults -uroot -S $PWD/socket ping",
            fill: "mariadb --no-defaults -uroot -S $PWD/socket -e 'create database sbtest' && \
                sysbench oltp_read_only --db-driver=mysql --mysql-socket=$PWD/socket \
                --mysql-user=root --tables=2 --table-size=5000 prepare",
            load: "exec sysbench oltp_read_only --db-driver=mysql --mysql-socket=$PWD/socket \
                --mysql-user=root --tables=2 --table-size=5000 --time=$AMOUNT --threads=$THREADS \
                run",
            rate: "sed -n 's/.*transactions: *\\([0-9]*\\) *(\\(.*\\) per sec.*/\\1 \\2/p'",
        },
        ..PLAIN
    },
    App {
        name: "memcached",
        unit: "requests",
        needs: &[
            Need::program("memcached", "memcached"),
            Need::program("memcslap", "libmemcached-tools"),
        ],
        amount: WorkAmount::Units(80_000),
        kind: Server {
            start: "exec $RUN memcached -u $(id -un) -t 4 -l 127.0.0.1 -p $PORT -U 0",
            is_ready: "memcping --servers=127.0.0.1:$PORT",
            fill: NOTHING,
            load: "exec memcslap --servers=127.0.0.1:$PORT --concurrency=40 --test=set \
                --execute-number=$((AMOUNT / 40))",
            rate: "awk -v units=$AMOUNT '/Time/ { for (i = 1; i < NF; i++) \
                if ($i ~ /^[0-9.]+$/) seconds = $i } END { print units, units / seconds }'",
        },
        ..PLAIN
    },
    App {
        name: "redis",
        unit: "requests",
        needs: &[
            Need::program("redis-server", "redis-server"),
            Need::program("redis-benchmark", "redis-tools"),
        ],
        amount: WorkAmount::Units(50_000),
        kind: Server {
            start: "exec $RUN redis-server --bind 127.0.0.1 --port $PORT --save '' \
                --io-threads 4 --io-threads-do-reads yes",
            is_ready: "redis-cli -p $PORT ping",
            fill: NOTHING,
            load: "exec redis-benchmark -p $PORT -c 50 -P 4 -n $AMOUNT -t set --csv",
            rate: "awk -v units=$AMOUNT -F'\"' 'END { print units, $4 }'",
        },
        ..PLAIN
    },
    App {
        name: "nginx",
        unit: "requests",
        needs: &[Need::program("nginx", "nginx"), Need::program("ab", "apache2-utils")],
        amount: WorkAmount::Units(2000),
        prepare: "head -c 2000000 /dev/urandom > big; chmod a+rx . && printf '%s\\n' 'daemon off;' \
            'worker_processes 1; error_log error; thread_pool default threads=16;' \
            'events {} http { access_log off; aio threads; server {' > head",
        kind: Server {
            start: "{ echo \"user $(id -un); pid $PWD/pid;\"; cat head; \
                echo \"listen 127.0.0.1:$PORT; root $PWD; } }\"; } > conf; \
                exec $RUN nginx -p $PWD -c $PWD/conf",
            is_ready: "ab -q -n 1 http://127.0.0.1:$PORT/big",
            fill: NOTHING,
            load: "exec ab -q -n $AMOUNT -c 40 http://127.0.0.1:$PORT/big",
            rate: "awk -v units=$AMOUNT '/^Failed/ && $3 { exit 1 } \
                /^Requests per/ { print units, $4 }'",
        },
        ..PLAIN
    },
    App {
        name: "postgresql",
        unit: "transactions",
        needs: &[Need::file("/usr/lib/postgresql", "", "bin/pgbench", "postgresql")],
        amount: WorkAmount::Seconds(4),
        prepare: postgresql!(
            "chmod a+rx . && mkdir -m 700 data && { [ $(id -u) != 0 ] || chown nobody data; } && \
             as_user initdb -D $PWD/data -U user"
        ),
        kind: Server {
            start: postgresql!(
                "as_user $RUN $(command -v postgres) -D $PWD/data -p $PORT -k $PWD/data"
            ),
            is_ready: postgresql!("pg_isready -h $PWD/data -p $PORT"),
            fill: postgresql!("exec pgbench -h $PWD/data -p $PORT -U user -i -q postgres"),
            load: postgresql!(
                "exec pgbench -h $PWD/data -p $PORT -U user -n -c 8 -j 2 -T $AMOUNT postgres"
            ),
            rate: "sed -n 's/^number of .*processed: \\([0-9]*\\).*/\\1/p; \
                s/^tps = \\([0-9.]*\\).*/\\1/p'",
        },
        ..PLAIN
    },
    App {
        name: "ffmpeg-x264",
        unit: "frames",
        needs: &[Need::program("ffmpeg", "ffmpeg")],
        amount: WorkAmount::Units(200),
        prepare: "ffmpeg -v error -f lavfi -i testsrc2=s=640x360 -frames:v $AMOUNT -threads 8 \
            -c:v libx264 -f h264 expected",
        kind: Batch {
            run: "exec $RUN ffmpeg -v error -nostdin -f lavfi -i testsrc2=s=640x360 \
                -frames:v $AMOUNT -threads 8 -c:v libx264 -f h264 got",
            check: "cmp expected got",
        },
        ..PLAIN
    },
    App {
        name: "ffmpeg-dav1d",
        unit: "frames",
        needs: &[Need::program("ffmpeg", "ffmpeg")],
        amount: WorkAmount::Units(400),
        // Twenty-five frames, which are decoded again and again.
        prepare: "ffmpeg -v error -f lavfi -i testsrc2=s=640x360:d=1 -c:v libaom-av1 -cpu-used 8 \
            in.mkv && ffmpeg -v error -stream_loop $((AMOUNT / 25 - 1)) -c:v libdav1d -i in.mkv \
            -f framecrc expected",
        kind: Batch {
            run: "exec $RUN ffmpeg -v error -nostdin -threads 8 \
                -stream_loop $((AMOUNT / 25 - 1)) -c:v libdav1d -i in.mkv -f framecrc got",
            check: "cmp expected got",
        },
        ..PLAIN
    },
    openmp!("gcc", "active", OPENMP_GCC),
    openmp!("gcc", "passive", OPENMP_GCC),
    openmp!("clang", "active", OPENMP_CLANG),
    openmp!("clang", "passive", OPENMP_CLANG),
    App {
        name: "rust",
        unit: "rounds",
        program: Some(&SCOPED),
        amount: WorkAmount::Units(100),
        kind: Batch { run: "exec $RUN $PROGRAM $AMOUNT", check: NOTHING },
        ..PLAIN
    },
    App {
        name: "c++20",
        unit: "rounds",
        program: Some(&ATOMIC_WAIT),
        amount: WorkAmount::Units(2000),
        kind: Batch { run: "exec $RUN $PROGRAM $AMOUNT", check: NOTHING },
        ..PLAIN
    },
    App {
        name: "sysbench-threads",
        unit: "events",
        needs: &[Need::program("sysbench", "sysbench")],
        amount: WorkAmount::Seconds(4),
        kind: Rated {
            run: "exec $RUN sysbench threads --threads=64 --time=$AMOUNT run",
            rate: "awk '/total time:/ { seconds = $3 + 0 } /number of events:/ { units = $5 } \
                END { print units, units / seconds }'",
        },
        ..PLAIN
    },
    stress!("pthread"),
    stress!("mutex"),
    stress!("sem"),
    stress!("futex"),
    stress!("switch"),
    App {
        name: "python",
        unit: "suites",
        needs: &[
            Need::program("/usr/bin/python3", "python3"),
            Need::file("/usr/lib", "python3", "test/test_queue.py", "libpython3.11-testsuite"),
        ],
        kind: Batch {
            run: "exec $RUN /usr/bin/python3 -m test test_thread test_queue",
            check: NOTHING,
        },
        ..PLAIN
    },
    App {
        name: "java",
        unit: "rounds",
        needs: &[Need::program("javac", "default-jdk-headless")],
        files: &[("Threads.java", include_str!("../../../drivers/apps-threads.java"))],
        amount: WorkAmount::Units(8),
        prepare: "javac -d . Threads.java",
        kind: Batch { run: "exec $RUN java -cp . Threads $AMOUNT", check: NOTHING },
        ..PLAIN
    },
];

/// The application of that name.
pub(super) fn find(name: &str) -> Option<&'static App> {
    APPS.iter().find(|app| app.name == name)
}

const OPENMP: &[(&str, &str)] =
    &[("apps-openmp.c", include_str!("../../../drivers/apps-openmp.c"))];

static OPENMP_GCC: Driver = Driver::new(OPENMP, || openmp("gcc", "gcc"));

static OPENMP_CLANG: Driver = Driver::new(OPENMP, || openmp("clang", "clang libomp-dev"));

static SCOPED: Driver =
    Driver::new(&[("apps-scoped.rs", include_str!("../../../drivers/apps-scoped.rs"))], || {
        let compiler = find_compiler("rustc", "rustc")?;
        Ok(Toolchain { before: words("-O --edition 2021"), ..compiler })
    });

static ATOMIC_WAIT: Driver = Driver::new(
    &[("apps-atomic-wait.cpp", include_str!("../../../drivers/apps-atomic-wait.cpp"))],
    || {
        let compiler = find_compiler("g++", "g++")?;
        Ok(Toolchain { before: words("-O2 -std=c++20 -pthread"), ..compiler })
    },
);

fn openmp(compiler: &str, packages: &str) -> Result<Toolchain, Skip> {
    Ok(Toolchain { after: words("-fopenmp"), ..find_compiler(compiler, packages)? })
}

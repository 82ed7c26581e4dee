//! Safe code that suspends in the middle of its use of thread-locals.

use std::cell::Cell;
use std::collections::HashSet;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Mutex};

use daiko_libraries::{FIBERS, Member, everywhere, hundred, hundred_in};

thread_local! {
    static BOXED: Box<[u64; 8]> = {
        daiko::yield_now(); // A lock, a channel or a log line would suspend as well.
        Box::new([7; 8])
    };
    static WORD: String = {
        daiko::yield_now();
        format!("initialised by {:?} {}", daiko::current().name(), "x".repeat(100))
    };
}

/// A second initializer of the same worker used to drop the value that the first fiber borrows.
#[test]
fn a_value_whose_initializer_suspends_stays_while_it_is_borrowed() {
    let body = |member: &Member| {
        BOXED.with(|boxed| {
            let inner: &[u64; 8] = boxed;
            assert_eq!(*inner, [7; 8]);
            member.meet();
            // Takes the block, if it was freed.
            let other = Box::new([0xdead_u64; 8]);
            member.meet();
            assert_eq!(*inner, [7; 8], "beside {:p}", &*other);
            std::ptr::from_ref(inner).addr()
        })
    };
    everywhere(|runtime, kind| {
        let addresses = hundred_in(runtime, kind, body);
        assert_eq!(HashSet::<usize>::from_iter(addresses).len(), FIBERS);
    });
}

#[test]
fn a_string_whose_initializer_suspends_is_that_of_its_fiber() {
    everywhere(|runtime, kind| {
        let fibers: Vec<_> = (0..FIBERS)
            .map(|index| {
                let body = move || {
                    WORD.with(|word| {
                        let before = (word.as_ptr(), word.clone());
                        assert!(word.contains(&format!("\"fiber {index}\"")), "{word}");
                        for _ in 0..5 {
                            daiko::yield_now();
                            std::hint::black_box(vec![0x5a_u8; word.len()]);
                        }
                        assert_eq!((word.as_ptr(), word), (before.0, &before.1));
                    });
                };
                runtime.spawn_with(kind().name(format!("fiber {index}")), body).unwrap()
            })
            .collect();
        for fiber in fibers {
            fiber.join().unwrap();
        }
    });
}

scoped_tls::scoped_thread_local!(static SCOPED: Cell<usize>);

/// `scoped-tls` relies on scopes that are closed in the reverse order, for each thread.
#[test]
fn scopes_of_scoped_tls_end_in_any_order_of_fibers() {
    hundred(|member| {
        assert!(!SCOPED.is_set());
        let value = Cell::new(member.index);
        SCOPED.set(&value, || {
            member.meet();
            SCOPED.with(|value| assert_eq!(value.replace(value.get() + 1), member.index));
            let inner = Cell::new(member.index + 1000);
            SCOPED.set(&inner, || {
                member.stagger();
                SCOPED.with(|inner| assert_eq!(inner.get(), member.index + 1000));
            });
            member.stagger();
            SCOPED.with(|value| assert_eq!(value.get(), member.index + 1));
        });
        member.stagger();
        assert!(!SCOPED.is_set());
    });
}

/// A unwinding fiber's destructors suspend. Its neighbours do not appear to panic.
#[test]
fn the_panic_of_a_fiber_does_not_poison_the_locks_of_others() {
    struct Suspends<'m>(&'m Member);
    impl Drop for Suspends<'_> {
        fn drop(&mut self) {
            assert!(std::thread::panicking());
            self.0.meet();
            self.0.meet();
            assert!(std::thread::panicking());
        }
    }
    panic::set_hook(Box::new(|_| ()));
    hundred(|member| {
        if member.index % 2 == 0 {
            let unwound = panic::catch_unwind(AssertUnwindSafe(|| {
                let _suspends = Suspends(member);
                panic!("{}", member.index);
            }));
            let text = *unwound.unwrap_err().downcast::<String>().unwrap();
            assert_eq!(text, member.index.to_string());
        } else {
            let lock = Mutex::new(());
            member.meet();
            assert!(!std::thread::panicking());
            drop(lock.lock().unwrap());
            member.meet();
            assert!(!lock.is_poisoned());
        }
        assert!(!std::thread::panicking());
    });
    drop(panic::take_hook());
}

#[test]
fn each_fiber_is_in_the_context_of_its_own_tokio_runtime() {
    hundred(|member| {
        let build = || tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (outer, inner) = (build(), build());
        let here = || tokio::runtime::Handle::current().id();
        {
            let _outer = outer.enter();
            member.meet();
            assert_eq!(here(), outer.handle().id());
            {
                let _inner = inner.enter();
                member.stagger();
                assert_eq!(here(), inner.handle().id());
            }
            member.stagger();
            assert_eq!(here(), outer.handle().id());
        }
        member.meet();
        assert!(tokio::runtime::Handle::try_current().is_err());
        let answer = outer.block_on(async {
            let task = tokio::spawn(async {
                daiko::yield_now();
                6
            });
            member.stagger();
            task.await.unwrap() * 7
        });
        assert_eq!(answer, 42);
    });
}

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Lines {
    fn subscriber(&self) -> impl tracing::Subscriber + Send + Sync + use<> {
        let (lines, format) = (self.clone(), tracing_subscriber::fmt());
        format
            .without_time()
            .with_target(false)
            .with_ansi(false)
            .with_writer(move || lines.clone())
            .finish()
    }

    fn take(&self) -> Vec<String> {
        let bytes = std::mem::take(&mut *self.0.lock().unwrap());
        String::from_utf8(bytes).unwrap().lines().map(|line| line.trim().to_owned()).collect()
    }
}

#[test]
fn spans_of_tracing_stay_apart() {
    let lines = Lines::default();
    tracing::subscriber::set_global_default(lines.subscriber()).unwrap();
    hundred(|member| {
        let id = member.index;
        let span = tracing::info_span!("request", id);
        let _entered = span.enter();
        member.meet();
        tracing::info!("begin, I am {id}");
        let step = tracing::info_span!("step", of = id);
        step.in_scope(|| {
            member.stagger();
            tracing::info!("inside, I am {id}");
        });
        member.stagger();
        tracing::info!("end, I am {id}");
    });
    let mut lines = lines.take();
    lines.sort();
    let times = lines.len() / (3 * FIBERS);
    let mut expected = Vec::new();
    for id in (0..FIBERS).flat_map(|id| std::iter::repeat_n(id, times)) {
        let span = format!("INFO request{{id={id}}}:");
        expected.push(format!("{span} begin, I am {id}"));
        expected.push(format!("{span}step{{of={id}}}: inside, I am {id}"));
        expected.push(format!("{span} end, I am {id}"));
    }
    expected.sort();
    assert_eq!(times, 8, "two times for each kind, on one worker and on two");
    assert_eq!(lines, expected);
}

#[test]
fn each_fiber_logs_to_its_own_subscriber() {
    hundred(|member| {
        let lines = Lines::default();
        tracing::subscriber::with_default(lines.subscriber(), || {
            member.meet();
            tracing::info!("for {}", member.index);
            member.stagger();
            tracing::info!("again for {}", member.index);
        });
        let expected =
            ["INFO for", "INFO again for"].map(|text| format!("{text} {}", member.index));
        assert_eq!(lines.take(), expected);
    });
}

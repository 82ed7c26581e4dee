//! The memory of connections: none for data that was only announced, and none while they wait.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use super::commands::Database;
use super::peer::{Peer, ask, encoded, sender};
use super::resp::{Parsed, Parser};
use super::serve::serve;

/// Counts, for each thread, the bytes that it holds, and their maximum.
struct Counting;

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static MOST: Cell<isize> = const { Cell::new(0) };
}

impl Counting {
    fn count(bytes: isize) {
        // A thread that ends may free memory when its thread-locals are gone.
        let _ = LIVE.try_with(|live| live.set(live.get() + bytes));
        let _ = LIVE.try_with(|live| MOST.try_with(|most| most.set(most.get().max(live.get()))));
    }
}

// SAFETY: `System` does all the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Self::count(layout.size() as isize);
        // SAFETY: passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        Self::count(-(layout.size() as isize));
        // SAFETY: passed on.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns the most bytes that this thread held during `f`, beyond those from before.
fn most_during(f: impl FnOnce()) -> isize {
    let before = LIVE.get();
    MOST.set(before);
    f();
    MOST.get() - before
}

#[test]
fn announced_bytes_take_no_memory() {
    for header in
        ["*1048576\r\n", "*1\r\n$536870912\r\n", "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$536870912\r\n"]
    {
        let mut input = header.as_bytes().to_vec();
        let parse = || assert_eq!(Parser::default().parse(&mut input), Ok(Parsed::Incomplete));
        assert!(most_during(parse) < 1024, "{header}");
        let server = Database::new();
        let most = most_during(|| _ = ask(&server, header.as_bytes()));
        assert!(most < 64 << 10, "{header}: {most}");
    }
}

#[test]
fn memory_grows_with_the_received_part_of_a_long_argument() {
    let server = Database::new();
    for bytes in [100 << 10, 1 << 20, 16 << 20] {
        let sent = [b"*1\r\n$536870912\r\n", &vec![b'x'; bytes][..]].concat();
        let sends = sender(&sent, usize::MAX);
        let mut peer = Peer { awaited: || (), sends, gets: |_: &[u8]| () };
        let most = most_during(|| serve(&mut peer, &server).unwrap());
        // A buffer may be twice as long as its data, while it is copied from the previous buffer.
        let bound = 3 * bytes as isize + (64 << 10);
        assert!(most >= bytes as isize && most <= bound, "{bytes}: {most}");
    }
}

/// Asks; while the server waits for more, `depth` further requests run, nested. Returns the bytes
/// that the thread holds then.
fn ask_nested(server: &Database, depth: usize) -> isize {
    let (asked, live) = (Cell::new(false), Cell::new(0));
    let awaited = || match depth {
        _ if !asked.get() => {}
        0 => live.set(LIVE.get()),
        _ => live.set(ask_nested(server, depth - 1)),
    };
    let request = encoded([&b"GET"[..], b"k"]);
    let mut sends = sender(&request, usize::MAX);
    let sends = |into: &mut [u8]| {
        asked.set(true);
        sends(into)
    };
    serve(&mut Peer { awaited, sends, gets: |_: &[u8]| () }, server).unwrap();
    live.get()
}

#[test]
fn connections_that_wait_share_one_buffer() {
    let server = Database::new();
    ask(&server, b"set k v\r\n");
    let (one, many) = (ask_nested(&server, 1), ask_nested(&server, 101));
    // The bytes that the clients of this test hold themselves: their requests.
    assert!(many - one < 100 * 64, "{one} {many}");
}

#[test]
fn a_long_value_leaves_no_long_buffers_behind() {
    let server = Database::new();
    ask(&server, b"set k short\r\n");
    let set = encoded([b"SET", &b"k"[..], &[b'v'; 4 << 20]]);
    let requests = [set, b"get k\r\ndel k\r\n".to_vec()].concat();
    let (before, live) = (LIVE.get(), Cell::new(0));
    // The last wait before the end, when all requests are answered.
    let awaited = || live.set(LIVE.get() - before);
    let mut replied = 0;
    let gets = |bytes: &[u8]| replied += bytes.len();
    let sends = sender(&requests, usize::MAX);
    serve(&mut Peer { awaited, sends, gets }, &server).unwrap();
    assert!(replied > 4 << 20 && live.get() < 256 << 10, "{replied} {}", live.get());
}

#[test]
fn long_replies_are_sent_piece_by_piece() {
    let server = Database::new();
    ask(&server, &encoded([b"SET", &b"k"[..], &[b'v'; 10_000]]));
    let pipeline = b"get k\r\n".repeat(1000);
    let mut longest = 0;
    let gets = |bytes: &[u8]| longest = longest.max(bytes.len());
    let mut peer = Peer { awaited: || (), sends: sender(&pipeline, usize::MAX), gets };
    let most = most_during(|| serve(&mut peer, &server).unwrap());
    assert!(longest > 10_000 && longest < 128 << 10, "{longest}");
    assert!(most < 512 << 10, "{most}");
}

//! The threads that may have a handle, or share it: `Send` and `Sync` of every handle, with
//! contents that are both, only `Send`, only `Sync`, and neither.

use std::cell::Cell;
use std::marker::PhantomData;
use std::rc::Rc;

use daiko::sync::channel::{
    OneshotFuture, OneshotReceiver, OneshotSender, Receiver, RecvFuture, SendFuture, Sender,
};
use daiko::{agent, cancel, net, shm, sync, watch};

/// Only `Send`.
type Sent = Cell<u8>;
/// Only `Sync`.
type Shared = std::sync::MutexGuard<'static, u8>;
/// Neither.
type Local = Rc<u8>;

struct Probe<T>(PhantomData<T>);

trait Neither {
    const SEND: bool = false;
    const SYNC: bool = false;
}

impl<T> Neither for Probe<T> {}

#[allow(dead_code, reason = "chosen before the trait's, where the bound holds")]
impl<T: Send> Probe<T> {
    const SEND: bool = true;
}

#[allow(dead_code, reason = "as above")]
impl<T: Sync> Probe<T> {
    const SYNC: bool = true;
}

macro_rules! assert_each {
    ($($type:ty: $send:literal $sync:literal;)+) => {
        $(assert_eq!(
            (<Probe<$type>>::SEND, <Probe<$type>>::SYNC),
            ($send == "Send", $sync == "Sync"),
            stringify!($type)
        );)+
    };
}

#[test]
fn the_contents_of_a_lock_decide() {
    assert_each! {
        sync::Mutex<Sent>: "Send" "Sync";
        sync::Mutex<Shared>: "-" "-";
        sync::Mutex<Local>: "-" "-";
        sync::RwLock<u8>: "Send" "Sync";
        sync::RwLock<Sent>: "Send" "-";
        sync::RwLock<Shared>: "-" "-";
        sync::OnceLock<u8>: "Send" "Sync";
        sync::OnceLock<Sent>: "Send" "-";
        sync::OnceLock<Shared>: "-" "-";
        sync::LazyLock<u8, Sent>: "Send" "Sync";
        sync::LazyLock<u8, Local>: "-" "-";
        sync::LazyLock<Sent, u8>: "Send" "-";
        sync::LazyLock<Shared, u8>: "-" "-";
    }
}

#[test]
fn guards_stay_and_share_what_may_be_shared() {
    assert_each! {
        sync::MutexGuard<'static, u8>: "-" "Sync";
        sync::MutexGuard<'static, Sent>: "-" "-";
        sync::RwLockReadGuard<'static, u8>: "-" "Sync";
        sync::RwLockReadGuard<'static, Sent>: "-" "-";
        sync::RwLockWriteGuard<'static, u8>: "-" "Sync";
        sync::RwLockWriteGuard<'static, Sent>: "-" "-";
        sync::Permit<'static>: "-" "Sync";
        shm::MutexGuard<'static, u8>: "-" "Sync";
        shm::RwLockReadGuard<'static, u8>: "-" "Sync";
        shm::RwLockWriteGuard<'static, u8>: "-" "Sync";
    }
}

#[test]
fn messages_decide_for_the_ends_of_a_channel() {
    assert_each! {
        Sender<Sent>: "Send" "Sync";
        Sender<Shared>: "-" "-";
        Receiver<Sent>: "Send" "Sync";
        Receiver<Local>: "-" "-";
        OneshotSender<Sent>: "Send" "Sync";
        OneshotSender<Shared>: "-" "-";
        OneshotReceiver<Sent>: "Send" "-";
        OneshotReceiver<Local>: "-" "-";
        RecvFuture<'static, Sent>: "Send" "-";
        RecvFuture<'static, Local>: "-" "-";
        SendFuture<'static, Sent>: "Send" "-";
        SendFuture<'static, Local>: "-" "-";
        OneshotFuture<Sent>: "Send" "-";
        OneshotFuture<Local>: "-" "-";
        shm::Sender<u8>: "Send" "Sync";
        shm::Receiver<u8>: "Send" "Sync";
    }
}

#[test]
fn a_result_decides_for_its_handle_and_handles_without_contents_go_anywhere() {
    assert_each! {
        daiko::JoinHandle<Sent>: "Send" "Sync";
        daiko::JoinHandle<Local>: "-" "Sync";
        daiko::JoinFuture<Sent>: "Send" "Sync";
        daiko::JoinFuture<Local>: "-" "Sync";
        daiko::ScopedJoinHandle<'static, Sent>: "Send" "Sync";
        daiko::ScopedJoinHandle<'static, Local>: "-" "Sync";
        daiko::Scope<'static, 'static>: "Send" "Sync";
        daiko::JoinError: "Send" "-";
        daiko::Fiber: "Send" "Sync";
        daiko::Runtime: "Send" "Sync";
        daiko::FiberLocal<Local>: "Send" "Sync";
        agent::PollerBuilder: "Send" "Sync";
        agent::Registration: "Send" "Sync";
        cancel::CancelToken: "Send" "Sync";
        net::Async<std::net::TcpStream>: "Send" "Sync";
        net::TcpStream: "Send" "Sync";
        watch::WatchBuilder: "Send" "Sync";
        watch::NotificationArea<u64>: "Send" "Sync";
        watch::Slot<u32>: "Send" "Sync";
        shm::Segment: "Send" "Sync";
        shm::Server: "Send" "Sync";
        shm::Client: "Send" "Sync";
        shm::Bytes<'static>: "Send" "Sync";
    }
}

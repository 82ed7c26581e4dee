//! Addresses, and the look-up of names.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::vec;

/// A name of one or more addresses, as [`std::net::ToSocketAddrs`], for the same types.
///
/// The C library looks up the name of a host, in a [`blocking`](crate::blocking()) call: the fiber
/// is suspended meanwhile. An address, also as a text, needs no look-up.
///
/// ```
/// use daiko::net::lookup_host;
///
/// let addresses = daiko::run(|| lookup_host("127.0.0.1:80"))?;
/// assert!(addresses.eq(["127.0.0.1:80".parse().unwrap()]));
/// # std::io::Result::Ok(())
/// ```
pub trait ToSocketAddrs: sealed::Resolve {}

impl<T: sealed::Resolve + ?Sized> ToSocketAddrs for T {}

/// Returns the addresses of a name.
///
/// # Errors
///
/// If the name cannot be looked up.
pub fn lookup_host(name: impl ToSocketAddrs) -> io::Result<Addresses> {
    name.resolve()
}

/// The addresses that [`lookup_host`] has found.
#[derive(Clone, Debug)]
pub struct Addresses(List);

#[derive(Clone, Debug)]
enum List {
    One(Option<SocketAddr>),
    Many(vec::IntoIter<SocketAddr>),
}

impl Addresses {
    fn one(address: SocketAddr) -> Self {
        Addresses(List::One(Some(address)))
    }
}

impl Iterator for Addresses {
    type Item = SocketAddr;

    fn next(&mut self) -> Option<SocketAddr> {
        match &mut self.0 {
            List::One(address) => address.take(),
            List::Many(all) => all.next(),
        }
    }
}

/// Tries all addresses in turn: the first success, else the last failure.
pub(super) fn first_of<R>(
    name: impl ToSocketAddrs,
    mut attempt: impl FnMut(SocketAddr) -> io::Result<R>,
) -> io::Result<R> {
    let mut last = None;
    for address in name.resolve()? {
        match attempt(address) {
            Ok(done) => return Ok(done),
            Err(error) => last = Some(error),
        }
    }
    Err(last
        .unwrap_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the name has no address")))
}

/// Asks the C library, in a `blocking` call.
fn look_up(name: impl std::net::ToSocketAddrs + Sync) -> io::Result<Addresses> {
    let found: Vec<_> = crate::blocking(|| name.to_socket_addrs().map(Iterator::collect))?;
    Ok(Addresses(List::Many(found.into_iter())))
}

mod sealed {
    use super::*;

    pub trait Resolve {
        #[doc(hidden)]
        fn resolve(&self) -> io::Result<Addresses>;
    }

    impl Resolve for SocketAddr {
        fn resolve(&self) -> io::Result<Addresses> {
            Ok(Addresses::one(*self))
        }
    }

    impl Resolve for [SocketAddr] {
        fn resolve(&self) -> io::Result<Addresses> {
            Ok(Addresses(List::Many(Vec::from(self).into_iter())))
        }
    }

    impl<const N: usize> Resolve for [SocketAddr; N] {
        fn resolve(&self) -> io::Result<Addresses> {
            self[..].resolve()
        }
    }

    impl Resolve for str {
        fn resolve(&self) -> io::Result<Addresses> {
            self.parse().map_or_else(|_| look_up(self), |address| Ok(Addresses::one(address)))
        }
    }

    impl Resolve for String {
        fn resolve(&self) -> io::Result<Addresses> {
            self[..].resolve()
        }
    }

    impl Resolve for (&str, u16) {
        fn resolve(&self) -> io::Result<Addresses> {
            match self.0.parse::<IpAddr>() {
                Ok(address) => Ok(Addresses::one((address, self.1).into())),
                Err(_) => look_up(*self),
            }
        }
    }

    impl Resolve for (String, u16) {
        fn resolve(&self) -> io::Result<Addresses> {
            (&self.0[..], self.1).resolve()
        }
    }

    impl<T: Resolve + ?Sized> Resolve for &T {
        fn resolve(&self) -> io::Result<Addresses> {
            (**self).resolve()
        }
    }

    macro_rules! one {
        ($($address:ty),*) => {$(
            impl Resolve for $address {
                fn resolve(&self) -> io::Result<Addresses> {
                    Ok(Addresses::one(SocketAddr::from(*self)))
                }
            }
        )*};
    }

    one!(SocketAddrV4, SocketAddrV6, (IpAddr, u16), (Ipv4Addr, u16), (Ipv6Addr, u16));
}

//! Selects the architecture: all that differs between processors is in its folder or file.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(not(target_arch = "x86_64"))]
mod lacking;
#[cfg(target_arch = "riscv64")]
mod riscv64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub(crate) use self::aarch64::*;
#[cfg(not(target_arch = "x86_64"))]
pub(crate) use self::lacking::*;
#[cfg(target_arch = "riscv64")]
pub(crate) use self::riscv64::*;
#[cfg(target_arch = "x86_64")]
pub(crate) use self::x86_64::*;

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
compile_error!("daiko-sys knows the registers of x86-64, aarch64 and riscv64 only");

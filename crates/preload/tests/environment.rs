//! The unit tests of the module `environment`, in a program without doors.

#[allow(dead_code, reason = "the tests call what the function consists of")]
#[path = "../src/environment.rs"]
mod environment;

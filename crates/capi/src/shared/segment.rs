//! Segments.

use std::ffi::c_char;
use std::path::Path;

use daiko::shm::{Segment, SegmentOptions};

use super::{How, code_of_segment, name};
use crate::answer::answer;
use crate::pointer::{Code, OutPlace, Passed, give, numbers};

fn open_segment(
    segment: OutPlace<*const Segment>,
    path: *const c_char,
    how: u32,
    bytes: usize,
    options: &SegmentOptions,
) -> Result<(), Code> {
    segment.check()?;
    let (path, how) = (Path::new(name(path)?), How::of(how)?);
    let opened = how.get(
        || options.open(path),
        || options.create(path, bytes),
        || options.open_or_create(path, bytes),
    );
    segment.put(give(opened?))
}

#[unsafe(no_mangle)]
extern "C" fn daiko_segment_open(
    segment: OutPlace<*const Segment>,
    path: *const c_char,
    how: u32,
    bytes: usize,
) -> Code {
    answer(|| open_segment(segment, path, how, bytes, &Segment::options()))
}

#[unsafe(no_mangle)]
extern "C" fn daiko_segment_open_for(
    segment: OutPlace<*const Segment>,
    path: *const c_char,
    how: u32,
    bytes: usize,
    users: *const u32,
    user_count: usize,
    groups: *const u32,
    group_count: usize,
) -> Code {
    answer(|| {
        let users = numbers(users, user_count)?.iter().copied();
        let groups = numbers(groups, group_count)?.iter().copied();
        let options = users.fold(Segment::options(), SegmentOptions::user);
        let options = groups.fold(options, SegmentOptions::group);
        open_segment(segment, path, how, bytes, &options)
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_segment_remove(segment: Passed<Segment>) -> Code {
    answer(|| segment.get()?.remove().map_err(|error| code_of_segment(&error)))
}

#[unsafe(no_mangle)]
extern "C" fn daiko_segment_detach(segment: Passed<Segment>) -> Code {
    answer(|| segment.take().map(drop))
}

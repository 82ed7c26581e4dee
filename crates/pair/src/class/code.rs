//! Code of another process.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

use super::decode::ReadCode;
use super::mappings::{Mapped, seen_by};

const PAGE: usize = 4096;

/// Reads the code of a process, each page once.
pub(super) struct Code {
    /// A thread of the process that has not ended.
    thread: u32,
    /// `None` if the caller may not read the memory of the process.
    memory: Option<File>,
    mapped: Vec<Mapped>,
    pages: HashMap<u64, Option<Box<[u8; PAGE]>>>,
}

impl Code {
    pub(super) fn of(thread: u32, mapped: Vec<Mapped>) -> Self {
        let memory = File::open(format!("/proc/{thread}/mem")).ok();
        Self { thread, memory, mapped, pages: HashMap::new() }
    }

    fn page(&mut self, start: u64) -> Option<&[u8; PAGE]> {
        if !self.pages.contains_key(&start) {
            let page = self.in_memory(start).or_else(|| self.in_file(start));
            self.pages.insert(start, page);
        }
        self.pages[&start].as_deref()
    }

    fn in_memory(&self, start: u64) -> Option<Box<[u8; PAGE]>> {
        read(self.memory.as_ref()?, start)
    }

    /// Reads from the file that is mapped there, through the process's own view of it.
    fn in_file(&self, start: u64) -> Option<Box<[u8; PAGE]>> {
        let mapped = self.mapped.iter().find(|mapped| mapped.contains(start))?;
        let file = seen_by(self.thread, mapped.path.as_deref()?)?;
        read(&File::open(file).ok()?, mapped.offset + (start - mapped.start))
    }
}

fn read(file: &File, at: u64) -> Option<Box<[u8; PAGE]>> {
    let mut page = Box::new([0; PAGE]);
    let len = file.read_at(&mut page[..], at).ok()?;
    // The end of a file is mapped with zeros behind it.
    (len > 0).then_some(page)
}

impl ReadCode for Code {
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> usize {
        let mut done = 0;
        while done < bytes.len() {
            let Some(at) = address.checked_add(done as u64) else { break };
            let offset = (at % PAGE as u64) as usize;
            let Some(page) = self.page(at - offset as u64) else { break };
            let len = (PAGE - offset).min(bytes.len() - done);
            bytes[done..done + len].copy_from_slice(&page[offset..offset + len]);
            done += len;
        }
        done
    }

    fn read_data(&mut self, address: u64, bytes: &mut [u8]) -> usize {
        self.memory.as_ref().and_then(|memory| memory.read_at(bytes, address).ok()).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::class::Mappings;

    #[inline(never)]
    fn here() -> u64 {
        here as fn() -> u64 as usize as u64
    }

    /// Both ways read the same bytes, across a page boundary as well.
    #[test]
    fn code_is_that_of_memory_and_file() {
        let pid = std::process::id();
        let mapped = || Mappings::of(pid).unwrap().mapped;
        let mut by_memory = Code::of(pid, mapped());
        let mut by_file = Code { memory: None, ..Code::of(pid, mapped()) };
        let start = here() / PAGE as u64 * PAGE as u64 - 8;
        let (mut from_memory, mut from_file) = ([0; 64], [0; 64]);
        assert_eq!(by_memory.read(start, &mut from_memory), 64);
        assert_eq!(by_file.read(start, &mut from_file), 64);
        assert_eq!(from_memory, from_file);
        assert_ne!(from_memory, [0; 64]);
    }

    #[test]
    fn an_unmapped_address_has_no_code() {
        let pid = std::process::id();
        let mut code = Code::of(pid, Mappings::of(pid).unwrap().mapped);
        assert_eq!(code.read(0, &mut [0; 8]), 0);
        assert_eq!(code.read(u64::MAX - 2, &mut [0; 8]), 0);
    }
}

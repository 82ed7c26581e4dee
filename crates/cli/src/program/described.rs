//! ELF files made from a description, for tests and the fuzz target.

/// An ELF program for x86-64 with these facts, and no code.
#[derive(Clone, Debug, Default)]
pub struct DescribedProgram<'a> {
    /// The path of the program that loads this one.
    pub interpreter: Option<&'a [u8]>,
    pub libraries: Vec<&'a [u8]>,
    /// Dynamic symbols: first those used.
    pub used: Vec<&'a [u8]>,
    pub defined: Vec<&'a [u8]>,
    /// The versions that the file defines.
    pub versions: Vec<&'a [u8]>,
    pub has_go_note: bool,
    /// Whether the file may lie at any address, and says that it is a program.
    pub is_marked: bool,
    /// Whether symbols are counted by the older kind of hash table.
    pub has_old_hash: bool,
}

/// Offset of the tables in the file, which is also their address.
const TABLES: usize = 64 + 4 * 56;

impl DescribedProgram<'_> {
    /// Returns the file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut strings = vec![0];
        let mut string = |name: &[u8]| {
            let at = strings.len() as u32;
            strings.extend(name);
            strings.push(0);
            at
        };
        let libraries: Vec<u32> = self.libraries.iter().map(|name| string(name)).collect();
        let symbols: Vec<u32> =
            self.used.iter().chain(&self.defined).map(|name| string(name)).collect();
        let versions: Vec<u32> = self.versions.iter().map(|name| string(name)).collect();
        let mut file = File { bytes: vec![0; TABLES] };
        let mut dynamic: Vec<[u64; 2]> =
            libraries.iter().map(|&name| [1, u64::from(name)]).collect();
        let size = strings.len() as u64;
        dynamic.extend([[5, file.add(&strings)], [10, size]]);
        // The first symbol has no name. A defined one belongs to section 1.
        let symbol = |(index, name)| {
            let section = u32::from(index >= self.used.len());
            [name, section << 16, 0, 0, 0, 0]
        };
        let symbols = symbols.into_iter().enumerate().map(symbol);
        let table: Vec<u32> = [[0; 6]].into_iter().chain(symbols).flatten().collect();
        let count = (table.len() / 6) as u32;
        dynamic.extend([[6, file.add_words(&table)], self.hash(&mut file, count)]);
        dynamic.extend(file.add_versions(&versions).into_iter().flatten());
        dynamic.extend(self.is_marked.then_some([0x6fff_fffb, 0x0800_0000]));
        dynamic.push([0, 0]);
        self.finish(file, &dynamic)
    }

    fn hash(&self, file: &mut File, count: u32) -> [u64; 2] {
        if self.has_old_hash {
            return [4, file.add_words(&[1, count])];
        }
        // One bucket with one chain of all defined symbols, and a filter of one word.
        let defined = self.defined.len() as u32;
        let first = count - defined;
        let bucket = if defined == 0 { 0 } else { first };
        let mut words = vec![1, first, 1, 0, u32::MAX, u32::MAX, bucket];
        words.extend((1..=defined).map(|index| (2 * index) | u32::from(index == defined)));
        [0x6fff_fef5, file.add_words(&words)]
    }

    fn finish(&self, mut file: File, dynamic: &[[u64; 2]]) -> Vec<u8> {
        let mut segments = Vec::new();
        if let Some(path) = self.interpreter {
            let path = [path, b"\0"].concat();
            segments.push((3, file.add(&path), path.len() as u64));
        }
        if self.has_go_note {
            let note = [4, 3, 4, u32::from_le_bytes(*b"Go\0\0"), 7];
            segments.push((4, file.add_words(&note), 20));
        }
        if self.interpreter.is_some() || self.is_marked || !self.libraries.is_empty() {
            let words =
                dynamic.iter().flatten().flat_map(|word| [*word as u32, (word >> 32) as u32]);
            let words: Vec<u32> = words.collect();
            segments.push((2, file.add_words(&words), 4 * words.len() as u64));
        }
        segments.push((1, 0, file.bytes.len() as u64));
        let kind = if self.is_marked { 3 } else { 2 };
        file.bytes[..20]
            .copy_from_slice(&[b"\x7fELF\x02\x01\x01\0", &[0; 8][..], &[kind, 0, 62, 0]].concat());
        file.bytes[32] = 64;
        file.bytes[54] = 56;
        file.bytes[56] = segments.len() as u8;
        for (index, (kind, start, bytes)) in segments.into_iter().enumerate() {
            let entry = [kind, start, start, start, bytes, bytes, 4_u64];
            let at = 64 + 56 * index;
            let entry: Vec<u8> = entry.iter().flat_map(|word| word.to_le_bytes()).collect();
            file.bytes[at..at + 56].copy_from_slice(&entry);
        }
        file.bytes
    }
}

struct File {
    bytes: Vec<u8>,
}

impl File {
    /// Appends bytes and returns their offset.
    fn add(&mut self, bytes: &[u8]) -> u64 {
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        let at = self.bytes.len();
        self.bytes.extend(bytes);
        at as u64
    }

    fn add_words(&mut self, words: &[u32]) -> u64 {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.add(&bytes)
    }

    /// Appends definitions of versions: an entry of five words, then its name and an end.
    fn add_versions(&mut self, names: &[u32]) -> Option<[[u64; 2]; 2]> {
        let (last, _) = names.split_last()?;
        let entry = |name: &u32| {
            let next = if std::ptr::eq(name, last) { 0 } else { 28 };
            [1, 1 << 16, 0, 20, next, *name, 0]
        };
        let words: Vec<u32> = names.iter().flat_map(entry).collect();
        let at = self.add_words(&words);
        Some([[0x6fff_fffc, at], [0x6fff_fffd, names.len() as u64]])
    }
}

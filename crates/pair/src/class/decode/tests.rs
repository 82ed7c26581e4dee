use super::*;

/// Code at an address.
struct Bytes {
    start: u64,
    bytes: Vec<u8>,
}

impl ReadCode for Bytes {
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> usize {
        let Some(offset) = address.checked_sub(self.start) else { return 0 };
        let rest = self.bytes.get(offset as usize..).unwrap_or_default();
        let len = rest.len().min(bytes.len());
        bytes[..len].copy_from_slice(&rest[..len]);
        len
    }
}

const START: u64 = 0x40_0000;
/// Bytes of other code before the code of a test.
const AHEAD: usize = 128;

const SFENCE: &[u8] = &[0x0f, 0xae, 0xf8];
/// `clwb [rdi]`
const CLWB: &[u8] = &[0x66, 0x0f, 0xae, 0x37];
/// `movnti [rdi], rax`
const MOVNTI: &[u8] = &[0x48, 0x0f, 0xc3, 0x07];
/// `mov rax, [rax]`
const CHASE: &[u8] = &[0x48, 0x8b, 0x00];
/// `mov rdx, [rsi + rcx*8 + 16]`
const LOAD: &[u8] = &[0x48, 0x8b, 0x54, 0xce, 0x10];
/// `add rcx, 1`
const ADD: &[u8] = &[0x48, 0x83, 0xc1, 0x01];
const PAUSE: &[u8] = &[0xf3, 0x90];
const RET: &[u8] = &[0xc3];

/// The address of the piece at that index, and code that consists of these pieces in order.
fn code(pieces: &[&[u8]], index: usize) -> (Bytes, u64) {
    let mut bytes = vec![0x90; AHEAD];
    let at = AHEAD + pieces[..index].iter().map(|piece| piece.len()).sum::<usize>();
    pieces.iter().for_each(|piece| bytes.extend_from_slice(piece));
    (Bytes { start: START, bytes }, START + at as u64)
}

/// [`code`] with a jump back to the first piece at the end, and a return behind it.
fn looping(pieces: &[&[u8]], index: usize) -> (Bytes, u64) {
    let len: usize = pieces.iter().map(|piece| piece.len()).sum();
    let jump = [0x75, (-(len as i64 + 2)) as u8];
    code(&[pieces, &[&jump, RET]].concat(), index)
}

fn sample(address: u64, bits: u32) -> Sample {
    Sample { address, registers: [0; 16], bits }
}

fn site((mut bytes, at): (Bytes, u64)) -> Site {
    Site::at(&mut bytes, &sample(at, 64))
}

fn culprit_of(code: (Bytes, u64)) -> Option<InstructionKind> {
    site(code).culprit.map(|(kind, _)| kind)
}

#[test]
fn the_last_retired_instruction_is_the_culprit() {
    let site = site(code(&[CLWB, SFENCE, ADD, RET], 2));
    assert_eq!(site.culprit, Some((InstructionKind::Fence, START + AHEAD as u64 + 4)));
    assert!(site.writes_back && site.fences && !site.spins);
    assert_eq!(culprit_of(code(&[LOAD, ADD, ADD, RET], 3)), Some(InstructionKind::Memory));
    assert_eq!(culprit_of(code(&[LOAD, ADD, ADD, ADD, ADD, RET], 5)), None, "too far away");
    assert_eq!(culprit_of(code(&[MOVNTI, RET], 1)), Some(InstructionKind::Nontemporal));
}

#[test]
fn a_prefetch_does_not_stall() {
    // `prefetcht0 [rdi + rcx*8]`, `cldemote [rdi]`, `lea rax, [rdi + 8]`, `nop [rax + 0]`
    let plain: [&[u8]; 4] = [
        &[0x0f, 0x18, 0x0c, 0xcf],
        &[0x0f, 0x1c, 0x07],
        &[0x48, 0x8d, 0x47, 0x08],
        &[0x0f, 0x1f, 0x40, 0x00],
    ];
    for piece in plain {
        let site = site(code(&[piece, RET], 1));
        assert!(site.culprit.is_none() && site.accesses.is_empty(), "{piece:x?}");
    }
}

#[test]
fn a_locked_instruction_waits_for_lines_that_are_written_back() {
    // `lock cmpxchg [rsi], rdx`, `xchg [rsi], rdx`, `lock add [rsi], rdx`
    let locked: [&[u8]; 3] =
        [&[0xf0, 0x48, 0x0f, 0xb1, 0x16], &[0x48, 0x87, 0x16], &[0xf0, 0x48, 0x01, 0x16]];
    for piece in locked {
        let behind = site(code(&[CLWB, piece, ADD, RET], 2));
        assert_eq!(
            behind.culprit,
            Some((InstructionKind::Fence, START + AHEAD as u64 + 4)),
            "{piece:x?}"
        );
        assert!(behind.writes_back && behind.fences);
        assert!(site(code(&[MOVNTI, piece, ADD, RET], 2)).fences);
        let alone = site(code(&[piece, ADD, RET], 1));
        assert_eq!(alone.culprit.unwrap().0, InstructionKind::Memory, "{piece:x?}");
        assert!(!alone.fences && alone.accesses.len() == 1);
    }
    // `xchg rsi, rdx` touches no memory; behind a fence a store waits for the fence.
    assert_eq!(
        culprit_of(code(&[CLWB, &[0x48, 0x87, 0xd6], RET], 2)),
        Some(InstructionKind::Flush)
    );
    assert_eq!(culprit_of(code(&[SFENCE, locked[1], RET], 2)), Some(InstructionKind::Fence));
}

#[test]
fn stores_past_the_caches_go_where_their_registers_tell() {
    // `movdir64b rsi, [rdx]`, `movdiri [rsi], rax`, `clzero`, `movntsd [rsi], xmm0`
    let stores: [(&[u8], usize); 4] = [
        (&[0x66, 0x0f, 0x38, 0xf8, 0x32], 6),
        (&[0x48, 0x0f, 0x38, 0xf9, 0x06], 6),
        (&[0x0f, 0x01, 0xfc], 0),
        (&[0xf2, 0x0f, 0x2b, 0x06], 6),
    ];
    for (piece, register) in stores {
        let site = site(code(&[piece, RET], 1));
        assert_eq!(
            site.culprit,
            Some((InstructionKind::Nontemporal, START + AHEAD as u64)),
            "{piece:x?}"
        );
        assert!(site.writes_back && site.stores, "{piece:x?}");
        let mut registers = [0; 16];
        registers[register] = 0x5000;
        assert_eq!(site.accesses[0].operand.address(&registers), 0x5000, "{piece:x?}");
    }
}

#[test]
fn the_head_of_a_loop_comes_behind_its_end() {
    assert_eq!(culprit_of(looping(&[ADD, CLWB, SFENCE], 0)), Some(InstructionKind::Fence));
    assert_eq!(culprit_of(looping(&[ADD, CLWB, SFENCE], 1)), Some(InstructionKind::Fence));
}

#[test]
fn a_loop_without_effect_waits_for_another_thread() {
    // `cmp qword [rdi], 0`
    let look: &[u8] = &[0x48, 0x83, 0x3f, 0x00];
    assert!(site(looping(&[look], 0)).spins);
    // `lea rdi, [rsp + 8]`, `mov [rsp], rdi`: recomputed in each round.
    let anew: [&[u8]; 3] = [&[0x48, 0x8d, 0x7c, 0x24, 0x08], &[0x48, 0x89, 0x3c, 0x24], look];
    assert!((0..3).all(|index| site(looping(&anew, index)).spins));
    // `mov rdx, [rsp + 8]`, `mov rdx, [rdx]`: loaded in each round.
    let loaded: [&[u8]; 3] = [&[0x48, 0x8b, 0x54, 0x24, 0x08], &[0x48, 0x8b, 0x12], look];
    assert!((0..3).all(|index| site(looping(&loaded, index)).spins));
    // `mov rax, [rsp]`, `add rax, 1`, `mov [rsp], rax`: counted in memory.
    let counts: [&[u8]; 3] =
        [&[0x48, 0x8b, 0x04, 0x24], &[0x48, 0x83, 0xc0, 1], &[0x48, 0x89, 0x04, 0x24]];
    assert!((0..3).all(|index| !site(looping(&counts, index)).spins));
    assert_eq!(culprit_of(looping(&[PAUSE, look], 1)), Some(InstructionKind::Pause));
    for carries in [CHASE, ADD, &[0x48, 0xff, 0x07] /* inc qword [rdi] */] {
        assert!(!site(looping(&[look, carries], 0)).spins, "{carries:x?}");
    }
}

#[test]
fn behind_a_call_the_function_is_to_blame() {
    // A `call` of the function behind the return; `call rbx`; `call [rip + 1]` of a pointer behind
    // the return.
    let near: &[u8] = &[0xe8, 1, 0, 0, 0];
    assert_eq!(culprit_of(code(&[near, RET, CLWB, SFENCE, RET], 1)), Some(InstructionKind::Fence));
    let (mut bytes, at) = code(&[&[0xff, 0xd3], RET, SFENCE, RET], 1);
    let mut behind = sample(at, 64);
    behind.registers[3] = at + 1;
    let culprit = |bytes: &mut Bytes, sample: &Sample| Site::at(bytes, sample).culprit;
    assert_eq!(culprit(&mut bytes, &behind).unwrap().0, InstructionKind::Fence);
    behind.registers[3] = 0;
    assert_eq!(culprit(&mut bytes, &behind), None, "nothing is there");
    let through: &[u8] = &[0xff, 0x15, 1, 0, 0, 0];
    let pointer = (START + AHEAD as u64 + 15).to_le_bytes();
    assert_eq!(
        culprit_of(code(&[through, RET, &pointer, SFENCE, RET], 1)),
        Some(InstructionKind::Fence)
    );
}

/// The pattern of unoptimised code and of method tables.
#[test]
fn a_pointer_that_calls_do_not_keep_is_found_where_it_was_loaded() {
    // `mov rax, [rsp]`, `mov rcx, rax`, `mov edx, 1`; `call rcx`, `call [rax + 8]`.
    let (load, copy): (&[u8], &[u8]) = (&[0x48, 0x8b, 0x04, 0x24], &[0x48, 0x89, 0xc1]);
    let (other, by_copy): (&[u8], &[u8]) = (&[0xba, 1, 0, 0, 0], &[0xff, 0xd1]);
    let by_table: &[u8] = &[0xff, 0x50, 0x08];
    let culprit = |pieces: &[&[u8]], words: [u64; 2]| {
        let (mut bytes, behind) = code(&[pieces, &[RET, SFENCE, RET]].concat(), pieces.len());
        let mut sample = sample(behind, 64);
        sample.registers[4] = START + bytes.bytes.len() as u64;
        words.iter().for_each(|word| bytes.bytes.extend_from_slice(&word.to_le_bytes()));
        Site::at(&mut bytes, &sample).culprit.map(|(kind, _)| kind)
    };
    let function = |pieces: &[&[u8]]| {
        START + AHEAD as u64 + pieces.iter().map(|piece| piece.len()).sum::<usize>() as u64 + 1
    };
    let pieces = [load, copy, other, by_copy];
    assert_eq!(culprit(&pieces, [function(&pieces), 0]), Some(InstructionKind::Fence));
    let pieces = [load, other, by_table];
    let table = function(&pieces) + 4;
    assert_eq!(culprit(&pieces, [table, function(&pieces)]), Some(InstructionKind::Fence));
    // The register was overwritten between the load and the call.
    let pieces = [load, &[0xe8, 0, 0, 0, 0], by_table];
    assert_eq!(culprit(&pieces, [table, function(&pieces)]), Some(InstructionKind::Memory));
}

/// `mov rdx, [rsp]`
const SLOT: &[u8] = &[0x48, 0x8b, 0x14, 0x24];

#[test]
fn a_short_loop_that_calls_a_flush_waits_for_it() {
    // A call of the function behind the loop: its flush is a call deeper.
    let near: &[u8] = &[0xe8, 7, 0, 0, 0];
    let deeper = |flush: &'static [u8]| {
        let pieces: [&[u8]; 8] =
            [near, SLOT, &[0x75, 0xf5], RET, &[0xe8, 1, 0, 0, 0], RET, flush, RET];
        site(code(&pieces, 2))
    };
    assert!(deeper(CLWB).drains);
    assert!(!deeper(MOVNTI).drains, "a large copy may go past the caches");
    assert!(!deeper(ADD).drains);
}

#[test]
fn the_loop_around_the_caller_counts_as_well() {
    // The function behind the loop; a call of it, of a flush behind it, and a jump back.
    let pieces: [&[u8]; 9] = [
        &[0xe8, 8, 0, 0, 0],
        &[0xe8, 10, 0, 0, 0],
        &[0x75, 0xf4],
        RET,
        &[0x55],
        SLOT,
        &[0x5d],
        RET,
        CLWB,
    ];
    let (mut bytes, at) = code(&[&pieces[..], &[RET]].concat(), 6);
    let back = START + AHEAD as u64 + 5;
    let mut inside = sample(at, 64);
    // The saved frame pointer lies above the stack pointer, then the return address.
    inside.registers[4] = START + bytes.bytes.len() as u64;
    bytes.bytes.extend_from_slice(&[0; 8]);
    bytes.bytes.extend_from_slice(&back.to_le_bytes());
    assert!(Site::at(&mut bytes, &inside).drains);
    let end = bytes.bytes.len();
    bytes.bytes[end - 8..].copy_from_slice(&(back + 1).to_le_bytes());
    assert!(!Site::at(&mut bytes, &inside).drains, "no call is before that");
}

#[test]
fn the_stack_is_near() {
    // A load of the stack, then another load: the first cannot be waited for.
    let loads = |first: &'static [u8]| culprit_of(code(&[first, SLOT, ADD, RET], 3));
    assert_eq!(loads(LOAD), Some(InstructionKind::Memory));
    assert_eq!(loads(ADD), None);
    // `mov rdx, [rbp - 8]` is one only if rbp is a frame pointer.
    let (mut bytes, at) = code(&[&[0x48, 0x8b, 0x55, 0xf8], RET], 1);
    let mut sample = sample(at, 64);
    sample.registers[4] = 0x7fff_0000;
    sample.registers[5] = 0x7fff_0040;
    assert!(Site::at(&mut bytes, &sample).culprit.is_none());
    sample.registers[5] = 0x5000_0000;
    assert!(Site::at(&mut bytes, &sample).culprit.is_some());
}

#[test]
fn a_store_waits_for_the_fence_before_it() {
    // `mov [rdi], rax`
    let store: &[u8] = &[0x48, 0x89, 0x07];
    let rest: [&[u8]; 6] = [ADD, LOAD, ADD, ADD, store, RET];
    assert_eq!(culprit_of(code(&[&[SFENCE], &rest[..]].concat(), 6)), Some(InstructionKind::Fence));
    assert_eq!(
        culprit_of(code(&[&[SFENCE, store], &rest[..]].concat(), 7)),
        Some(InstructionKind::Memory)
    );
}

#[test]
fn a_function_begins_behind_its_call() {
    // A call of the code behind the return; the return address is on a stack behind the code.
    let near: &[u8] = &[0xe8, 1, 0, 0, 0];
    let (mut bytes, at) = code(&[SFENCE, near, RET, ADD, RET, &[0; 8]], 3);
    let mut entry = sample(at, 64);
    let stack = bytes.bytes.len() - 8;
    bytes.bytes[stack..].copy_from_slice(&(at - 1).to_le_bytes());
    entry.registers[4] = START + stack as u64;
    assert_eq!(Site::at(&mut bytes, &entry).culprit.unwrap().0, InstructionKind::Fence);
    bytes.bytes[stack..].copy_from_slice(&(at + 1).to_le_bytes());
    assert_eq!(Site::at(&mut bytes, &entry).culprit, None, "no call is before that");
}

#[test]
fn addresses_are_those_that_registers_still_tell() {
    // Behind the load rdx is overwritten, but not the registers of its address.
    let behind = site(code(&[LOAD, RET], 1));
    let mut registers = [0; 16];
    (registers[6], registers[1]) = (0x1000, 3);
    let address = |site: &Site| {
        site.accesses.iter().map(|a| a.operand.address(&registers)).collect::<Vec<_>>()
    };
    assert_eq!(address(&behind), [0x1000 + 24 + 16]);
    let gone = site(code(&[LOAD, ADD, RET], 2));
    assert_eq!(gone.accesses, [], "rcx is another");
    // The chase overwrites its own address; the address of the next round is known.
    let chase = site(looping(&[CHASE, ADD], 1));
    assert_eq!(chase.accesses.len(), 1);
    registers[0] = 0x7777;
    assert_eq!(chase.accesses[0].operand.address(&registers), 0x7777);
}

#[test]
fn boundaries_are_found_behind_bytes_that_are_no_code() {
    let mut rest = code(&[&[0x48, 0xb8], &[0; 8], CLWB, SFENCE, RET], 4);
    rest.0.bytes[..AHEAD].iter_mut().enumerate().for_each(|(n, byte)| *byte = (n * 7) as u8);
    assert_eq!(culprit_of(rest), Some(InstructionKind::Fence));
}

#[test]
fn code_that_cannot_be_read_says_nothing() {
    let site = Site::at(&mut Bytes { start: START, bytes: Vec::new() }, &sample(START, 64));
    assert!(site.culprit.is_none() && site.accesses.is_empty() && !site.spins && site.unread);
    let site =
        Site::at(&mut Bytes { start: START, bytes: vec![0x06; 200] }, &sample(START + 100, 64));
    assert!(site.culprit.is_none() && !site.unread, "no instruction");
    for address in [0, 5, u64::MAX] {
        Site::at(&mut Bytes { start: START, bytes: Vec::new() }, &sample(address, 32));
    }
}

proptest::proptest! {
    #[test]
    fn any_bytes_are_decoded(bytes: Vec<u8>, at in 0_u64..300, wide: bool) {
        Site::at(&mut Bytes { start: START, bytes }, &sample(START + at, if wide { 64 } else { 32 }));
    }
}

#[test]
fn each_instruction_of_a_loop_that_flushes_in_each_round_waits_for_that() {
    let store: &[u8] = &[0x48, 0x89, 0x07]; // `mov [rdi], rax`
    for index in 0..5 {
        assert!(site(looping(&[store, CLWB, SFENCE, ADD, ADD, ADD, ADD, ADD], index)).drains);
    }
    assert!(!site(looping(&[store, CLWB, ADD, ADD], 3)).drains, "nothing waits");
    // `jz` over the flush: only some rounds reach it.
    let over: &[u8] = &[0x74, (CLWB.len() + SFENCE.len()) as u8];
    assert!(!site(looping(&[store, over, CLWB, SFENCE, ADD], 4)).drains);
}

#[test]
fn a_function_behind_a_jump_between_libraries_has_its_caller() {
    // A loop that calls a jump to `sfence`, `ret`, which begin behind a return.
    let call: &[u8] = &[0xe8, 0x03, 0x00, 0x00, 0x00];
    let back: &[u8] = &[0xeb, 0xf9];
    let jump: &[u8] = &[0xeb, 0x01];
    let (code, at) = code(&[call, back, RET, jump, RET, SFENCE, RET], 5);
    let (top, back) = (0x9000_u64, START + AHEAD as u64 + 5);
    struct WithStack(Bytes, u64, u64);
    impl ReadCode for WithStack {
        fn read(&mut self, address: u64, bytes: &mut [u8]) -> usize {
            if address == self.1 && bytes.len() == 8 {
                bytes.copy_from_slice(&self.2.to_le_bytes());
                return 8;
            }
            self.0.read(address, bytes)
        }
    }
    let mut sample = sample(at, 64);
    sample.registers[STACK] = top;
    let site = Site::at(&mut WithStack(code, top, back), &sample);
    assert!(site.waits && site.round.first() == Some(&back), "{site:?}");
}

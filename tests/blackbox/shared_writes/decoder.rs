//! Finds the memory operand of atomic x86-64 instructions: those with a LOCK prefix, and XCHG with a
//! memory operand (Intel SDM volume 2, chapter 2).

/// Memory operand of an atomic instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Operand {
    base: Option<u8>,
    index: Option<(u8, u8)>,
    displacement: i64,
    /// Length of the instruction, if the operand is relative to the next instruction.
    relative: Option<u64>,
    /// Whether the address is relative to the thread's own data (FS).
    pub(super) is_thread_local: bool,
}

impl Operand {
    /// Returns the address. `registers` are RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8 to R15.
    pub(super) fn address(&self, registers: &[u64; 16], instruction: u64) -> u64 {
        let of = |number: u8| registers[usize::from(number)];
        let base = self.base.map_or(0, of).wrapping_add(self.relative.map_or(0, |length| instruction + length));
        let index = self.index.map_or(0, |(number, scale)| of(number) << scale);
        base.wrapping_add(index).wrapping_add_signed(self.displacement)
    }
}

/// Returns the operand if the bytes start with an atomic instruction.
pub(super) fn atomic_operand(bytes: &[u8]) -> Option<Operand> {
    let (mut at, mut has_lock, mut is_thread_local, mut is_short) = (0, false, false, false);
    loop {
        match bytes.get(at)? {
            0xf0 => has_lock = true,
            0x64 => is_thread_local = true,
            0x66 => is_short = true,
            0x2e | 0x36 | 0x3e | 0x26 | 0x65 | 0xf2 | 0xf3 => {}
            _ => break,
        }
        at += 1;
    }
    let mut rex = 0;
    if bytes.get(at)? & 0xf0 == 0x40 {
        rex = bytes[at];
        at += 1;
    }
    let opcode = *bytes.get(at)?;
    at += 1;
    let immediate = if opcode == 0x0f {
        let second = *bytes.get(at)?;
        at += 1;
        if !has_lock {
            return None;
        }
        u64::from(second == 0xba)
    } else {
        // XCHG with memory is always atomic.
        if !has_lock && !matches!(opcode, 0x86 | 0x87) {
            return None;
        }
        match opcode {
            0x80 | 0x83 => 1,
            0x81 if is_short => 2,
            0x81 => 4,
            _ => 0,
        }
    };
    let modrm = *bytes.get(at)?;
    at += 1;
    let (mode, low) = (modrm >> 6, modrm & 7);
    if mode == 3 {
        return None;
    }
    let (b, x) = ((rex & 1) << 3, (rex & 2) << 2);
    let (mut base, mut index, mut is_relative) = (Some(low | b), None, false);
    let mut wide = mode == 2;
    if low == 4 {
        let sib = *bytes.get(at)?;
        at += 1;
        let number = (sib >> 3 & 7) | x;
        index = (number != 4).then_some((number, sib >> 6));
        base = Some((sib & 7) | b);
        if sib & 7 == 5 && mode == 0 {
            base = None;
            wide = true;
        }
    } else if low == 5 && mode == 0 {
        (base, is_relative, wide) = (None, true, true);
    }
    let displacement = if wide {
        let four = bytes.get(at..at + 4)?.try_into().ok()?;
        at += 4;
        i64::from(i32::from_le_bytes(four))
    } else if mode == 1 {
        at += 1;
        i64::from(i8::from_le_bytes([*bytes.get(at - 1)?]))
    } else {
        0
    };
    let relative = is_relative.then_some(at as u64 + immediate);
    Some(Operand { base, index, displacement, relative, is_thread_local })
}

#[test]
fn operands_of_atomic_instructions_are_found() {
    let registers = std::array::from_fn(|number| 0x1000 * (number as u64 + 1));
    let address = |bytes: &[u8]| atomic_operand(bytes).map(|operand| operand.address(&registers, 0x40_0000));
    for (bytes, expected) in [
        // lock inc qword [rax]
        (&[0xf0, 0x48, 0xff, 0x00][..], Some(0x1000)),
        // lock xadd [rdi+0x10], rax
        (&[0xf0, 0x48, 0x0f, 0xc1, 0x47, 0x10], Some(0x8010)),
        // lock cmpxchg [r13-8], ecx
        (&[0xf0, 0x41, 0x0f, 0xb1, 0x4d, 0xf8], Some(0xe000 - 8)),
        // lock add qword [rip+0x100], 1
        (&[0xf0, 0x48, 0x83, 0x05, 0, 1, 0, 0, 1], Some(0x40_0109)),
        // lock sub dword [rbx+rcx*8+0x20], 1
        (&[0xf0, 0x83, 0x6c, 0xcb, 0x20, 1], Some(0x4000 + 0x2000 * 8 + 0x20)),
        // lock or dword [rsp], 0 (a fence)
        (&[0xf0, 0x83, 0x0c, 0x24, 0], Some(0x5000)),
        // xchg [r12], al
        (&[0x41, 0x86, 0x04, 0x24], Some(0xd000)),
        // xchg rax, rbx; mov [rax], rbx
        (&[0x48, 0x87, 0xd8], None),
        (&[0x48, 0x89, 0x18], None),
    ] {
        assert_eq!(address(bytes), expected, "{bytes:x?}");
    }
}

//! Runs threads of a process one instruction at a time (ptrace(2)), and records where they write
//! atomically.
#![expect(unsafe_code, reason = "ptrace has no safe interface")]

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use libc::{c_int, c_void, pid_t, user_regs_struct};

use super::decoder::{Operand, atomic_operand};

/// Maximum length of an instruction in bytes.
const LONGEST: usize = 15;

/// An atomic write.
#[derive(Debug, Clone, Copy)]
pub(super) struct AtomicWrite {
    pub(super) thread: pid_t,
    pub(super) instruction: u64,
    pub(super) address: u64,
}

fn ptrace(request: u32, thread: pid_t, data: *mut c_void) -> io::Result<()> {
    // SAFETY: the requests of this module read at most `data`, which is a number or points to a
    // `user_regs_struct`.
    let done = unsafe { libc::ptrace(request, thread, std::ptr::null_mut::<c_void>(), data) };
    if done == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Returns the status of a thread that has stopped.
fn stopped(thread: pid_t) -> Option<c_int> {
    let mut status = 0;
    // SAFETY: `status` is valid for the length of the call.
    let waited = unsafe { libc::waitpid(thread, &raw mut status, libc::__WALL | libc::WNOHANG) };
    (waited == thread).then_some(status)
}

/// Traces threads until `done`. Calls `traced` as soon as all are traced.
///
/// Must be called on one thread of the caller, to which the kernel reports.
pub(super) fn trace(process: u32, threads: &[pid_t], traced: impl FnOnce(), done: &AtomicBool) -> Vec<AtomicWrite> {
    let memory = File::open(format!("/proc/{process}/mem")).unwrap();
    let mut known: HashMap<u64, Option<Operand>> = HashMap::new();
    let mut writes = Vec::new();
    for &thread in threads {
        ptrace(libc::PTRACE_SEIZE, thread, std::ptr::null_mut()).unwrap();
        ptrace(libc::PTRACE_INTERRUPT, thread, std::ptr::null_mut()).unwrap();
    }
    let mut traced = Some(traced);
    let mut is_running = vec![true; threads.len()];
    let mut waiting = 0;
    loop {
        let is_done = done.load(Ordering::Acquire);
        let mut has_stepped = false;
        for (thread, is_running) in threads.iter().copied().zip(&mut is_running) {
            let Some(status) = stopped(thread) else { continue };
            assert!(libc::WIFSTOPPED(status), "a thread ended: {status:x}");
            *is_running = false;
            if is_done {
                continue;
            }
            // SAFETY: all bytes of the structure may be zero, and ptrace fills it.
            let mut registers: user_regs_struct = unsafe { std::mem::zeroed() };
            ptrace(libc::PTRACE_GETREGS, thread, (&raw mut registers).cast()).unwrap();
            let instruction = registers.rip;
            let operand = *known.entry(instruction).or_insert_with(|| {
                let mut bytes = [0; LONGEST];
                let length = memory.read_at(&mut bytes, instruction).unwrap_or(0);
                atomic_operand(&bytes[..length])
            });
            if let Some(operand) = operand {
                let own = if operand.is_thread_local { registers.fs_base } else { 0 };
                let address = operand.address(&in_order(&registers), instruction).wrapping_add(own);
                writes.push(AtomicWrite { thread, instruction, address });
            }
            // A signal is delivered; a stop of ptrace itself is not a signal.
            let signal = libc::WSTOPSIG(status);
            let signal = if signal == libc::SIGTRAP || status >> 16 != 0 { 0 } else { signal };
            ptrace(libc::PTRACE_SINGLESTEP, thread, signal as *mut c_void).unwrap();
            (*is_running, has_stepped) = (true, true);
        }
        if is_done {
            if !is_running.contains(&true) {
                break;
            }
            for (&thread, _) in threads.iter().zip(&is_running).filter(|(_, is_running)| **is_running) {
                // Fails if the thread has stopped meanwhile.
                let _ = ptrace(libc::PTRACE_INTERRUPT, thread, std::ptr::null_mut());
            }
            thread::sleep(Duration::from_millis(1));
        } else if has_stepped {
            waiting = 0;
        } else {
            // All threads wait in the kernel.
            waiting += 1;
            if waiting > 1000 {
                if let Some(traced) = traced.take() {
                    traced();
                }
                thread::sleep(Duration::from_micros(50));
            }
        }
    }
    for &thread in threads {
        ptrace(libc::PTRACE_DETACH, thread, std::ptr::null_mut()).unwrap();
    }
    writes
}

fn in_order(registers: &user_regs_struct) -> [u64; 16] {
    let user_regs_struct { rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8, r9, r10, r11, r12, r13, r14, r15, .. } =
        *registers;
    [rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8, r9, r10, r11, r12, r13, r14, r15]
}

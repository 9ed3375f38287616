# Functions whose unwind rules are of each kind that the reader knows, and of some that it does not.
# The addresses are those that `unwind_tables` in crates/profiler/src/fuzzing.rs expects.
    .text
    .globl _start
_start:                       # an entry point: no return address
    .cfi_startproc
    .cfi_undefined rip
    xor %ebp, %ebp
    call framed
    ud2
    .cfi_endproc

framed:                       # a frame pointer
    .cfi_startproc
    push %rbp
    .cfi_def_cfa_offset 16
    .cfi_offset rbp, -16
    mov %rsp, %rbp
    .cfi_def_cfa_register rbp
    call frameless
    pop %rbp
    .cfi_def_cfa rsp, 8
    ret
    .cfi_endproc

frameless:                    # none; remembers and restores a state
    .cfi_startproc
    push %rbx
    .cfi_def_cfa_offset 16
    .cfi_offset rbx, -16
    sub $64, %rsp
    .cfi_adjust_cfa_offset 64
    .cfi_remember_state
    add $64, %rsp
    .cfi_adjust_cfa_offset -64
    ret
    .cfi_restore_state
    call expression
    ud2
    .cfi_endproc

expression:                   # DW_CFA_def_cfa_expression: breg7 (rsp) + 8
    .cfi_startproc
    .cfi_escape 0x0f, 2, 0x77, 8
    nop
    # DW_CFA_val_expression of rbp, then of a register that nobody asks for
    .cfi_escape 0x16, 6, 2, 0x77, 16
    .cfi_escape 0x16, 3, 2, 0x77, 16
    nop
    ret
    .cfi_endproc

signal:                       # a signal trampoline, with augmentation 'S'
    .cfi_startproc
    .cfi_signal_frame
    .cfi_def_cfa r12, 32
    .cfi_same_value rbp
    nop
    ret
    .cfi_endproc
    .section .note.GNU-stack, "", @progbits

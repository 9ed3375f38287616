# An allocator whose functions begin in each of the ways that the reader of places knows.
    .macro begin name
    .globl \name
    .type \name, @function
\name:
    .endm
    .macro end name
    .size \name, . - \name
    .endm

    .text
    .globl _start
_start:
    ud2

    begin malloc              # an instruction that is emulated
    push %rbx
    xor %eax, %eax
    pop %rbx
    ret
    end malloc

    begin free                # one that is not, and then one that is
    test %rdi, %rdi
    je 1f
    nop
1:  ret
    end free

    begin realloc             # hands on what has no block
    test %rdi, %rdi
    jne 1f
    mov %rsi, %rdi
    jmp malloc
1:  xor %eax, %eax
    ret
    end realloc

    begin je_malloc           # is another function
    jmp malloc
    end je_malloc

    begin mi_calloc           # loses its argument first
    imul %rsi, %rdi
    push %rbx
    pop %rbx
    ret
    end mi_calloc

    begin _ZdlPv              # an operator
1:  test %rdi, %rdi
    jne 1b
    ret
    end _ZdlPv

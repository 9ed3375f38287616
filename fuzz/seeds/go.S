# A program of two functions with the table that Go's linker makes of them (the layout of Go 1.26, where
# another section says where the code is): `runtime.goexit`, marked as outermost, and `main.b`, which has
# a frame.
    .text
    .globl _start
_start:
a:  nop
    ret
b:  sub $24, %rsp
    add $24, %rsp
    ret
end:
    .section .gopclntab, "a", @progbits
    .balign 32
table:
    .byte 0xf1, 0xff, 0xff, 0xff, 0, 0, 1, 8
    .quad 2, 1, 0
    .quad names - table, units - table, files - table, values - table, list - table
names:
    .asciz "runtime.goexit"
name_b:
    .asciz "main.b"
    .balign 4
units:
    .long 0
files:
    .asciz "b.go"
values:
    .byte 0
stack:                        # 0 for 4 bytes, 24 for 4, 0 for the last
    .byte 2, 4, 48, 4, 47, 1, 0
lines:                        # line 3
    .byte 8, 9, 0
file:                         # the first of the unit
    .byte 2, 9, 0
    .balign 4
list:
    .long 0, function_a - list, b - a, function_b - list, end - a
function_a:
    .long 0, 0, 0, 0, 0, file - values, lines - values, 0, 0, 1
    .byte 7, 1, 0, 0
function_b:
    .long b - a, name_b - names, 0, 0, stack - values, file - values, lines - values, 0, 0, 3
    .byte 0, 0, 0, 0
    .section .go.module, "aw", @progbits
    .balign 32
    .quad table, names
    .fill 20, 8, 0
    .quad a
    .section .note.GNU-stack, "", @progbits

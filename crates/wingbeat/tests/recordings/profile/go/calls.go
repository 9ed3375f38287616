// C calls from Go, and Go calls from C, for a number of milliseconds.
package main

/*
extern void goWork(int);
static __attribute__((noinline)) void c_middle(int n) {
	for (int i = 0; i < 3; i++) goWork(n);
	__asm__ volatile("" ::: "memory");
}
static void c_calls(int n) { c_middle(n); __asm__ volatile("" ::: "memory"); }
*/
import "C"

import (
	"os"
	"strconv"
	"time"
)

var sum int

//go:noinline
func spin(n int) int {
	sum := 1
	for i := 0; i < n*100000; i++ {
		sum = sum*31 + i
	}
	return sum
}

//export goWork
func goWork(n C.int) { sum += spin(int(n)) }

//go:noinline
func callsC() { C.c_calls(3) }

func main() {
	milliseconds, _ := strconv.Atoi(os.Args[1])
	until := time.Now().Add(time.Duration(milliseconds) * time.Millisecond)
	done := make(chan bool)
	go func() {
		for time.Now().Before(until) {
			callsC()
		}
		done <- true
	}()
	<-done
}

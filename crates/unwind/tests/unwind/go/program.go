// Functions of several kinds, with packages that have assembly.
package main

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"sort"
	"strings"
)

type shape interface{ area() float64 }

type square struct{ side float64 }

func (s square) area() float64 { return s.side * s.side }

type circle struct{ radius float64 }

func (c *circle) area() float64 { return 3 * c.radius * c.radius }

//go:noinline
func total[T shape](shapes []T) float64 {
	sum := 0.0
	for _, shape := range shapes {
		sum += shape.area()
	}
	return sum
}

//go:noinline
func deep(depth int) int {
	var space [100]int
	if depth == 0 {
		return len(os.Args)
	}
	space[depth%100] = deep(depth - 1)
	return space[depth%100] + 1
}

func main() {
	words := strings.Fields("c b a")
	sort.Slice(words, func(a, b int) bool { return words[a] < words[b] })
	defer func() { fmt.Println(recover(), http.StatusText(deep(199))) }()
	fmt.Println(total([]shape{square{1}, &circle{2}}), total([]square{{3}}))
	panic(fmt.Sprintf("%x", sha256.Sum256([]byte(words[0]))))
}

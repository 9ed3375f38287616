// A server and its clients in one process, for a number of milliseconds.
package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"sort"
	"strconv"
	"sync"
	"time"
)

type item struct {
	Number int
	Sum    string
}

//go:noinline
func items(count int) []item {
	all := make([]item, count)
	for i := range all {
		all[i] = item{(i * 7919) % 1000, fmt.Sprintf("%x", sha256.Sum256([]byte(strconv.Itoa(i))))}
	}
	sort.Slice(all, func(a, b int) bool { return all[a].Number < all[b].Number })
	return all
}

func handle(response http.ResponseWriter, request *http.Request) {
	json.NewEncoder(response).Encode(items(40))
}

func client(url string, until time.Time) {
	for time.Now().Before(until) {
		response, err := http.Get(url)
		if err != nil {
			panic(err)
		}
		var all []item
		json.NewDecoder(response.Body).Decode(&all)
		response.Body.Close()
	}
}

func main() {
	milliseconds, _ := strconv.Atoi(os.Args[1])
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	http.HandleFunc("/", handle)
	go http.Serve(listener, nil)
	until := time.Now().Add(time.Duration(milliseconds) * time.Millisecond)
	var clients sync.WaitGroup
	for i := 0; i < 4; i++ {
		clients.Add(1)
		go func() {
			defer clients.Done()
			client("http://"+listener.Addr().String()+"/", until)
		}()
	}
	clients.Wait()
}

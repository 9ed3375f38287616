// A server and its clients in one process.
package main
import ("encoding/json"; "fmt"; "io"; "net/http"; "net/http/httptest"; "sort"; "strings"; "sync")
func answer(n int) []string {
	words := make([]string, 0, n)
	for i := 0; i < n; i++ { words = append(words, strings.Repeat(string(rune('a'+i%26)), i%9+1)) }
	sort.Strings(words)
	return words
}
func main() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { json.NewEncoder(w).Encode(answer(300)) }))
	var wait sync.WaitGroup
	for c := 0; c < 4; c++ {
		wait.Add(1)
		go func() {
			defer wait.Done()
			for i := 0; i < 5000; i++ {
				response, err := http.Get(server.URL)
				if err != nil { panic(err) }
				io.Copy(io.Discard, response.Body)
				response.Body.Close()
			}
		}()
	}
	wait.Wait()
	fmt.Println("done")
}

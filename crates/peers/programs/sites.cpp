// Allocates by what C++ programs use: containers, texts, smart pointers, exceptions, a thread. The same each time.
#include <cstdio>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#define PLACE __attribute__((noinline)) static

struct Shape { virtual ~Shape() = default; virtual int area() const = 0; };
struct Square : Shape { int side; char room[72]; explicit Square(int n) : side(n) {} int area() const override { return side * side; } };
struct alignas(128) Line { char bytes[256]; };

static std::vector<std::unique_ptr<Shape>> kept;
static void *volatile last;

PLACE long in_vector(int n) { std::vector<int> v; for (int i = 0; i < n; i++) v.push_back(i); last = v.data(); return v.back(); }
PLACE long in_text(int n) { std::string s; for (int i = 0; i < n; i++) s += "abcdefg"; last = &s[0]; return long(s.size()); }
PLACE long in_map(int n) { std::map<int, int> m; for (int i = 0; i < n; i++) m[i * 7 % n] = i; return long(m.size()); }
PLACE long in_table(int n) { std::unordered_map<int, long> m; for (int i = 0; i < n; i++) m[i] = i; return long(m.size()); }
PLACE long in_list(int n) { std::list<long> l; for (int i = 0; i < n; i++) l.push_back(i); return long(l.size()); }
PLACE long in_array(int n) { std::unique_ptr<double[]> a(new double[n]); last = a.get(); return n; }
PLACE long in_line() { std::unique_ptr<Line> line(new Line); last = line.get(); return 1; }
PLACE long shared(int n) { auto p = std::make_shared<Square>(n); last = p.get(); return p->area(); }
PLACE void keep(int n) { kept.push_back(std::make_unique<Square>(n)); }
PLACE void *never_freed(int n) { char *block = new (std::nothrow) char[size_t(n)]; last = block; return block; }

PLACE long thrown(int n) {
    try { throw std::runtime_error("too many of them, which is a long text for a message: " + std::to_string(n)); }
    catch (const std::exception &error) { return error.what()[0]; }
}

PLACE long called(int n) {
    long a = n, b = n, c = n;
    std::function<long()> sum = [a, b, c] { return a + b + c; };
    last = &sum;
    return sum();
}

int main() {
    long sum = 0;
    for (int i = 0; i < 300; i++) {
        sum += in_vector(100 + i) + in_text(20 + i % 50) + in_map(30) + in_table(40 + i % 9) + in_list(i % 60);
        sum += in_array(77) + in_line() + shared(i) + thrown(i) + called(i);
        keep(i);
        never_freed(1 + i % 90);
    }
    std::thread other([&sum] { for (int i = 0; i < 50; i++) sum += in_vector(10 * i + 1); });
    other.join();
    std::printf("%ld\n", sum);
    return 0;
}

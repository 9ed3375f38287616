// Exceptions through frames with destructors: caught, thrown again, and thrown in a destructor's frame.
#include <stdexcept>
#include <string>

static volatile long sink;

struct Guard {
    long number;
    explicit Guard(long n) : number(n) { sink += n; }
    __attribute__((noinline)) ~Guard() { sink -= number; }
};

__attribute__((noinline)) static long thrower(long n) {
    Guard guard(n);
    if (n == 0)
        throw std::runtime_error("the innermost");
    return thrower(n - 1) + guard.number;
}

__attribute__((noinline)) static long rethrower(long n) {
    Guard guard(n);
    try {
        return thrower(n);
    } catch (const std::logic_error &) {
        return 1;
    } catch (...) {
        sink += 3;
        throw;
    }
}

__attribute__((noinline)) static long catcher(long n) {
    try {
        return rethrower(n);
    } catch (const std::exception &error) {
        return std::string(error.what()).size();
    }
}

int main() {
    long sum = catcher(5);
    try {
        throw sum;
    } catch (long number) {
        sum -= number;
    }
    return sum != 0;
}

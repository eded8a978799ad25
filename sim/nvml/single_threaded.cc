// Debian's static archive of yaml-cpp is compiled for programs, not for shared libraries. It
// accesses glibc's __libc_single_threaded with a PC-relative address, so the variable must be
// defined in this library. The value 0 is always correct: it means that atomic counters are used.
extern "C" __attribute__((visibility("hidden"))) char __libc_single_threaded;
char __libc_single_threaded = 0;

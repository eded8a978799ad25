// Debian's archive of yaml-cpp is compiled for programs, not for shared libraries: it reads glibc's
// __libc_single_threaded at a fixed distance, which only a variable of this very library can have. Here it
// is, with the value that is always right: use atomic counters.
extern "C" __attribute__((visibility("hidden"))) char __libc_single_threaded;
char __libc_single_threaded = 0;

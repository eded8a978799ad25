// The process that keeps a pod's namespaces open: reaps orphaned processes and exits on SIGTERM or
// SIGINT.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void on_signal(int number) {
  if (number == SIGCHLD) {
    while (waitpid(-1, 0, WNOHANG) > 0) {
    }
  } else {
    _exit(0);
  }
}

int main(void) {
  struct sigaction action = {.sa_handler = on_signal};
  sigaction(SIGCHLD, &action, 0);
  sigaction(SIGTERM, &action, 0);
  sigaction(SIGINT, &action, 0);
  for (;;) pause();
}

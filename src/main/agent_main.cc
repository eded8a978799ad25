#include "agent/agent.h"

int main(int argc, char** argv) {
  return tessera::agent::run(argc, argv);
}
